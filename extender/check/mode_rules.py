"""Rules on mode, enforce and observe: what is and is not done, and what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from extender.check.findings import Finding
from extender.check.kubescheduler import ExtenderEntry
from extender.check.rule import Rule, broken, declare
from extender.settings.mode import OBSERVE
from extender.settings.settings import Settings

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
declare(MODE_RULES)


def mode_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """What our own configuration says about whom it acts for."""
    enforce = settings.enforce
    if settings.mode == OBSERVE:
        yield broken("observing", f"{source}: mode", "is observe")
        if not settings.observe.file:
            yield broken("observe-unsaved", f"{source}: observe.file", "is not set")
        if settings.leadership.enabled:
            yield broken("observe-leader", f"{source}: leadership.enabled", "is true")
    if enforce.everybody:
        return
    yield broken("enforce-some", f"{source}: enforce.namespaces", "selects namespaces")
    if enforce.victims == "all":
        yield broken("enforce-all-victims", f"{source}: enforce.victims", "is all")


def observed_entry_findings(entry: ExtenderEntry, place: str) -> Iterator[Finding]:
    """Findings on an entry of kube-scheduler that leads to an extender which only observes."""
    if not entry.ignorable:
        yield broken("observe-fail-closed", f"{place}.ignorable", "is false (fails closed)")
