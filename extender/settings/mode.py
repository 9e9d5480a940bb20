"""Whether the extender acts, and for whom: three sections of the settings."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import field

from extender.settings.policy import NamespaceSelector, Section, selector_problems

Mode = Literal["enforce", "observe"]
OBSERVE: Final = "observe"
MOST_GANGS = 10_000


class EnforceSettings(Section, frozen=True, kw_only=True):
    """For whom the extender acts; docs/observe.md."""

    namespaces: NamespaceSelector = field(default_factory=NamespaceSelector)
    """Namespaces whose gangs are planned for. {}: all. In others the extender changes nothing, but
    reserved nodes are held against their pods."""
    victims: Literal["enforced", "all"] = "enforced"
    """Whose pods may be evicted. enforced: only pods of these namespaces. all: pods of every
    namespace."""

    @property
    def everybody(self) -> bool:
        """Whether there is no namespace it does not act for."""
        return self.namespaces == NamespaceSelector()


class ObserveSettings(Section, frozen=True, kw_only=True):
    """What ``mode: observe`` keeps of what it has seen; docs/observe.md."""

    file: str = ""
    """File that keeps what was observed over a restart (JSON). Empty: in memory only."""
    save_seconds: float = 60.0
    """Pause between two writes of the file."""
    weeks: int = 8
    """Weeks that are kept, the present one included."""
    gangs_per_week: int = 200
    """Gangs that are listed one by one for a week, those with the most evictions first. The sums
    count all gangs."""


def problems_of(mode: str, enforce: EnforceSettings, observe: ObserveSettings) -> list[str]:
    """Return what is wrong with the three sections, in words."""
    wrong = selector_problems("enforce.namespaces", enforce.namespaces)
    rules = (
        (observe.save_seconds >= 1, "observe.saveSeconds must be at least 1"),
        (1 <= observe.weeks <= 53, "observe.weeks must be 1..53"),
        (
            1 <= observe.gangs_per_week <= MOST_GANGS,
            f"observe.gangsPerWeek must be 1..{MOST_GANGS}",
        ),
        (
            not observe.file or mode == OBSERVE,
            "observe.file needs mode: observe; nothing is written to it otherwise",
        ),
    )
    return wrong + [text for fine, text in rules if not fine]


def conflicts_of(mode: str, *, binds: bool, grpc: bool) -> list[str]:
    """Return what cannot be had while nothing may be written."""
    if mode != OBSERVE:
        return []
    wrong = []
    if binds:
        wrong.append(
            "bind.enabled needs mode: enforce: a binding is a write, and observe mode writes "
            "nothing; take the entry with bindVerb out of kube-scheduler's configuration too"
        )
    if grpc:
        wrong.append("grpc.listen needs mode: enforce: observe mode serves HTTP only")
    return wrong
