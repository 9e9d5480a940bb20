"""Looks for the earliest moment at which a gang fits, with the planner's own search."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from functools import partial

from extender.gang.booking.booked_claims import BookedClaims, MakesWay
from extender.gang.core.reservations import Reservations
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Booking
from extender.gang.plan.ends import End
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot

Search = Callable[[Gang, Snapshot, tuple[Hold, ...]], Awaitable[Plan | Refusal]]
"""Asks the planner, with other gangs' seats given, and waits its turn."""


class BookingSearch:
    """Asks the planner about the cluster as it will be."""

    def __init__(
        self,
        reservations: Reservations,
        booked: BookedClaims,
        makes_way: MakesWay,
        snapshot: Callable[[], Snapshot],
        end: Callable[[Pod], End | None],
        search: Search,
        beat: Callable[[], None],
    ) -> None:
        """``beat`` is called before each question."""
        self._reservations = reservations
        self._booked = booked
        self._makes_way = makes_way
        self._snapshot = snapshot
        self._end = end
        self._search = search
        self._beat = beat
        self._last_generation = -1

    async def earliest(self, gang: Gang, late: Callable[[], bool]) -> Booking | str:
        """Return the booking with the earliest start; in words why there is none.

        Once it is ``late`` no earlier one is looked for.
        """
        snapshot = self._snapshot()
        ends = pure.ends_in(snapshot, pure.not_its_own(gang, self._end))
        domain = pure.domain_of(gang, snapshot)
        holds = (*self._reservations.holds(), *self._others(gang))
        known = pure.moments(ends, snapshot, domain)
        found = partial(self._found, gang, snapshot, ends, holds)
        best: tuple[float, Plan] | None = None
        low, high = 0, len(known) - 1
        if known and (last := await found(known[high])) is not None:
            best = (known[high], last)
            while low < high and not late():
                middle = (low + high) // 2
                plan = await found(known[middle])
                if plan is None:
                    low = middle + 1
                else:
                    high, best = middle, (known[middle], plan)
        if best is not None:
            return pure.booked(gang, best[1], best[0], snapshot, domain)
        plan = await found(None)
        if plan is None:
            return "it does not fit even when all have ended that are made to end"
        return pure.booked(gang, plan, None, snapshot, domain)

    async def _found(
        self,
        gang: Gang,
        snapshot: Snapshot,
        ends: pure.Ends,
        holds: tuple[Hold, ...],
        until: float | None,
    ) -> Plan | None:
        self._last_generation -= 1
        then = pure.as_if_ending(snapshot, ends, until, self._last_generation, gang.key)
        self._beat()
        answer = await self._search(pure.as_asker(gang), then, holds)
        return answer if isinstance(answer, Plan) and not answer.victims else None

    def _others(self, gang: Gang) -> Iterator[Hold]:
        """Yield the whole seats of other bookings: they are to be had as well in the end."""
        for other in self._booked:
            makes_way = self._makes_way(other, gang.key, gang.preemptor_priority)
            if other.gang != gang.key and not makes_way:
                for name, amounts in other.asked.items():
                    yield pure.as_hold(other, name, amounts)
