"""Pods that kube-scheduler may have put somewhere already, and the seats that wait for them."""

from __future__ import annotations

from extender.gang.core.reservations import Preemption
from extender.gang.runtime.clocks import Clocks
from extender.gang.scheduler_view.assumed_pods import OFFER_SECONDS, AssumedPods
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from tests.gang.rig import Rig
from tests.gang.showing import Showing
from tests.gang.world import pod


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def offers(blind: float = 0.0) -> tuple[AssumedPods, Time]:
    time = Time()
    return AssumedPods(Clocks(time), blind), time


class Hidden(Showing):
    """A cluster of which changes may have been missed for some seconds."""

    seconds = 0.0

    def stale_for(self) -> float:
        return self.seconds


def taken(found: list[object]) -> list[tuple[str, str]]:
    return [(hold.uid, hold.node) for hold in found]  # type: ignore[attr-defined]


def note(made: AssumedPods, *pods: Pod, nodes: tuple[str, ...] = ("n0", "n1")) -> None:
    for each in pods:
        made.note(each, nodes)


def test_an_offer_counts_where_it_was_made_until_it_is_settled() -> None:
    made, time = offers()
    note(made, pod("a"), pod("b"))
    time.now += 1
    assert taken([*made.in_the_way(time.now, {"n1", "n2"}, 0)]) == [
        ("uid-a", "n1"),
        ("uid-b", "n1"),
    ]
    made.settled("uid-a")
    assert taken([*made.in_the_way(time.now, {"n1"}, 0)]) == [("uid-b", "n1")]
    time.now += OFFER_SECONDS
    assert made.in_the_way(time.now, {"n1"}, 0) == []


def test_an_offer_made_after_the_seats_were_held_is_judged_by_them() -> None:
    made, time = offers()
    held = time.now
    time.now += 1
    note(made, pod("late"))
    assert made.in_the_way(held, {"n0"}, 0) == []


def test_an_offer_does_not_end_while_nobody_could_see_what_became_of_it() -> None:
    """A watch that is down shows no binding, however long it is waited for."""
    time, hidden = Time(), Hidden(lambda: Snapshot(generation=1))
    made = AssumedPods(Clocks(time), 0.0, hidden)
    note(made, pod("a"))
    for _ in range(20):
        time.now += 1
        hidden.seconds += 1
        made.look()
    assert taken([*made.in_the_way(time.now, {"n1"}, 0)]) == [("uid-a", "n1")]
    hidden.seconds = 0.0
    note(made, pod("b"), nodes=("n0",))
    time.now += OFFER_SECONDS - 1
    assert taken([*made.in_the_way(time.now, {"n1"}, 0)]) == [("uid-a", "n1")]
    time.now += 1.5
    assert made.in_the_way(time.now, {"n1"}, 0) == []


def test_an_offer_from_before_the_watch_went_down_keeps_the_time_it_had_left() -> None:
    time, hidden = Time(), Hidden(lambda: Snapshot(generation=1))
    made = AssumedPods(Clocks(time), 0.0, hidden)
    note(made, pod("a"))
    time.now += 3
    made.look()
    time.now, hidden.seconds = time.now + 60, 60.0
    made.look()
    time.now, hidden.seconds = time.now + 0.5, 0.0
    assert taken([*made.in_the_way(time.now, {"n1"}, 0)]) == [("uid-a", "n1")]
    time.now += 1
    assert made.in_the_way(time.now, {"n1"}, 0) == []


def test_a_pod_that_is_asked_for_again_is_not_where_it_was_offered_before() -> None:
    made, time = offers()
    note(made, pod("a"), nodes=("n0",))
    time.now += 1
    held = time.now + 1
    note(made, pod("a"), nodes=("n1",))
    assert made.in_the_way(held, {"n0"}, 0) == []


def test_what_a_life_before_has_offered_is_not_known_for_a_while() -> None:
    made, time = offers(blind=2.0)
    made.begin()
    held = time.now
    assert made.unknown(held)
    time.now += 2
    assert not made.unknown(held)


def test_old_offers_are_forgotten() -> None:
    made, time = offers()
    for i in range(100):
        note(made, pod(f"p{i}"))
        time.now += 1
    assert len(made._made) <= OFFER_SECONDS + 2


def test_after_many_offers_at_once_none_is_kept_beyond_its_time() -> None:
    """Each may name every node: those of a burst once stayed until as many others were made."""
    made, time = offers()
    note(made, *(pod(f"p{i}") for i in range(100)))
    time.now += OFFER_SECONDS + 1
    note(made, pod("late"))
    assert list(made._made) == ["uid-late"]


def test_names_are_bounded_and_the_oldest_offers_count_everywhere() -> None:
    """Pods of nobody's gang, asked about at once, kept every node's name each for four seconds."""
    time = Time()
    made = AssumedPods(Clocks(time), 0.0, most_names=5)
    note(made, pod("a"), pod("b"), pod("c"))
    assert taken([*made.in_the_way(time.now + 1, {"n1", "n2"}, 0)]) == [
        ("uid-a", "n1"),
        ("uid-a", "n2"),
        ("uid-b", "n1"),
        ("uid-c", "n1"),
    ]
    made.settled("uid-b")
    made.settled("uid-a")
    note(made, pod("d"))
    assert taken([*made.in_the_way(time.now + 1, {"n2"}, 0)]) == []
    note(made, pod("e"), nodes=("n0", "n1", "n2", "n3", "n4", "n5"))
    assert [uid for uid, _ in taken([*made.in_the_way(time.now + 1, {"n9"}, 0)])] == [
        "uid-c",
        "uid-d",
        "uid-e",
    ]


async def test_seats_open_once_it_is_seen_where_an_earlier_pod_went(rig: Rig) -> None:
    """The pod is assumed on n0 by kube-scheduler; a plan that counts on n0 would start in part."""
    await rig.pod("early", cls="low")
    assert (await rig.filter("early", "n0", "n1")).node_names == ["n0", "n1"]
    await rig.gang("high", 2, "high")
    held = await rig.filter("high-0", "n0", "n1")
    assert held.node_names == []
    preemption = next(iter(rig.coordinator.reservations))
    assert preemption.state is PreemptionState.EVICTING
    await rig.bind("early", "n0")
    # Seen bound, n0 is not free for a seat; low may be evicted for one.
    await rig.until(
        lambda: (
            any(
                victim.name == "early"
                for f in rig.coordinator.reservations
                for victim in f.plan.victims
            )
            or rig.cache.pod_named("default", "early") is None
        ),
        "the plan is changed",
    )


async def test_a_pod_that_leaves_room_enough_is_not_waited_for(rig: Rig) -> None:
    await rig.pod("small", cls="low", cpu="1")
    await rig.filter("small", "n0", "n1")
    await rig.gang("high", 2, "high")
    assert len((await rig.filter("high-0", "n0", "n1")).node_names) == 1


async def test_members_on_their_way_count_when_their_plan_is_over(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = (await rig.filter("high-0", "n0", "n1")).node_names
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan is over")
    await rig.gang("other", 2, "high")
    answer = await rig.filter("other-0", *({"n0", "n1"} - set(first)))
    assert answer.node_names == []
    await rig.bind("high-0", first[0])
    await rig.rounds()
    assert not any(
        preemption.state is PreemptionState.OPEN for preemption in rig.coordinator.reservations
    )


async def test_nobody_is_seated_while_a_more_urgent_pod_may_take_the_room() -> None:
    """The seats do not keep it away; a gang that begins to bind now would start in part."""
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        await rig.gang("high", 2, "high")
        await rig.pod("urgent", cls="top")
        preemption = await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
        assert isinstance(preemption, Preemption)
        assert (await rig.filter("urgent", "n0", "n1")).node_names == ["n0", "n1"]
        assert (await rig.filter("high-0", "n0", "n1")).node_names == []
        await rig.remove("urgent")
        await rig.until(lambda: rig.cache.pod_named("default", "urgent") is None, "it has gone")
        assert len((await rig.filter("high-0", "n0", "n1")).node_names) == 1
