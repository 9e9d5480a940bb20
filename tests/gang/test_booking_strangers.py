"""What one tenant can take from the others with booked starts: no more than is configured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Booking
from extender.gang.plan.ends import RunTimes, end_of
from extender.model.objects import Node, Owner, Pod
from extender.model.plan import Code
from tests.gang.desk import Desk, batch, full, kept_on
from tests.gang.world import NOW, gang_key, node, pod

YEARS = 68 * 365 * 24 * 3600
EVER = 2**31 - 1
"""The longest activeDeadlineSeconds there is: 68 years."""
SAID = "podgroup-extender.io/expected-run-seconds"


# -- what stands idle ---------------------------------------------------------------------


def test_the_share_is_for_all_bookings_together() -> None:
    desk = Desk(*full(10, namespace="third"), idle_share=0.3)
    desk.gang("even", 4, 5, "even")
    desk.gang("odd", 4, 5, "odd", namespace="other")
    desk.round()
    desk.round(3.0)
    assert desk.booked == {"even"}, "a fifth may idle for it; as much again is too much"
    assert "idleShare" in desk.why("odd")


def test_the_share_of_a_namespace_is_for_its_bookings_together() -> None:
    desk = Desk(*full(10), namespace_idle_share=0.3)
    desk.gang("even", 4, 5, "even")
    desk.gang("odd", 4, 5, "odd")
    desk.round()
    desk.round(3.0)
    assert desk.booked == {"even"}
    assert "namespaceIdleShare" in desk.why("odd")


def test_who_is_more_urgent_takes_the_share_of_the_others() -> None:
    desk = Desk(*full(10, namespace="third"), idle_share=0.3)
    desk.gang("even", 4, 5, "even")
    desk.round()
    desk.gang("odd", 4, 6, "odd", namespace="other")
    desk.round(3.0)
    assert desk.booked == {"odd"}, desk.why("odd")


@pytest.mark.parametrize("limit", [5000, EVER])
def test_the_share_holds_where_every_end_is_sure(limit: int) -> None:
    desk = Desk(*full(2, limit=limit), idle_share=0.2)
    desk.gang("big", 2, 5)
    desk.round()
    assert desk.booked == set()
    assert "idleShare" in desk.why("big")


def test_a_namespace_has_so_many_bookings_at_a_time() -> None:
    desk = Desk(*full(4), booked_per_namespace=1)
    desk.gang("even", 1, 5, "even")
    desk.gang("odd", 1, 5, "odd")
    desk.round()
    assert desk.booked == {"even"}
    assert "bookedPerNamespace" in desk.why("odd")


# -- ends ---------------------------------------------------------------------------------


def running(**how: Any) -> Pod:
    return replace(pod("p", on="n0", started=NOW - 100), **how)


@pytest.mark.parametrize(
    "how",
    [
        {"limit": EVER},
        {"deleting": NOW + YEARS},
        {"limit": 60, "grace": YEARS},
        {"annotations": {SAID: "600000"}},
        {"deleting": NOW - 3600},
    ],
)
def test_beyond_the_horizon_nothing_is_known(how: dict[str, Any]) -> None:
    end = end_of(running(**how), NOW, RunTimes(), 86_400.0)
    assert end is not None
    assert (end.at, end.by) == (None, None)
    assert end_of(running(**how, endless=True), NOW, RunTimes(), 86_400.0) in (None, end)


def test_a_pod_that_is_deleted_with_years_of_grace_does_not_go() -> None:
    desk = Desk(*full(2, deleting=NOW + YEARS, grace=YEARS, endless=True))
    desk.gang("big", 2, 5)
    desk.round()
    assert desk.booked == set()
    assert "does not fit" in desk.why("big")


def test_a_pod_that_is_deleted_with_an_hour_of_grace_goes_then() -> None:
    desk = Desk(*full(2, deleting=NOW + 3600, grace=3600))
    desk.gang("big", 2, 5)
    desk.round()
    [told] = desk.bookings.describe()
    assert desk.booked == {"big"}
    assert told["start"] is not None


# -- a place is not kept for ever ---------------------------------------------------------


def test_who_waits_for_its_owners_own_sleeper_has_no_booking() -> None:
    nodes, pods = full(2)
    owner = Owner("Job", "j", "uid-j")
    pods[0] = replace(pods[0], owner=owner)
    desk = Desk(nodes, pods)
    desk.gang("big", 2, 5)
    desk.change("big", owner=owner)
    desk.round()
    assert desk.booked == set()
    assert "does not fit" in desk.why("big")


def test_who_waits_for_its_namespaces_own_sleepers_makes_way_for_others() -> None:
    desk = Desk(*full(2), patience_seconds=100.0)
    desk.gang("mine", 2, 5)
    desk.gang("yours", 2, 5, namespace="other")
    desk.round()
    desk.round(101.0)
    assert desk.booked == {"mine"}
    for _ in range(50):
        desk.round(3.0)
    assert desk.booked == {"yours"}
    assert "own namespace" in desk.why("mine")


def test_alone_it_keeps_its_place_whoever_it_waits_for() -> None:
    desk = Desk(*full(2), patience_seconds=100.0)
    desk.gang("mine", 2, 5)
    desk.round()
    desk.round(101.0)
    for _ in range(100):
        desk.round(3.0)
        assert desk.booked == {"mine"}, "nobody else wants the room"
    desk.pods.append(pod("small", namespace="other", priority=5, cpu=1, tried=True))
    desk.round(3.0)
    assert desk.booked == set(), "it has lost its turn, and somebody wants the room"
    assert "own namespace" in desk.why("mine")


def test_a_start_that_is_never_kept_loses_its_turn() -> None:
    nodes, pods = full(2, limit=200, namespace="third")
    desk = Desk(nodes, pods)
    desk.gang("mine", 2, 5)
    desk.round()
    assert desk.booked == {"mine"}
    desk.gang("yours", 2, 5, namespace="other")
    for _ in range(40):
        desk.round(10.0)
    assert "yours" in desk.booked, "its kubelet does not end what it should end"
    assert "passed" in desk.why("mine")


def test_no_place_is_kept_beyond_the_horizon() -> None:
    nodes, pods = full(2, namespace="third")
    desk = Desk(nodes, pods, horizon_seconds=600.0)
    desk.gang("mine", 2, 5)
    desk.round()
    desk.gang("yours", 2, 5, namespace="other")
    for _ in range(19):
        desk.round(30.0)
        assert desk.booked == {"mine"}
    for _ in range(3):
        desk.round(30.0)
    assert desk.booked == {"yours"}
    assert "horizonSeconds" in desk.why("mine")


def test_who_loses_its_turn_again_stands_behind_for_longer() -> None:
    """A sleeper in one namespace, a large gang in another, and somebody else who wants the room."""
    nodes, pods = full(2, namespace="third")
    desk = Desk(nodes, pods, horizon_seconds=600.0)
    desk.gang("mine", 2, 5)
    desk.pods.append(pod("small", namespace="other", priority=5, cpu=1, tried=True))
    had: list[bool] = []
    for _ in range(200):
        desk.round(30.0)
        had.append(desk.booked == {"mine"})
    lasting = [len(list(each)) for _, each in groupby(had)]
    assert had[0]
    for turn, behind in zip(lasting[0::2], lasting[1::2], strict=False):
        assert turn <= 21, "the horizon"
        assert behind >= 20
    assert lasting[3] >= 2 * lasting[1] - 1


# -- age ----------------------------------------------------------------------------------


@pytest.mark.parametrize("held", ["gated", "incomplete"])
def test_age_counts_from_when_it_could_be_planned(held: str) -> None:
    desk = Desk(*full(2), patience_seconds=100.0)
    desk.gang("old", 2, 5)
    if held == "gated":
        desk.change("old-0", gated=True)
    else:
        left = desk.pods.pop()
    desk.round()
    desk.round(1000.0)
    if held == "gated":
        desk.change("old-0", gated=False)
    else:
        desk.pods.append(left)
    desk.round(1.0)
    desk.round(90.0)
    assert desk.booked == set(), "its waiting began when it was let go"
    desk.round(11.0)
    assert desk.booked == {"old"}


def test_who_waits_for_its_turn_to_be_planned_does_not_begin_anew() -> None:
    desk = Desk(*full(2), patience_seconds=100.0)
    desk.gang("big", 2, 5)
    desk.round()
    desk.code = Code.TURN
    desk.round(90.0)
    desk.code = Code.INFEASIBLE
    desk.round(11.0)
    assert desk.booked == {"big"}


def test_who_gives_its_place_up_after_a_while_stands_behind() -> None:
    desk = Desk(*full(2, namespace="third"), patience_seconds=100.0)
    desk.gang("mine", 2, 5)
    desk.round()
    desk.round(101.0)
    assert desk.booked == {"mine"}
    for _ in range(100):
        desk.round(10.0)
    assert desk.booked == {"mine"}
    for i in range(2):  # made anew, as somebody would who wants a tenure of its own
        desk.change(f"mine-{i}", uid=f"uid-anew-{i}", created=NOW + desk.seconds)
    desk.pods.append(pod("small", namespace="other", priority=5, cpu=1, tried=True))
    for _ in range(90):
        desk.round(10.0)
        assert desk.booked == set()
    assert "members are others" in desk.why("mine")
    for _ in range(15):
        desk.round(10.0)
    assert desk.booked == {"mine"}, "as long as it had the place"


def test_namespaces_have_their_turn_by_turns() -> None:
    desk = Desk(*full(2, namespace="third"))
    for name in ("a1", "a2", "a3"):
        desk.gang(name, 2, 5)
    desk.round()
    desk.gang("b1", 2, 5, namespace="other")
    desk.round(3.0)
    assert desk.booked == {"a1"}
    desk.pods = [each for each in desk.pods if not each.name.startswith("a1")]
    desk.groups.pop(0)
    desk.round(3.0)
    desk.round(3.0)
    assert desk.booked == {"b1"}, "who has just been served stands behind, with all its gangs"


# -- no longer ours -----------------------------------------------------------------------


def test_a_namespace_that_is_not_enforced_gives_its_room_back_at_once() -> None:
    desk = Desk(*full(2))
    desk.gang("big", 2, 5)
    desk.round()
    desk.remove("b0")
    assert desk.reservations.booked
    desk.left_alone.add("default")
    desk.bookings.tick()
    assert desk.booked == set()
    assert not desk.reservations.booked


# -- work ---------------------------------------------------------------------------------


def wide(count: int) -> tuple[list[Node], list[Pod]]:
    nodes = [node(f"n{i}") for i in range(count)]
    return nodes, [batch(f"b{i}", f"n{i}") for i in range(count)]


def test_one_event_costs_the_same_however_many_seats_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[str] = []
    of = pure.waited_for

    def counted(booking: Booking, pods: Iterable[Pod], *rest: Any) -> Iterator[Pod]:
        looked.append(booking.gang.name)
        return of(booking, pods, *rest)

    monkeypatch.setattr(pure, "waited_for", counted)
    work = []
    for count in (4, 16):
        desk = Desk(*wide(count))
        desk.gang("big", count, 5)
        desk.round()
        assert desk.booked == {"big"}
        looked.clear()
        desk.remove("b0")
        assert [hold.node for hold in kept_on(desk.reservations, "n0")] == ["n0"]
        event = len(looked)
        desk.round(0.25)
        desk.round(0.25)
        looked.clear()
        desk.look_after()
        work.append((event, len(looked)))
    assert work[0] == work[1], "nodes looked at for an event, and in a quiet round"
    assert work[0][1] == 0


def test_what_the_seats_of_a_node_ask_for_is_added_up_once() -> None:
    desk = Desk(*wide(4))
    desk.gang("big", 4, 5)
    desk.round()
    booking = desk.bookings.get(gang_key("big"))
    assert booking is not None
    assert booking.asked is booking.asked
    assert set(booking.asked) == booking.nodes() == {"n0", "n1", "n2", "n3"}
