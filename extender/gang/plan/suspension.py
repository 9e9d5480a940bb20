"""When a gang is not planned any more for a while, and when it is again.

A gang whose plans are given up again and again evicts pods for nothing. After so many of
them it is suspended, until it changes or a time has passed. What it changed to gets one
try: the count goes back only when the gang is seated, or with the time. A gang that the
planner could not be brought back from is suspended at once, and no change lifts that.

Pure: times are wall clock seconds, and are given, since suspensions outlive the process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.texts import counted, rfc3339, some

MOST_GANGS = 10_000
"""More are not counted: names are a tenant's to make up."""


CLOCK_SECONDS = 300.0
"""By how much clocks may differ. A suspension that begins later than that was written before the
clock was set back: it would last as much longer, so it does not count."""


class Cause(StrEnum):
    """Why a gang is suspended."""

    GAVE_UP = "gave-up"
    """Its plans were given up."""
    OVERRAN = "overran"
    """The planner did not come back from it."""
    REFUSED = "refused"
    """kube-scheduler refused it nodes where pods had been evicted for it: it is planned for without
    evictions."""


class Suspension(Struct, frozen=True):
    """A gang that is left alone for a while."""

    gang: GangKey
    cause: Cause
    why: str
    """In words, for its owner."""
    since: float
    until: float
    looks: str
    """What the gang looked like (see ``looks_of``); "" holds whatever it looks like."""

    @property
    def told(self) -> str:
        """What does not happen meanwhile, in words, and until when."""
        what = "pod is evicted" if self.cause is Cause.REFUSED else "plan is made"
        change = " or until the gang changes" if self.looks else ""
        return f"no {what} for {self.gang} until {rfc3339(self.until)}{change}: {self.why}"

    def holds(self, looks: str, now: float) -> bool:
        """Whether it still stands for a gang that looks so."""
        return self.runs(now) and self.looks in ("", looks)

    def runs(self, now: float) -> bool:
        """Whether its time has come and is not over."""
        return self.since - CLOCK_SECONDS <= now < self.until


class _Failures(Struct, frozen=True):
    times: int
    last: float


class GiveUps:
    """Counts plans given up, gang by gang."""

    def __init__(self, most: int, seconds: float) -> None:
        """``most`` plans given up in a row suspend a gang for ``seconds``; 0: never."""
        self._most = most
        self._seconds = seconds
        self._failed: dict[GangKey, _Failures] = {}

    def gave_up(self, key: GangKey, looks: str, why: str, now: float) -> Suspension | None:
        """Count one; return the suspension that it leads to."""
        if not self._most:
            return None
        before = self._failed.get(key)
        fresh = before is None or now - before.last >= self._seconds
        times = 1 if before is None or fresh else before.times + 1
        self._failed.pop(key, None)  # who failed last stands last
        self._failed[key] = _Failures(times, now)
        if len(self._failed) > MOST_GANGS:
            self.sweep(now)
            while len(self._failed) > MOST_GANGS:
                del self._failed[next(iter(self._failed))]
        if times < self._most:
            return None
        # A change may lift the suspension; the next plan given up brings it back.
        self._failed[key] = replace(self._failed[key], times=self._most - 1)
        return Suspension(
            gang=key,
            cause=Cause.GAVE_UP,
            why=f"{counted(self._most, 'plan', 'for it was', 'for it were')} given up in a row, "
            f"the last one because {why}",
            since=now,
            until=now + self._seconds,
            looks=looks,
        )

    def seated(self, key: GangKey) -> None:
        """Forget what was counted: a plan has come to its end."""
        self._failed.pop(key, None)

    def adopt(self, suspension: Suspension) -> None:
        """Count as if it had been suspended by us: one of a life before."""
        if suspension.cause is Cause.GAVE_UP and self._most:
            self._failed[suspension.gang] = _Failures(self._most - 1, suspension.since)

    def sweep(self, now: float) -> None:
        """Forget what is too old to count."""
        self._failed = {
            key: failed for key, failed in self._failed.items() if now - failed.last < self._seconds
        }


def overran(key: GangKey, seconds: float, now: float, lasting: float) -> Suspension:
    """Return the suspension of a gang whose search had to be stopped after ``seconds``."""
    return Suspension(
        gang=key,
        cause=Cause.OVERRAN,
        why=f"the search for its seats did not end within {seconds:g} s and had to be stopped",
        since=now,
        until=now + lasting,
        looks="",
    )


def refused(
    key: GangKey, names: Iterable[str], why: str, looks: str, now: float, lasting: float
) -> Suspension:
    """Return the suspension of a gang whose members ``names`` kube-scheduler would not put on their
    seats, with pods evicted for that. It would not put them on others either, for all that is
    known: some rule of it is not known here."""
    return Suspension(
        gang=key,
        cause=Cause.REFUSED,
        why=f"pods were evicted for it, and kube-scheduler did not accept {some(sorted(names))} on "
        f"a reserved node for a reason that is not known here; the plan ended because {why}",
        since=now,
        until=now + lasting,
        looks=looks,
    )


def looks_of(gang: Gang) -> str:
    """Return a digest of what a plan for the gang depends on, apart from which pods it has.

    Members made anew from the same template look the same; another size, request, placement
    rule or priority does not.
    """
    kinds: dict[str, int] = {}
    for pod in gang.members:
        kind = repr((pod.requests, pod.shape, pod.priority, pod.preempts))
        kinds[kind] = kinds.get(kind, 0) + 1
    whole: tuple[object, ...] = (
        gang.min_count,
        gang.preemptor_priority,
        gang.preempts,
        gang.topology_key,
        gang.preferred_topology_key,
        sorted(kinds.items()),
    )
    if gang.parts:
        whole += (sorted((part.name, part.least) for part in gang.parts),)
    return hashlib.sha256(repr(whole).encode()).hexdigest()[:16]
