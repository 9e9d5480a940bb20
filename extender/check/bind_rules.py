"""Rules on the bind barrier: the entry with bindVerb, its time, and the right to bind.

The behaviour behind each rule is that of kube-scheduler's extendersBinding in
pkg/scheduler/schedule_one.go, read at v1.36.3 and v1.37.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.check.findings import Finding
from extender.check.kubescheduler import ExtenderEntry, timeout
from extender.check.rule import Rule, broken, declare
from extender.settings.settings import Settings

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
declare(BIND_RULES)


SLACK_SECONDS = 2.0
"""For a pod that the cache does not know yet, and for the call itself."""


def binds_only(entry: ExtenderEntry) -> bool:
    """Whether an entry is asked for bindings and for nothing else."""
    others = (entry.filter_verb, entry.prioritize_verb, entry.preempt_verb)
    return bool(entry.bind_verb) and not any(others)


def bind_findings(
    own: Mapping[str, ExtenderEntry], settings: Settings, source: str
) -> Iterator[Finding]:
    """Findings on our entries, which are keyed by their YAML path."""
    asked = {path: entry for path, entry in own.items() if entry.bind_verb}
    if not settings.bind.enabled:
        for path, entry in asked.items():
            problem = f"is {entry.bind_verb!r}, and bind.enabled is false: it is not served"
            yield broken("bind", f"{source}: {path}.bindVerb", problem)
        return
    if not asked:
        problem = "bindVerb is in none of this extender's entries, while bind.enabled is true"
        yield broken("bind-unused", f"{source}: {list(own)[-1]}", problem)
    for path in list(asked)[1:]:
        problem = f"bind is already asked for by {next(iter(asked))}"
        yield broken("verb-twice", f"{source}: {path}.bindVerb", problem)
    for path, entry in asked.items():
        yield from _entry(entry, f"{source}: {path}", settings)


def _entry(entry: ExtenderEntry, place: str, settings: Settings) -> Iterator[Finding]:
    if entry.bind_verb != "bind":
        problem = f"is {entry.bind_verb!r}"
        yield broken("verb-path", f"{place}.bindVerb", problem, key="bindVerb", verb="bind")
    if entry.ignorable:
        yield broken("bind-ignorable", f"{place}.ignorable", "is true on the entry that binds")
    if not binds_only(entry):
        yield broken("bind-shared", f"{place}.bindVerb", "is on the entry of other verbs")
    for position, resource in enumerate(entry.managed_resources):
        if resource.ignored_by_scheduler:
            where = f"{place}.managedResources[{position}].ignoredByScheduler"
            yield broken("bind-ignored", where, f"is true for {resource.name}", name=resource.name)
    limit = timeout(entry)
    enough = settings.bind.hold_seconds + settings.bind.post_seconds + SLACK_SECONDS
    if limit is not None and 0 <= limit < enough:
        shown = f"is {limit:g} s" if entry.http_timeout else f"is missing, hence {limit:g} s"
        problem = f"{shown}, below bind.holdSeconds, bind.postSeconds and {SLACK_SECONDS:g} s"
        yield broken("bind-timeout", f"{place}.httpTimeout", problem, enough=enough)


def hold_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """What our own configuration says about holding."""
    bind, seats = settings.bind, settings.seats
    if bind.enabled and bind.hold_seconds >= seats.bind_seconds:
        problem = f"is {bind.hold_seconds:g}, not below seats.bindSeconds ({seats.bind_seconds:g})"
        yield broken("bind-hold", f"{source}: bind.holdSeconds", problem)
    if seats.rollback == "delete":
        yield broken("rollback", f"{source}: seats.rollback", "is delete")
