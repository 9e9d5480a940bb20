"""What the page is given of one moment: immutable, taken on the event loop in little time.

Everything dear (resolving gangs, sums over nodes, sorting, text) is done with it on another thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from extender.gang.tell.decisions import Decision
from extender.gang.tell.decisions_per_day import Day
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Hold, Plan, Victim
from extender.model.snapshot import Snapshot
from extender.observe.file import Report
from extender.observe.sums import Told
from extender.settings.settings import Settings


class PreemptionSeen(Struct, frozen=True, kw_only=True):
    """A plan under way."""

    plan: Plan
    id: str
    state: str
    """planned, evicting, waiting, open or changing."""
    binding: bool
    """Members sit already, or may be on their way to their seats."""
    since: float
    """Wall clock at which ``state`` was entered."""
    deadline: float
    """Wall clock at which the seats go back, 0 while that is not known."""
    members: Mapping[str, Pod]
    """uid -> member as it was when planned."""
    seats: Mapping[str, str]
    """uid -> node, for seats not yet taken."""
    victims: tuple[Victim, ...]
    """Not yet seen gone."""
    waits: tuple[Victim, ...]
    """Terminating already when planned, not yet seen gone."""
    sent: frozenset[str]
    """Victims whose eviction the API server has accepted."""
    replans: int


class UnitSeen(Struct, frozen=True):
    """A unit that is being evicted."""

    name: str
    preemptor: str
    plan: str
    left: int
    error: str


class Observed(Struct, frozen=True, kw_only=True):
    """What schedulers did, and what would have been done, where nothing is done by us."""

    report: Report
    waiting: tuple[Told, ...]
    """Those with most to tell of the gangs that wait now."""
    kept: bool
    """What was seen outlives the process."""


class Capture(Struct, frozen=True, kw_only=True):
    """One moment."""

    time: float
    """Wall clock."""
    snapshot: Snapshot
    preemptions: tuple[PreemptionSeen, ...] = ()
    units: tuple[UnitSeen, ...] = ()
    decisions: tuple[Decision, ...] = ()
    """Newest first."""
    days: tuple[Day, ...] = ()
    """The last month, oldest first."""
    counted_since: float = 0.0
    """Wall clock before which ``days`` know nothing."""
    days_last: bool = False
    """They outlive the process."""
    replayable: frozenset[int] = frozenset()
    """Generations whose questions are kept whole, to be downloaded."""
    suspended: Mapping[str, str] = {}
    """Gang -> why no plan is made for it, and until when."""
    problems: tuple[str, ...] = ()
    """Why verbs are not answered now."""
    schedulers: frozenset[str] = frozenset()
    """Those whose pods are planned for; none where that is not known."""
    observed: Observed | None = None
    """None where the process acts."""


class ConsoleSource(Struct, frozen=True, kw_only=True):
    """The process, as far as the page asks it. Every call is made on the event loop."""

    settings: Settings
    resolver: Resolver
    mark: Callable[[], object]
    """Equal marks: nothing that a capture holds has changed. Costs next to nothing."""
    capture: Callable[[], Capture]
    stale: Callable[[], str | None]
    """Why gangs cannot be decided now."""
    question: Callable[[], tuple[Snapshot, tuple[Hold, ...]]]
    """The newest state and the seats held, for a what-if question."""
    masks: Callable[[Gang, Snapshot], Mapping[str, frozenset[str]]]
    """Member uid -> nodes known to be refused by what is not modelled."""
    read_manifest: Callable[[str, str], Iterable[object]]
    """(text, what errors call it) -> documents; runs on another thread. Raises InvalidInput."""
