"""Rules of ``check`` on the bind barrier."""

from __future__ import annotations

from extender.cli.rule import Rule

BIND_RULES = {
    "bind": Rule(
        "error",
        "kube-scheduler would leave every binding to a call that fails",
        "remove bindVerb, or set bind.enabled: true (docs/barrier.md)",
    ),
    "bind-unused": Rule(
        "warning",
        "kube-scheduler binds members one by one, as without the barrier",
        "add an entry with bindVerb: bind and httpTimeout: 45s, or set bind.enabled: false",
    ),
    "bind-ignorable": Rule(
        "error",
        "a bind that is refused, or not answered, is then done by kube-scheduler itself: a gang "
        "starts in part",
        "write ignorable: false on the entry with bindVerb",
    ),
    "bind-shared": Rule(
        "warning",
        "held bindings need a long httpTimeout, and a filter that hangs would stop all scheduling "
        "for as long; managedResources would narrow filter too",
        "give bindVerb an entry of its own with the same urlPrefix",
    ),
    "bind-ignored": Rule(
        "error",
        "kube-scheduler then does not count {name}, and puts more pods on a node than it has",
        "write ignoredByScheduler: false",
    ),
    "bind-timeout": Rule(
        "error",
        "kube-scheduler gives a held bind up before it is answered, so a gang whose last member is "
        "slow never starts",
        "raise httpTimeout to {enough:g}s or more, or lower bind.holdSeconds",
    ),
    "bind-hold": Rule(
        "warning",
        "the reservations are returned before a bind is held for so long",
        "raise seats.bindSeconds, or lower bind.holdSeconds",
    ),
    "bind-right": Rule(
        "error",
        "no binding is accepted, so no pod that is bound by the extender ever starts",
        "apply manifests/barrier/rbac.yaml",
    ),
    "rollback": Rule(
        "hint",
        "members of a partly bound gang are deleted; a bare pod is not created again",
        "write rollback: keep unless that is meant",
    ),
}
"""On the bind barrier."""
