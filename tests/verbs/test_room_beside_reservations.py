"""What a node still has beside the seats held on it, counted by hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from extender.gang.plan.booking import BookingClaim
from extender.gang.runtime.clocks import Clocks
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.verbs.allowances import ALLOWANCE_SECONDS
from extender.verbs.room_beside_reservations import Spare
from tests.gang.world import gang_key, pod

GANG = gang_key("high")


def hold(cpu: int) -> Hold:
    return Hold(GANG, 1000, "seat", "n0", (("cpu", cpu * 1000),) if cpu else ())


class Reservations:
    """Seats that are held, and booked, on one node."""

    version = 0

    def __init__(
        self, holds: Iterable[Hold] = (), booked: Iterable[Hold] = (), awaited: Iterable[str] = ()
    ) -> None:
        self.holds = list(holds)
        self.leaving: list[tuple[str, Any]] = []
        claims = [
            BookingClaim(each, None, (), tuple((uid, ()) for uid in awaited)) for each in booked
        ]
        self.booked = {"n0": claims}

    def holds_against(self, node: str, priority: int) -> list[Hold]:
        return self.holds

    def limited(self, hold: Hold) -> frozenset[str]:
        """No plan of theirs evicts pods."""
        return frozenset()

    def leaving_on(self, node: str) -> list[tuple[str, Any]]:
        return self.leaving


class Rooms:
    """One node with four CPU free."""

    def __init__(self) -> None:
        self.known: dict[str, Pod] = {}
        self.generation = 0

    def show(self, pod: Pod) -> None:
        self.known[pod.uid] = pod
        self.generation += 1

    def short(self, node: str, wants: Iterable[tuple[str, int]]) -> str | None:
        free = {"n0": {"cpu": 4000}}[node]
        return next((name for name, amount in wants if amount > free.get(name, 1 << 60)), None)

    def pod(self, uid: str) -> Pod | None:
        return self.known.get(uid)


class Place:
    def __init__(self, reservations: Reservations) -> None:
        self.now = 100.0
        self.rooms = Rooms()
        self.spare = Spare(reservations, self.rooms, Clocks(lambda: self.now))  # type: ignore[arg-type]


def test_a_pod_fits_up_to_what_is_held_and_not_beyond() -> None:
    spare = Place(Reservations([hold(3)])).spare
    assert spare.why_not(pod("a", cpu=1), "n0") is None
    told = spare.why_not(pod("b", cpu=2), "n0")
    assert told == f"its room is held for {GANG} (short of cpu)"


def test_nothing_is_looked_at_where_no_seat_is_held() -> None:
    assert Place(Reservations()).spare.why_not(pod("a", cpu=99), "n0") is None


def test_a_booked_start_keeps_room_and_one_without_requests_keeps_none() -> None:
    assert Place(Reservations(booked=[hold(0)])).spare.why_not(pod("a", cpu=99), "n0") is None
    spare = Place(Reservations(booked=[hold(3)])).spare
    assert spare.why_not(pod("a", cpu=1), "n0") is None
    assert "is booked for" in (spare.why_not(pod("b", cpu=2), "n0") or "it fits")


def test_room_of_those_who_would_leave_counts_once() -> None:
    victim = pod("v", cpu=2, on="n0")
    reservations = Reservations([hold(3)])
    spare = Place(reservations).spare
    assert spare.why_not(pod("a", cpu=3), "n0", leaving=[victim]) is None
    assert spare.why_not(pod("a", cpu=4), "n0", leaving=[victim]) is not None
    reservations.leaving, reservations.version = [(victim.uid, victim.requests)], 1
    assert spare.why_not(pod("a", cpu=3), "n0") is None
    assert spare.why_not(pod("a", cpu=4), "n0", leaving=[victim]) is not None


def test_a_pod_that_was_offered_the_node_may_be_on_its_way_there() -> None:
    place = Place(Reservations([hold(2)]))
    first = pod("first", cpu=1)
    place.spare.offered(first, "n0")
    assert place.spare.why_not(pod("b", cpu=1), "n0") is None
    assert place.spare.why_not(pod("c", cpu=2), "n0") is not None
    assert place.spare.why_not(pod("first", cpu=2), "n0") is None, "it is not in its own way"


@pytest.mark.parametrize("known", [True, False])
def test_an_offer_counts_until_it_is_seen_or_over(*, known: bool) -> None:
    place = Place(Reservations([hold(2)]))
    place.spare.offered(pod("first", cpu=1), "n0")
    if known:
        place.rooms.show(pod("first", cpu=1))
        assert place.spare.why_not(pod("c", cpu=2), "n0") is not None, "it waits still"
        place.rooms.show(pod("first", cpu=1, on="n0"))
    else:
        place.now += ALLOWANCE_SECONDS
        assert place.spare.why_not(pod("c", cpu=2), "n0") is not None
        place.now += 0.1
    assert place.spare.why_not(pod("c", cpu=2), "n0") is None


def test_a_node_that_is_not_known_yet_has_no_room_beside_seats() -> None:
    told = Place(Reservations([hold(1)])).spare.why_not(pod("a", cpu=1), "n9")
    assert told == "the node is not known here yet, and seats are held on it"


@pytest.mark.parametrize("requests", [0, 3])
def test_room_that_a_booked_start_waits_for_is_not_had_by_evicting_who_leaves_it(
    requests: int,
) -> None:
    """It may keep nothing yet: the room is with the pod that it waits for."""
    victim = pod("v", cpu=2, on="n0")
    wants = pod("a", cpu=5 - requests)
    spare = Place(Reservations(booked=[hold(requests)], awaited=[victim.uid])).spare
    assert spare.why_not(wants, "n0", leaving=[victim]) is not None
    free = Place(Reservations(booked=[hold(requests)])).spare
    assert free.why_not(wants, "n0", leaving=[victim]) is None


def test_gangs_of_other_namespaces_are_counted_and_not_named() -> None:
    other = GangKey(GANG.dialect, "other", "secret")
    reservations = Reservations([hold(3), Hold(other, 1000, "s2", "n0", (("cpu", 1000),))])
    told = Place(reservations).spare.why_not(pod("a", cpu=1), "n0") or ""
    assert str(GANG) in told
    assert "1 of other namespaces" in told
    assert "secret" not in told
