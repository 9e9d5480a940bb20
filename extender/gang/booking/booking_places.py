"""Who has to make way for a gang to be booked: nodes, namespaces and idle room have their bounds.

A booked gang keeps its place against everybody but a more urgent one, and against those of its own
priority only as long as it has not lost its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from extender.gang.booking.booked_claims import BookedClaims
from extender.gang.booking.booking_line import BookingLine
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Booking
from extender.gang.plan.idle_room import capacity, idle, largest_share
from extender.model.fairness import FairnessSettings
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot


class Places:
    """Answers for the bookings that there are."""

    def __init__(
        self,
        settings: FairnessSettings,
        booked: BookedClaims,
        line: BookingLine,
        snapshot: Callable[[], Snapshot],
    ) -> None:
        self._settings = settings
        self._booked = booked
        self._line = line
        self._snapshot = snapshot

    def displaced(self, gang: Gang, booking: Booking | None = None) -> list[GangKey] | str:
        """Return who has to make way for the gang; in words why it has no turn.

        ``booking`` is what it would get, where that is known: room that may stand idle counts.
        """
        snapshot = self._snapshot()
        out: list[Booking] = []
        if self._booked.get(gang.key) is None:
            found = self._crowded(gang, snapshot)
            if isinstance(found, str):
                return found
            out = found
        if booking is not None:
            found = self._idle(gang, booking, out, snapshot)
            if isinstance(found, str):
                return found
            out += found
        return [each.gang for each in out]

    def _crowded(self, gang: Gang, snapshot: Snapshot) -> list[Booking] | str:
        domain = pure.domain_of(gang, snapshot)
        beside = [each for each in self._booked if each.domain & domain]
        of_its_own = [each for each in self._booked if each.gang.namespace == gang.key.namespace]
        out: list[Booking] = []
        for there, most, why in (
            (
                beside,
                self._settings.booked_per_domain,
                "others keep their places on the nodes that it could use "
                "(fairness.bookedPerDomain)",
            ),
            (
                of_its_own,
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
            for each in sorted(self._booked, key=self._worth)
            if each.gang != gang.key and each not in out
        }
        gone: list[Booking] = []
        for of, most, setting in (
            (gang.key.namespace, self._settings.namespace_idle_share, "namespaceIdleShare"),
            ("", self._settings.idle_share, "idleShare"),
        ):
            while True:
                counted = {k: v for k, v in left.items() if not of or k.namespace == of}
                share, name = largest_share(
                    [mine, *(amounts for _, amounts in counted.values())], total
                )
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

    def makes_way(self, booking: Booking, gang: GangKey, priority: int) -> bool:
        """Whether a booking makes way for a gang of this priority."""
        if booking.priority != priority:
            return booking.priority < priority
        return self._line.rank(gang) < self._line.rank(booking.gang)
