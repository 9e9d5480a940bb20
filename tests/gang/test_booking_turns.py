"""Who is next among the gangs of one namespace, who counts, and what a pod's end brings forward."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.booking.booking_line import (
    AGAIN_SECONDS,
    LONGEST_AGAIN_SECONDS,
    BookingLine,
    PodEnds,
)
from extender.gang.plan.booking import Booking
from extender.gang.runtime.clocks import Clocks
from extender.model.gang import Gang
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings
from tests.gang.desk import Desk, full
from tests.gang.world import NOW, gang_key, pod


def waits(name: str) -> Gang:
    return Gang(gang_key(name), (replace(pod(name), created=NOW),), 1)


def test_who_has_lost_its_turn_stands_behind_younger_ones_of_its_namespace() -> None:
    seconds = [0.0]
    clocks = Clocks(monotonic=lambda: seconds[0], wall=lambda: NOW + seconds[0])
    settings = FairnessSettings(patience_seconds=10.0, horizon_seconds=100.0)
    line = BookingLine(settings, clocks, PodEnds(clocks, 100.0))
    old, young = waits("old"), waits("young")
    line.seen([old], ())
    booking = Booking(old.key, 0, NOW, None, {}, {}, frozenset(), frozenset())
    line.entered(booking, None, Snapshot(generation=1))
    seconds[0] = 20.0
    line.left(old.key, "why", own=True)
    seconds[0] = 30.0
    line.seen([old, young], ())
    assert line.place(young) < line.place(old)
    seconds[0] = 1000.0
    assert line.place(young) < line.place(old), "until it is booked, and not for a time"
    line.entered(booking, None, Snapshot(generation=1))
    assert line.place(old) < line.place(young)


def test_who_is_booked_anew_does_not_count_beside_itself() -> None:
    """A fifth may idle for it at the old nodes, and a fifth at the new ones."""
    desk = Desk(*full(10, namespace="third"), idle_share=0.3)
    desk.gang("even", 4, 5, "even")
    desk.round()
    assert desk.booked == {"even"}
    booking = desk.bookings.get(gang_key("even"))
    assert booking is not None
    lost = min(booking.nodes())
    desk.nodes = [replace(n, unschedulable=n.name == lost) for n in desk.nodes]
    desk.round(3.0)
    booking = desk.bookings.get(gang_key("even"))
    assert booking is not None, desk.why("even")
    assert lost not in booking.nodes()


def test_room_that_comes_free_is_looked_at_before_a_long_pause_is_over() -> None:
    """A service is on its node: it is asked about ever more seldom."""
    desk = Desk(*full(1, endless=True, started=NOW))
    desk.gang("mine", 1, 5)
    for _ in range(12):
        desk.round(LONGEST_AGAIN_SECONDS)
    assert desk.booked == set()
    desk.round(LONGEST_AGAIN_SECONDS)
    desk.remove("b0")
    desk.round(AGAIN_SECONDS + 1.0)
    assert desk.booked == {"mine"}


def test_a_pod_has_ended_when_it_has_finished_or_is_gone() -> None:
    """Its object may stay for days; one that only changes has not ended."""
    desk = Desk(*full(1, started=NOW))
    one = replace(desk.pods[0], phase="Running")
    desk.seconds = 60.0
    desk.bookings.observe(one, replace(one, tried=True))
    assert desk.bookings.run_times.longest(one) is None
    desk.bookings.observe(one, replace(one, phase="Succeeded"))
    assert desk.bookings.run_times.longest(one) == 60.0
    desk.seconds = 90.0
    desk.bookings.observe(one, None)
    assert desk.bookings.run_times.longest(one) == 90.0
