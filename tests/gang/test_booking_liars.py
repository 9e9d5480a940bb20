"""Booked starts among those who say what does not come true, and on clocks that are set."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.plan.ends import UNKNOWN, RunTimes, end_of
from extender.model.objects import Pod, Taint
from tests.gang.desk import Desk, full
from tests.gang.world import NOW, gang_key, pod

SAID = "podgroup-extender.io/expected-run-seconds"


def says(desk: Desk, name: str, seconds: float) -> None:
    """The owner of a pod that began at 0 expects it to end at ``seconds``."""
    desk.change(name, annotations={SAID: str(int(seconds))})


def small(namespace: str) -> Pod:
    """A pod that wants the room that is kept."""
    return pod("small", namespace=namespace, priority=5, cpu=1, tried=True)


def test_what_others_say_of_their_ends_costs_nobody_a_turn() -> None:
    """Its pods run on, and their annotations say each half minute that they end in one."""
    desk = Desk(*full(2, namespace="liar", started=NOW), patience_seconds=30.0)
    desk.gang("mine", 2, 5)
    desk.pods.append(small("liar"))
    desk.round()
    for i in range(300):
        if i % 6 == 0:
            says(desk, "b", desk.seconds + 60)
        desk.round(5.0)
        assert desk.seconds <= 30 or desk.booked == {"mine"}, (desk.seconds, desk.why("mine"))


def test_who_has_not_ended_when_it_should_have_is_not_believed_again() -> None:
    """Else a liar leads the seats from node to node, and away from each that comes free."""
    nodes, pods = full(3, namespace="liar", started=NOW)
    desk = Desk(nodes, pods, patience_seconds=30.0)
    desk.pods[2] = replace(desk.pods[2], namespace="third", limit=400, grace=0)
    desk.gang("mine", 1, 5)
    desk.round()
    says(desk, "b0", 60)
    desk.round(31.0)
    assert seats(desk) == {"n0"}
    says(desk, "b0", 150)
    says(desk, "b1", 300)
    desk.round(60.0)
    assert seats(desk) == {"n1"}, "it was to be gone at 60"
    says(desk, "b0", 340)
    says(desk, "b1", 360)
    desk.round(250.0)
    assert seats(desk) == {"n2"}, "this one has a limit"


def seats(desk: Desk) -> set[str]:
    booking = desk.bookings.get(gang_key("mine"))
    assert booking is not None
    return set(booking.nodes())


def test_who_is_late_has_its_limit_still_and_is_forgotten_when_it_is_gone() -> None:
    times = RunTimes()
    one = replace(pod("p", on="n0", started=NOW - 100), annotations={SAID: "400"}, limit=1000)
    times.late(one)
    end = end_of(one, NOW, times, 86_400.0)
    assert end is not None
    assert end.at == end.by == NOW + 930
    assert end_of(replace(one, limit=0), NOW, times, 86_400.0) == UNKNOWN
    times.gone(one)
    end = end_of(one, NOW, times, 86_400.0)
    assert end is not None
    assert end.at == NOW + 300


def test_who_has_started_has_not_given_its_place_up() -> None:
    """Its plan was made and over between two rounds."""
    desk = Desk(*full(2, namespace="third"), patience_seconds=100.0)
    desk.gang("mine", 2, 5)
    desk.round()
    desk.round(101.0)
    desk.round(301.0)
    assert desk.booked == {"mine"}
    for i in range(2):
        desk.remove(f"b{i}")
        desk.change(f"mine-{i}", node=f"n{i}")
    desk.round(1.0)
    assert desk.booked == set()
    desk.pods = [each for each in desk.pods if not each.name.startswith("mine")]
    desk.pods += full(2, namespace="third")[1]
    desk.gang("next", 2, 5)
    desk.pods.append(small("other"))
    desk.round(1.0)
    desk.round(101.0)
    assert desk.booked == {"next"}, desk.why("next")


def test_a_gang_made_anew_under_its_name_waits_anew() -> None:
    """In the line too: not only until it is due."""
    desk = Desk(*full(4, namespace="third"), patience_seconds=100.0)
    desk.gang("first", 4, 6)
    desk.gang("anew", 4, 5, namespace="one")
    desk.round()
    desk.gang("second", 4, 5, namespace="two")
    desk.round(50.0)
    desk.change("anew", created=NOW + 50.0 + 10.0)
    desk.round(100.0)
    desk.round(101.0)
    assert desk.booked == {"first"}
    desk.change("first", gated=True)
    desk.round(3.0)
    desk.round(3.0)
    assert desk.booked == {"second"}


@pytest.mark.parametrize("jump", [-36_000.0, 36_000.0])
def test_a_clock_that_is_set_changes_nobodys_age_or_turn(jump: float) -> None:
    desk = Desk(*full(2, namespace="third"), patience_seconds=100.0)
    desk.gang("mine", 2, 5)
    desk.round()
    desk.round(50.0)
    desk.clock = jump
    desk.round(1.0)
    assert desk.booked == set(), "it has waited for half of its time"
    desk.round(60.0)
    assert desk.booked == {"mine"}
    desk.pods.append(small("other"))
    desk.clock = 2 * jump
    for _ in range(4):
        desk.round(10.0)
    assert desk.booked == {"mine"}, "and it has not had its place for long"


def test_a_gang_that_wants_more_seats_or_less_is_booked_for_as_many() -> None:
    desk = Desk(*full(4, namespace="third"))
    desk.gang("mine", 4, 5)
    desk.groups[0] = replace(desk.groups[0], min_count=2)
    desk.round()
    booking = desk.bookings.get(gang_key("mine"))
    assert booking is not None
    assert len(booking.seats) == 2
    for size in (4, 1):
        desk.groups[0] = replace(desk.groups[0], min_count=size)
        desk.round(3.0)
        booking = desk.bookings.get(gang_key("mine"))
        assert booking is not None
        assert len(booking.seats) == size


def test_seats_are_not_kept_on_a_node_that_the_members_may_not_have_any_more() -> None:
    """Its taint came after the booking; whoever runs there stays for long."""
    nodes, pods = full(2, namespace="third", started=NOW)
    pods = [replace(each, limit=1000 * (1 + i), grace=0) for i, each in enumerate(pods)]
    desk = Desk(nodes, pods)
    desk.gang("mine", 1, 5)
    desk.round()
    assert seats(desk) == {"n0"}
    desk.nodes[0] = replace(desk.nodes[0], taints=(Taint("reserved"),))
    desk.round(3.0)
    assert seats(desk) == {"n1"}
