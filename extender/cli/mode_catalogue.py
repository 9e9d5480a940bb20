"""What ``check`` may find about mode, enforce and observe; the rules are in mode_rules.py."""

from __future__ import annotations

from extender.cli.rule import Rule

MODE_RULES = {
    "observing": Rule(
        "hint",
        "gangs are planned and reported, and nothing is done: kube-scheduler breaks gangs as "
        "without the extender",
        "take the mode out when the reports have convinced you (docs/observe.md)",
    ),
    "observe-unsaved": Rule(
        "hint",
        "what was seen ends with the process, and a weekly report with it",
        "set observe.file to a path on a volume",
    ),
    "observe-leader": Rule(
        "hint",
        "a lease is a write, so it is not taken: each replica observes by itself and counts all",
        "run one replica, and take leadership.enabled out until it acts",
    ),
    "observe-fail-closed": Rule(
        "warning",
        "while the extender is away its scheduler places nothing, and in observe mode nothing is "
        "held that this would protect",
        "write ignorable: true for as long as it observes",
    ),
    "observe-rights": Rule(
        "warning",
        "observe mode writes nothing; without the right to, the API server makes sure of it",
        "bind manifests/observe/rbac.yaml instead for as long as it observes",
    ),
    "enforce-rights": Rule(
        "error",
        "no victim can be evicted, so every plan is given up",
        "apply manifests/rbac.yaml",
    ),
    "enforce-some": Rule(
        "hint",
        "gangs of the other namespaces are left to kube-scheduler, which may break any gang for "
        "them; users who may label namespaces decide for which of them it acts",
        "leave out enforce.namespaces to act for all",
    ),
    "enforce-all-victims": Rule(
        "warning",
        "pods of namespaces that were not chosen are evicted for gangs of those where it acts",
        "write victims: enforced unless their owners know",
    ),
}
"""On the mode."""
