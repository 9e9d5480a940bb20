"""What is counted, by day; a week is seven. Report and metrics read nothing else."""

from __future__ import annotations

from copy import copy
from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct, field
from msgspec.structs import fields

from extender.model.texts import LAST

DAY: Final = 86_400.0
WEEK: Final = 7 * DAY
MONDAY: Final = 4 * DAY
"""1 January 1970 was a Thursday: weeks begin four days later, on Mondays, 00:00 UTC."""


Count = Annotated[int, Meta(ge=0, le=2**53)]
Priority = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
WallTime = Annotated[float, Meta(ge=-WEEK, le=LAST)]
"""Wall clock, in seconds since the epoch; the week of its beginning began before it."""
Lasting = Annotated[float, Meta(ge=0, le=LAST)]
"""Seconds. What is read from a file is within these bounds, or no report."""


class Sums(Struct):
    """Numbers that only grow. "We" is the extender as it would be with ``mode: enforce``."""

    gangs: Count = 0
    """Gangs that began to wait for their quorum."""
    whole: Count = 0
    """Of them, those that had their quorum on nodes in the end."""
    gone: Count = 0
    """Those whose members went away before that."""
    planned: Count = 0
    """Those for which we had a plan."""
    refused: Count = 0
    """Those that ended without one, after we had said no."""
    would_evict_pods: Count = 0
    """Pods that we would have evicted."""
    would_break_gangs: Count = 0
    """Gangs whose quorum we would have evicted."""
    evicted_pods: Count = 0
    """Pods that a scheduler's preemption evicted."""
    evicted_for_gangs: Count = 0
    """Those of them that were evicted for a member of a gang that starts whole."""
    lost_for_gangs: Count = 0
    """GPU-seconds of work that were lost with those."""
    would_lose: Count = 0
    """GPU-seconds of work that would have been lost with the pods that we would have evicted."""
    evicted_in_vain: Count = 0
    """Those that were evicted for a gang whose members were gone before it had its quorum."""
    broken_gangs: Count = 0
    """Gangs that lost their quorum by that."""
    broken_for_gangs: Count = 0
    """Those of them that lost it to a gang that starts whole."""
    half_broken_gangs: Count = 0
    """Those of all of them of which members were left on their nodes."""
    in_part_gangs: Count = 0
    """Gangs of which some members sat on nodes, but not the quorum, for ten seconds or more."""
    in_part_pod_seconds: Lasting = 0.0
    """Seconds that such members sat there, summed over the members."""
    seats_lost: Count = 0
    """Seats of our plans whose room a pod of equal or lower priority took meanwhile."""

    def add(self, other: Sums) -> None:
        """Take in another's numbers."""
        for name in NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


NAMES: Final = tuple(each.name for each in fields(Sums))


class Waited(StrEnum):
    """What became of a gang that began to wait for its quorum."""

    WAITING = "waiting"
    """Nothing yet."""
    WHOLE = "whole"
    """It had its quorum on nodes."""
    GONE = "gone"
    """Its members went away before that."""


class OurAnswer(StrEnum):
    """What we would have told a gang's scheduler last."""

    NONE = ""
    """Nobody had asked."""
    PLAN = "plan"
    REFUSAL = "refusal"


class Told(Struct, omit_defaults=True):
    """One gang that waited: what we would have done, and what was done. Lists are cut short."""

    gang: str
    priority: Priority = 0
    quorum: Count = 0
    """Its minimum."""
    since: WallTime = 0.0
    """When it began to wait; wall clock, as all times here."""
    until: WallTime = 0.0
    """When that ended. 0: it still waits."""
    outcome: Waited = Waited.WAITING
    """What became of it."""
    answer: OurAnswer = OurAnswer.NONE
    """What we would have answered."""
    message: str = ""
    """The same as a sentence."""
    planned: WallTime = 0.0
    """When we had the plan."""
    seats: Count = 0
    """Seats of that plan."""
    would_evict: Count = 0
    """How many pods it would have evicted."""
    would_evict_pods: list[str] = field(default_factory=list)
    """Some of those pods."""
    would_break: list[str] = field(default_factory=list)
    """Gangs that it would have evicted."""
    evicted: Count = 0
    """How many pods a scheduler's preemption evicted for it."""
    evicted_pods: list[str] = field(default_factory=list)
    """Some of those pods."""
    broke: list[str] = field(default_factory=list)
    """Gangs that lost their quorum by that."""
    half_broke: list[str] = field(default_factory=list)
    """Those of them of which members were left on their nodes."""
    in_part_seconds: Lasting = 0.0
    """How long some of its members sat on nodes without its quorum."""
    most_bound: Count = 0
    """The most members that sat on nodes at a time."""
    seats_lost: Count = 0
    """Seats of our plan whose room a pod of equal or lower priority took meanwhile."""

    @property
    def weight(self) -> float:
        """How much there is to tell of it."""
        pods = 10 * (self.evicted + self.would_evict + self.seats_lost)
        gangs = 100 * (len(self.broke) + len(self.half_broke) + len(self.would_break))
        return (
            pods
            + gangs
            + min(self.in_part_seconds, 3600.0) / 60
            + (self.answer is not OurAnswer.NONE)
        )


class Week(Struct):
    """Seven days from a Monday on."""

    start: WallTime
    """Its Monday, 00:00 UTC."""
    days: list[Sums] = field(default_factory=lambda: [Sums() for _ in range(7)])
    """The numbers of each day."""
    gangs: list[Told] = field(default_factory=list)
    """The gangs of which there is most to tell."""
    left_out: Count = 0
    """Gangs that are counted and not among ``gangs``."""

    def copied(self) -> Week:
        """Return the week as it is now; what is told of gangs that are over does not change."""
        return Week(self.start, [copy(day) for day in self.days], list(self.gangs), self.left_out)

    @property
    def sums(self) -> Sums:
        """Return the days' sum."""
        total = Sums()
        for day in self.days:
            total.add(day)
        return total


def week_of(moment: float) -> float:
    """Return when the week began in which a moment (wall clock) lies."""
    return (moment - MONDAY) // WEEK * WEEK + MONDAY


class Ledger:
    """The last weeks; what it takes of memory is bounded by ``weeks`` times ``gangs``."""

    def __init__(self, weeks: int, gangs: int) -> None:
        self._most_weeks = weeks
        self._most_gangs = gangs
        self.weeks: list[Week] = []
        """Oldest first."""
        self.total = Sums()
        """Since the start of this process."""
        self.version = 0
        """Grows with whatever is counted or told."""

    def count(self, wall: float, **amounts: float) -> None:
        """Add to the sums of the day in which ``wall`` lies."""
        self.version += 1
        week = self._week(wall)
        day = week.days[min(6, max(0, int((wall - week.start) // DAY)))]
        for sums in (day, self.total):
            for name, amount in amounts.items():
                setattr(sums, name, getattr(sums, name) + amount)

    def tell(self, wall: float, told: Told) -> None:
        """Keep what became of one gang, if there is more to tell of it than of others."""
        self.version += 1
        week = self._week(wall)
        week.gangs.append(told)
        if len(week.gangs) > self._most_gangs:
            least = min(range(len(week.gangs)), key=lambda at: week.gangs[at].weight)
            del week.gangs[least]
            week.left_out += 1

    def adopt(self, weeks: list[Week]) -> None:
        """Go on with what a life before has kept."""
        for week in weeks:
            if len(week.gangs) > self._most_gangs:
                week.gangs.sort(key=lambda told: -told.weight)
                week.left_out += len(week.gangs) - self._most_gangs
                del week.gangs[self._most_gangs :]
        self.weeks = sorted(weeks, key=lambda week: week.start)[-self._most_weeks :]

    def _week(self, wall: float) -> Week:
        start = week_of(wall)
        for week in reversed(self.weeks):
            if week.start == start:
                return week
        made = Week(start)
        self.weeks.append(made)
        self.weeks.sort(key=lambda week: week.start)
        del self.weeks[: -self._most_weeks]
        # A clock that was set back far: its week is older than all that are kept.
        return made if made in self.weeks else self.weeks[0]
