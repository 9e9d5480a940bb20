"""For how long a booked gang keeps its place, and what it loses its turn for.

A booking keeps others off room that stands idle, so it has to come to its start. It loses its turn
when the start it was told has passed too often though a kubelet should have ended who is still
there, or its own namespace could, when it waits for what its own namespace could end
itself, when it has had its place for as long as anything is known in advance, and when it gives its
place up by its own doing after a while. See booking_line.py for what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct

from extender.gang.booking.booking_line import BookingLine
from extender.gang.plan.booking import SLACK_SECONDS, Booking
from extender.gang.plan.ends import End
from extender.gang.runtime.clocks import Clocks
from extender.model.fairness import FairnessSettings
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

MOST_SLIPS = 3
"""A booking whose start has passed so often loses its turn, by the fault of its own namespace or of
kubelets. What others expect of their pods and does not come true costs nobody a turn: they have the
room meanwhile."""


class _Tenure(Struct, frozen=True):
    since: float
    """Monotonic: when it was booked, or has lost its turn last."""
    slips: int = 0
    """How often the start that was told has passed."""


class Tenures:
    """Of all bookings that there are. Starts are wall clock times, tenures are not."""

    def __init__(
        self,
        settings: FairnessSettings,
        line: BookingLine,
        clocks: Clocks,
        end: Callable[[Pod], End | None],
    ) -> None:
        self._horizon = settings.horizon_seconds
        self._patience = settings.patience_seconds
        self._line = line
        self._clocks = clocks
        self._end = end
        self._kept: dict[GangKey, _Tenure] = {}

    def entered(self, booking: Booking, before: Booking | None, snapshot: Snapshot) -> None:
        """A booking is made, in place of the one that the gang had ``before``."""
        key, now = booking.gang, self._clocks.monotonic()
        if before is None:
            self._kept[key] = _Tenure(now)
            self._line.booked(key)
        elif self.passed(before) and any(self._slips(before, snapshot)):
            tenure = self._kept[key]
            self._kept[key] = _Tenure(tenure.since, tenure.slips + 1)

    def left(self, key: GangKey, why_own: str) -> None:
        """A booking is over; ``why_own``: by the gang's own doing, and without a start."""
        tenure = self._kept.pop(key)
        had = self._clocks.monotonic() - tenure.since
        if why_own and had >= self._patience:
            self._line.lose(key, had, why_own, within=True)
        self._line.served(key.namespace)

    def passed(self, booking: Booking) -> bool:
        """Whether the start that was told has passed."""
        return booking.start is not None and self._clocks.wall() > booking.start + SLACK_SECONDS

    def _slips(self, booking: Booking, snapshot: Snapshot) -> Iterator[Pod]:
        """Yield those because of whom a start that has passed counts against the gang."""
        for pod in still_there(booking, snapshot):
            end = self._end(pod)
            sure = end is not None and end.by is not None
            if sure or pod.namespace == booking.gang.namespace:
                yield pod

    def lost(self, booking: Booking, snapshot: Snapshot) -> str:
        """Return why the gang loses its turn now, "" when it does not."""
        key, now = booking.gang, self._clocks.monotonic()
        if self._line.rank(key)[0]:
            return ""  # it has lost it already
        tenure = self._kept[key]
        why, within = self._forfeits(booking, tenure, now, snapshot)
        if why:
            self._line.lose(key, now - tenure.since, why, within=within)
            self._kept[key] = _Tenure(now)
        return why

    def _forfeits(
        self, booking: Booking, tenure: _Tenure, now: float, snapshot: Snapshot
    ) -> tuple[str, bool]:
        """Return why, and whether it is behind its own namespace's other gangs then as well."""
        had, told = now - tenure.since, booking.start
        if had >= self._horizon:
            return f"it has had its place for fairness.horizonSeconds ({self._horizon:g})", True
        if tenure.slips >= MOST_SLIPS:
            return f"the start that it was told has passed {counted(tenure.slips, 'time')}", True
        wall = self._clocks.wall()
        if had >= self._patience and wall > (-inf if told is None else told):
            for pod in still_there(booking, snapshot):
                end = self._end(pod)
                if pod.namespace == booking.gang.namespace and (end is None or end.by is None):
                    return "it waits for pods of its own namespace that nobody makes end", False
        return "", False


def still_there(booking: Booking, snapshot: Snapshot) -> Iterator[Pod]:
    """Yield those who are waited for and do not go yet."""
    for name in booking.nodes():
        for pod in snapshot.bound.get(name, ()):
            if pod.uid in booking.awaited and not pod.deleting:
                yield pod
