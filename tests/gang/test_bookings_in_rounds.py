"""Booked starts: rounds by hand, claims and turns, and those who say what does not come true."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.booking.booking_line import (
    AGAIN_SECONDS,
    FAILED_SECONDS,
    LONGEST_AGAIN_SECONDS,
    BookingLine,
    PodEnds,
)
from extender.gang.plan import booking as pure
from extender.gang.plan.booking import Booking, claims
from extender.gang.plan.ends import UNKNOWN, RunTimes, end_of
from extender.gang.runtime.clocks import Clocks
from extender.model.gang import Gang
from extender.model.objects import Node, Owner, Pod, Taint
from extender.model.plan import Code
from extender.model.snapshot import Snapshot
from extender.settings.fairness import FairnessSettings
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


def booking(name: str, cores: int, *awaited: str, priority: int = 5, made: float = 0.0) -> Booking:
    return Booking(
        gang=gang_key(name),
        priority=priority,
        made=made,
        start=None,
        seats={f"{name}-0": "n0"},
        requests={f"{name}-0": (("cpu", cores),)},
        awaited=frozenset(awaited),
        domain=frozenset({"n0"}),
    )


def running(uid: str, cores: int) -> Pod:
    requests = (("cpu", cores), ("memory", 7))
    return Pod(uid=uid, namespace="default", name=uid, node="n0", requests=requests)


def kept(
    *bookings: Booking, pods: tuple[Pod, ...], promised: tuple[str, ...] = ()
) -> Mapping[str, tuple[int, dict[str, int]]]:
    """By gang: cores kept now, and the cores of each awaited pod that are counted on."""
    return {
        made.gang.name: (
            amounts.get("cpu", 0),
            {uid: dict(part).get("cpu", 0) for uid, part in awaited},
        )
        for made, amounts, awaited in claims(bookings, "n0", pods, lambda pod: None, promised)
    }


def test_nothing_is_kept_of_what_is_still_with_others() -> None:
    """Nor is more of a pod counted on than is asked for, and nothing of what is not."""
    one = booking("one", 3, "old")
    assert kept(one, pods=(running("old", 4),)) == {"one": (0, {"old": 3})}
    assert kept(one, pods=(running("old", 2),)) == {"one": (1, {"old": 2})}
    assert kept(one, pods=()) == {"one": (3, {})}
    [(_, _, awaited)] = claims([one], "n0", (running("old", 4),), lambda pod: None, ())
    assert awaited == (("old", (("cpu", 3),)),)


def test_two_that_wait_for_one_pod_count_its_room_once() -> None:
    """Three cores each, of which the pod has four: two more are theirs already."""
    first, second = booking("first", 3, "old"), booking("second", 3, "old", made=1.0)
    pods = (running("old", 4),)
    expected = {"first": (0, {"old": 3}), "second": (2, {"old": 1})}
    assert kept(first, second, pods=pods) == expected
    assert kept(second, first, pods=pods) == expected, "whoever is looked at first"
    urgent = booking("urgent", 3, "old", made=2.0, priority=6)
    assert kept(first, urgent, pods=pods) == {"urgent": (0, {"old": 3}), "first": (2, {"old": 1})}


def test_room_that_a_plan_counts_on_is_not_counted_on() -> None:
    """The pod is waited for all the same, and its room is the plan's when it has gone."""
    pods = (running("old", 4),)
    assert kept(booking("one", 3, "old"), pods=pods, promised=("old",)) == {"one": (3, {"old": 0})}


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


YEARS = 68 * 365 * 24 * 3600
EVER = 2**31 - 1
"""The longest activeDeadlineSeconds there is: 68 years."""


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


def stranger_running(**how: Any) -> Pod:
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
    end = end_of(stranger_running(**how), NOW, RunTimes(), 86_400.0)
    assert end is not None
    assert (end.at, end.by) == (None, None)
    assert end_of(stranger_running(**how, endless=True), NOW, RunTimes(), 86_400.0) in (None, end)


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
