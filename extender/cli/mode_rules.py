"""Rules on mode, enforce and observe: what is and is not done, and what it is for."""

from __future__ import annotations

from collections.abc import Iterator

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.cli.kubescheduler import ExtenderEntry
from extender.model.mode import OBSERVE
from extender.model.settings import Settings


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
