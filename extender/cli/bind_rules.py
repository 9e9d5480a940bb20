"""Rules on the bind barrier: the entry with bindVerb, its time, and the right to bind.

The behaviour behind each rule is that of kube-scheduler's extendersBinding in
pkg/scheduler/schedule_one.go, read at v1.36.3 and v1.37.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.cli.kubescheduler import ExtenderEntry, timeout
from extender.model.settings import Settings

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
