"""The booked starts that there are: what each claims of its nodes, which makes way for which.

Claims are put into the book of reservations as pods come and go on the nodes. They are kept by
node: a pod event costs what the pods and bookings of its own node cost, and a quiet round one look
at each booked node.

A booked gang keeps its place against everybody but a more urgent one, and against those of its own
priority only as long as it has not lost its turn. Nodes, namespaces and idle room have bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from extender.gang.booking.booking_line import BookingLine, PodEnds
from extender.gang.core.reservations import Reservations
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import BookedAmounts, Booking, BookingClaim
from extender.gang.plan.idle_room import capacity, idle, largest_share
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import PlanningSource
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings

ALL_SECONDS = 5.0
"""How often all nodes are looked at anew: what is known of ends changes with time alone."""


class BookedClaims:
    """Bookings by gang and by node. ``planning`` shows the cluster as planning sees it."""

    def __init__(
        self,
        settings: FairnessSettings,
        reservations: Reservations,
        planning: PlanningSource,
        line: BookingLine,
        ends: PodEnds,
        clocks: Clocks,
    ) -> None:
        self._settings = settings
        self._reservations = reservations
        self._planning = planning
        self._line = line
        self._ends = ends
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

    def free_since(self, key: GangKey) -> float | None:
        """Return since when nobody is waited for any more, monotonic."""
        return self._free_since.get(key)

    # -- what is claimed ------------------------------------------------------------------

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
        bound, seen = self._planning.shown().bound, self._seen
        self._look([name for name in self._on if bound.get(name, ()) is not seen.get(name)])

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
                bound = self._planning.shown().bound
            self._seen[name] = there = bound.get(name, ())
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
        for booking, amounts, counted in pure.claims(waiting, name, there, self._ends.of, promised):
            if counted:
                self._waits[booking.gang].add(name)
            else:
                self._waits[booking.gang].discard(name)
            if amounts or counted:
                asked = tuple(sorted(booking.asked.get(name, {}).items()))
                yield BookingClaim(
                    pure.as_hold(booking, name, amounts), booking.start, asked, counted
                )

    # -- which makes way for which --------------------------------------------------------

    def makes_way(self, booking: Booking, gang: GangKey, priority: int) -> bool:
        """Whether a booking makes way for a gang of this priority."""
        if booking.priority != priority:
            return booking.priority < priority
        return self._line.rank(gang) < self._line.rank(booking.gang)

    def taken(self, booking: Booking) -> dict[str, BookedAmounts]:
        """Return what others' seats and bookings take of each of the booking's nodes."""
        key, found = booking.gang, dict[str, BookedAmounts]()
        for name in booking.nodes():
            amounts = found[name] = {}
            for hold in self._reservations.holds_on(name):
                if hold.gang != key:
                    pure.add(amounts, hold.requests, 1)
            for other in self._on.get(name, {}).values():
                if other.gang != key and not self.makes_way(other, key, booking.priority):
                    pure.add(amounts, other.asked[name].items(), 1)
        return found

    def displaced(self, gang: Gang, booking: Booking | None = None) -> list[GangKey] | str:
        """Return who has to make way for the gang; in words why it has no turn.

        ``booking`` is what it would get, where that is known: room that may stand idle counts.
        """
        snapshot = self._planning.shown()
        out = [] if gang.key in self._booked else self._crowded(gang, snapshot)
        if booking is not None and not isinstance(out, str):
            idle_for = self._idle(gang, booking, out, snapshot)
            out = idle_for if isinstance(idle_for, str) else out + idle_for
        return out if isinstance(out, str) else [each.gang for each in out]

    def _crowded(self, gang: Gang, snapshot: Snapshot) -> list[Booking] | str:
        domain = pure.domain_of(gang, snapshot)
        out: list[Booking] = []
        for there, most, why in (
            (
                [each for each in self if each.domain & domain],
                self._settings.booked_per_domain,
                "others keep their places on the nodes that it could use "
                "(fairness.bookedPerDomain)",
            ),
            (
                [each for each in self if each.gang.namespace == gang.key.namespace],
                self._settings.booked_per_namespace,
                "its namespace has all the booked starts that fairness.bookedPerNamespace allows",
            ),
        ):
            many = max(0, len(there) - most + 1)
            least = sorted(there, key=self._worth)[:many]
            if not all(self.makes_way(each, gang.key, gang.preemptor_priority) for each in least):
                return why
            out += [each for each in least if each not in out]
        return out

    def _idle(
        self, gang: Gang, booking: Booking, out: Iterable[Booking], snapshot: Snapshot
    ) -> list[Booking] | str:
        """Return who has to make way besides ``out`` for no more to be idle than may be."""
        mine = idle(booking, snapshot, begins=True)
        if not mine:
            return []
        total = capacity(snapshot)
        left = {
            each.gang: (each, idle(each, snapshot, begins=False))
            for each in sorted(self, key=self._worth)
            if each.gang != gang.key and each not in out
        }
        gone: list[Booking] = []
        for of, most, setting in (
            (gang.key.namespace, self._settings.namespace_idle_share, "namespaceIdleShare"),
            ("", self._settings.idle_share, "idleShare"),
        ):
            while True:
                counted = {k: v for k, v in left.items() if not of or k.namespace == of}
                amounts = [mine, *(idle_for for _, idle_for in counted.values())]
                share, name = largest_share(amounts, total)
                if share <= most:
                    break
                rivals = [
                    each
                    for each, _ in counted.values()
                    if self.makes_way(each, gang.key, gang.preemptor_priority)
                ]
                if not rivals:
                    beside = " and for those that are booked" if counted else ""
                    return (
                        f"up to {share:.0%} of the cluster's {name} could stand idle for "
                        f"it{beside}; fairness.{setting} is {most:.0%}"
                    )
                gone.append(rivals[0])
                del left[rivals[0].gang]
        return gone

    def _worth(self, booking: Booking) -> tuple[int, tuple[bool, bool], float]:
        """Return what bookings are sorted by, the first to make way first."""
        namespace, itself = self._line.rank(booking.gang)
        return (booking.priority, (not namespace, not itself), -booking.made)
