"""Seats that stay closed because more urgent pods keep coming: after a while they are kept away.

While a more urgent pod may be on its way to a seat's node, no member is answered. Each such pod is
offered many nodes and takes one, so a stream of them that all go elsewhere could keep a gang out
for as long as it lasts. A gang whose room is there and that has been crowded for CROWDED_SECONDS
is firm against pods of no gang, as it is between its first answer and its last; once a plan, and
for CLOSED_SECONDS at most. More urgent gangs may take its seats as before.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.preemption_state import PreemptionState

CROWDED_SECONDS = 6.0
"""How long others may be on their way to its room: longer than one offer counts (offers.py)."""
CLOSED_SECONDS = 15.0
"""For how long they are kept away: what was offered before passes (4 s), and members are asked for
their first answer (kube-scheduler's back-off is 10 s at most)."""


class Starvation:
    """Looks at plans whose room is there. ``crowded(preemption)``: whether others may take it."""

    def __init__(
        self,
        reservations: Reservations,
        crowded: Callable[[Preemption], bool],
        clocks: Clocks,
    ) -> None:
        self._reservations = reservations
        self._crowded = crowded
        self._clocks = clocks

    def look(self, preemption: Preemption) -> None:
        """Take note of one plan; now and then."""
        now = self._clocks.monotonic()
        if preemption.closed_at:
            if preemption.closed and now - preemption.closed_at > CLOSED_SECONDS:
                self._reservations.keep_away(preemption, 0.0)
            return
        waits = preemption.state in (
            PreemptionState.EVICTING,
            PreemptionState.WAITING,
            PreemptionState.OPEN,
        )
        going = preemption.victims or preemption.waits
        if not waits or going or preemption.binding or not self._crowded(preemption):
            preemption.crowded_at = 0.0
        elif not preemption.crowded_at:
            preemption.crowded_at = now
        elif now - preemption.crowded_at > CROWDED_SECONDS:
            self._reservations.keep_away(preemption, now)
