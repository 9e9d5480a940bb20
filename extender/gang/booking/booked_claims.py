"""What booked starts claim of each node now, put into the book as the pods there come and go.

Kept by node: a pod event costs what the pods and bookings of its own node cost, and a quiet round
one look at each booked node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from extender.gang.booking.booked_room import BookingClaim
from extender.gang.core.reservations import Reservations
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import BookedAmounts, Booking
from extender.gang.plan.ends import End
from extender.gang.runtime.clocks import Clocks
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

ALL_SECONDS = 5.0
"""How often all nodes are looked at anew: what is known of ends changes with time alone."""

MakesWay = Callable[[Booking, GangKey, int], bool]
"""Whether a booking makes way for a gang of this priority."""


class BookedClaims:
    """The bookings that there are, and their claims. ``end`` is what is known of a pod's end."""

    def __init__(
        self,
        reservations: Reservations,
        snapshot: Callable[[], Snapshot],
        end: Callable[[Pod], End | None],
        clocks: Clocks,
    ) -> None:
        self._reservations = reservations
        self._snapshot = snapshot
        self._end = end
        self._clocks = clocks
        self._booked: dict[GangKey, Booking] = {}
        self._on: dict[str, dict[GangKey, Booking]] = {}
        self._waits: dict[GangKey, set[str]] = {}
        """On which nodes somebody is waited for."""
        self._free_since: dict[GangKey, float] = {}
        self._seen: dict[str, tuple[Pod, ...]] = {}
        """The pods of each booked node when it was looked at last."""
        self._all_at = 0.0
        self.version = 0
        """Grows with every booking that comes or goes."""

    def __len__(self) -> int:
        return len(self._booked)

    def __iter__(self) -> Iterator[Booking]:
        return iter(list(self._booked.values()))

    def get(self, key: GangKey) -> Booking | None:
        """Return the gang's booking."""
        return self._booked.get(key)

    def on(self, node: str) -> bool:
        """Whether somebody has booked seats there."""
        return node in self._on

    def free_since(self, key: GangKey) -> float | None:
        """Return since when nobody is waited for any more, monotonic."""
        return self._free_since.get(key)

    def put(self, booking: Booking) -> None:
        """Take a booking, in place of the one that the gang has had."""
        touched = self._take_out(booking.gang)
        self._booked[booking.gang] = booking
        self._waits[booking.gang] = set()
        for name in booking.nodes():
            self._on.setdefault(name, {})[booking.gang] = booking
        self.version += 1
        self._look(touched | booking.nodes())

    def drop(self, key: GangKey) -> None:
        """Give back what the gang's booking keeps."""
        touched = self._take_out(key)
        self.version += 1
        self._look(touched)

    def _take_out(self, key: GangKey) -> set[str]:
        before = self._booked.pop(key, None)
        self._waits.pop(key, None)
        self._free_since.pop(key, None)
        if before is None:
            return set()
        for name in before.nodes():
            del self._on[name][key]
            if not self._on[name]:
                del self._on[name]
                self._seen.pop(name, None)
        return set(before.nodes())

    def pod_left(self, node: str) -> None:
        """A pod of this node is gone: what it had is kept at once."""
        if node in self._on:
            self._look((node,))

    def renew(self) -> None:
        """Look at the nodes whose pods have changed."""
        if not self._booked:
            return
        now = self._clocks.monotonic()
        if now - self._all_at >= ALL_SECONDS:
            self._all_at = now
            self._look(list(self._on))
            return
        bound = self._snapshot().bound
        seen = self._seen
        self._look([name for name in self._on if bound.get(name, ()) is not seen.get(name)])

    def taken(self, booking: Booking, makes_way: MakesWay) -> dict[str, BookedAmounts]:
        """Return what others' seats and bookings take of each of the booking's nodes."""
        found: dict[str, BookedAmounts] = {}
        for name in booking.nodes():
            amounts: BookedAmounts = {}
            for hold in self._reservations.holds_on(name):
                if hold.gang != booking.gang:
                    pure.add(amounts, hold.requests, 1)
            for other in self._on.get(name, {}).values():
                if other.gang != booking.gang and not makes_way(
                    other, booking.gang, booking.priority
                ):
                    pure.add(amounts, other.asked[name].items(), 1)
            found[name] = amounts
        return found

    def _look(self, names: Iterable[str]) -> None:
        """Put into the book what is claimed of these nodes now."""
        claims: dict[str, tuple[BookingClaim, ...]] = {}
        bound: Mapping[str, tuple[Pod, ...]] | None = None
        for name in names:
            booked = self._on.get(name)
            if not booked:
                claims[name] = ()
                continue
            if bound is None:
                bound = self._snapshot().bound
            there = bound.get(name, ())
            self._seen[name] = there
            claims[name] = tuple(self._claims(name, booked.values(), there))
        if claims:
            self._reservations.book_room(claims)
        now = self._clocks.monotonic()
        for key, waits in self._waits.items():
            if waits:
                self._free_since.pop(key, None)
            else:
                self._free_since.setdefault(key, now)

    def _claims(
        self, name: str, booked: Iterable[Booking], there: tuple[Pod, ...]
    ) -> Iterator[BookingClaim]:
        # A gang with a plan has its seats from that.
        waiting = [each for each in booked if self._reservations.get(each.gang) is None]
        promised = {uid for uid, _ in self._reservations.leaving_on(name)}
        for booking, amounts, counted in pure.claims(waiting, name, there, self._end, promised):
            if counted:
                self._waits[booking.gang].add(name)
            else:
                self._waits[booking.gang].discard(name)
            if amounts or counted:
                asked = tuple(sorted(booking.asked.get(name, {}).items()))
                yield BookingClaim(
                    pure.as_hold(booking, name, amounts), booking.start, asked, counted
                )
