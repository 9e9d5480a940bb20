"""A finding of ``check``: what is unsafe, where, why it matters and how to repair it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from extender.model.texts import clean

Severity = Literal["error", "warning", "hint"]


class Finding(Struct, frozen=True, kw_only=True):
    """One unsafe or doubtful thing.

    error: a promise is broken or kube-scheduler refuses to start. warning: it works, but worse
    than it could or only under an assumption. hint: worth a thought.
    """

    severity: Severity
    rule: str
    """Stable name for scripts, e.g. ``ignorable``."""
    place: str
    """``file: path`` of the value, or of the parent when the value is missing."""
    problem: str
    why: str
    repair: str


def by_severity(findings: list[Finding]) -> list[Finding]:
    """Errors first; within one severity in the order they were found."""
    order = ("error", "warning", "hint")
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def render(finding: Finding) -> str:
    """The finding as a person reads it."""
    return (
        f"{finding.severity:<8}{clean(f'{finding.place}: {finding.problem}')} [{finding.rule}]\n"
        f"        why:    {clean(finding.why)}\n"
        f"        repair: {clean(finding.repair)}"
    )
