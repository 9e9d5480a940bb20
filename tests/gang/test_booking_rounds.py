"""Rounds of booked starts by hand: real searches on a cluster that a test changes in between."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from extender.gang.booking.booking_line import FAILED_SECONDS
from tests.gang.desk import Desk, batch, full, kept_on
from tests.gang.world import NOW, gang_key, node, pod


def test_who_cannot_be_booked_displaces_nobody() -> None:
    nodes, pods = full(3)
    pods[2] = replace(pods[2], endless=True)
    desk = Desk(nodes, pods)
    desk.gang("fits", 2, 5)
    desk.gang("never", 3, 6)
    desk.round()
    assert desk.booked == {"fits"}
    [before] = (each for each in desk.bookings.describe() if each["booked"])
    for _ in range(20):
        desk.round(3.0)
        [now] = (each for each in desk.bookings.describe() if each["booked"])
        assert (now["gang"], now["since"]) == (before["gang"], before["since"])
    assert desk.asked.count(gang_key("never")) > 2, "it was tried again meanwhile"


def test_who_is_more_urgent_and_can_be_booked_displaces() -> None:
    desk = Desk(*full(2))
    desk.gang("fits", 2, 5)
    desk.round()
    assert desk.booked == {"fits"}
    desk.gang("more", 2, 6)
    desk.round(3.0)
    assert desk.booked == {"more"}
    desk.round(3.0)
    assert desk.booked == {"more"}


def test_all_that_are_beside_make_way() -> None:
    desk = Desk(*full(2))
    desk.gang("even", 1, 5, "even")
    desk.gang("odd", 1, 4, "odd")
    desk.round()
    assert desk.booked == {"even", "odd"}, "they share no node"
    desk.gang("both", 2, 6)
    desk.round(3.0)
    assert desk.booked == {"both"}


def test_nobody_makes_way_where_one_of_them_is_not_less_urgent() -> None:
    desk = Desk(*full(4))
    desk.gang("even", 1, 7, "even")
    desk.gang("odd", 1, 4, "odd")
    desk.round()
    assert desk.booked == {"even", "odd"}
    desk.gang("both", 1, 6)
    desk.round(3.0)
    assert desk.booked == {"even", "odd"}


def test_an_enforced_end_stays_sure_where_an_earlier_one_is_likely() -> None:
    desk = Desk(*full(2, limit=5000))
    desk.bookings.run_times.ended(pod("q", on="n0", started=NOW - 600), NOW)
    desk.gang("big", 2, 5)
    desk.round()
    assert desk.booked == {"big"}, "nobody has to guess until when room could stand idle"
    [told] = desk.bookings.describe()
    assert [each["sure"] for each in told["waitsFor"]] == [True, True]


def test_who_was_let_in_is_counted_on_whatever_is_observed_later() -> None:
    desk = Desk(*full(2, limit=5000))
    desk.gang("big", 2, 5)
    desk.round()
    desk.pods = [each for each in desk.pods if each.name != "b0"]
    desk.pods.append(batch("between", "n0", limit=3000, started=NOW))
    desk.look()
    desk.bookings.run_times.ended(pod("q", on="n0", started=NOW - 600), NOW)
    asked = len(desk.asked)
    desk.round(3.0)
    assert desk.booked == {"big"}
    assert len(desk.asked) == asked, "nothing has to be worked out again"
    assert [each for name in ("n0", "n1") for each in kept_on(desk.reservations, name)] == []


def cordoned(desk: Desk) -> None:
    desk.nodes[0] = replace(desk.nodes[0], unschedulable=True)


def shrunk(desk: Desk) -> None:
    desk.pods = [each for each in desk.pods if each.name != "big-0"]


def more_urgent(desk: Desk) -> None:
    desk.pods.append(pod("urgent", on="n0", priority=10, cpu=4))


def grown(desk: Desk) -> None:
    desk.pods = [
        replace(each, requests=(("cpu", 9000), ("pods", 1))) if each.name == "big-0" else each
        for each in desk.pods
    ]


@pytest.mark.parametrize("change", [cordoned, shrunk, more_urgent, grown])
def test_what_changed_while_it_was_worked_out_is_not_booked(
    change: Callable[[Desk], None],
) -> None:
    desk = Desk(*full(2))
    desk.gang("big", 2, 5)

    def meanwhile() -> None:
        change(desk)
        desk.look()
        desk.meanwhile = lambda: None

    desk.meanwhile = meanwhile
    desk.look_after()
    assert desk.asked
    assert desk.booked == set()
    assert not desk.reservations.booked


def test_a_gang_whose_search_fails_keeps_no_other_from_its_turn() -> None:
    desk = Desk(*full(2))
    desk.gang("bad", 2, 6)
    desk.gang("good", 2, 5)

    def fails() -> None:
        if desk.asked[-1].name == "bad":
            raise ValueError("no such thing")

    desk.meanwhile = fails
    for _ in range(20):
        desk.round(3.0)
    assert desk.booked == {"good"}
    assert desk.failed == ["bad: no such thing"], "it is not tried again for some minutes"
    [told] = (each for each in desk.bookings.describe() if not each["booked"])
    assert "could not be worked out" in told["why"]
    desk.meanwhile = lambda: None
    desk.round(FAILED_SECONDS)
    assert desk.booked == {"bad"}


def test_a_gang_that_cannot_be_read_keeps_no_other_from_its_turn() -> None:
    desk = Desk(*full(4))
    desk.gang("bad", 1, 6, "even")
    desk.gang("good", 1, 5, "odd")
    desk.round()
    assert desk.booked == {"bad", "good"}
    desk.unreadable.add("bad")
    desk.gang("later", 1, 4)
    desk.round(3.0)
    assert desk.booked == {"good"}, "what is kept for it is given back"
    assert set(desk.failed) == {"bad: unreadable"}


def test_each_question_beats_and_many_moments_are_not_all_asked_about() -> None:
    nodes = [node("n0"), node("n1")]
    pods = [
        replace(pod(f"b{i}", on=f"n{i % 2}", priority=9, cpu=0.25), limit=1000 + 100 * i)
        for i in range(32)
    ]
    desk = Desk(nodes, pods)
    desk.gang("big", 2, 5)
    desk.search_seconds = 0.6
    desk.round()
    assert len(desk.asked) <= 3
    assert desk.booked == {"big"}, "with a start that may not be the earliest"
    [told] = desk.bookings.describe()
    assert told["start"] is not None


def test_starts_that_do_not_hold_are_worked_out_again_a_tenth_of_the_time() -> None:
    desk = Desk(*full(8), booked_per_domain=4)
    for i in range(4):
        desk.gang(f"g{i}", 1, 5)
    desk.round()
    assert len(desk.booked) == 4
    used = {seat for each in desk.bookings.describe() for seat in each["seats"].values()}
    desk.nodes = [replace(each, unschedulable=each.name in used) for each in desk.nodes]
    desk.asked.clear()
    desk.search_seconds = 0.6
    began = desk.seconds + 3.0
    desk.round(3.0)
    assert len(desk.asked) <= 2, "one of the four"
    for _ in range(100):
        desk.round(0.1)
    spent = len(desk.asked) * desk.search_seconds
    assert len(desk.asked) >= 2, "one after the other"
    assert spent <= (desk.seconds - began) / 5 + 2 * desk.search_seconds


def test_a_search_that_does_not_end_pauses_the_booking_and_nothing_else() -> None:
    desk = Desk(*full(2))
    desk.gang("large", 2, 6)
    desk.gang("good", 2, 5)

    def overruns() -> None:
        if desk.asked[-1].name == "large":
            raise TimeoutError

    desk.meanwhile = overruns
    for _ in range(10):
        desk.round(3.0)
    assert desk.booked == {"good"}
    assert desk.asked.count(gang_key("large")) == 1
    assert desk.failed == [], "it is no fault"
    [told] = (each for each in desk.bookings.describe() if not each["booked"])
    assert "did not end" in told["why"]
