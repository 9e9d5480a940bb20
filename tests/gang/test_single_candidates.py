"""A pod of no gang preempts on the nodes that kube-scheduler named for it, and on no other."""

from __future__ import annotations

from typing import Any

import pytest

from extender.gang.tell.decisions import Verb
from extender.model.gang import Gang
from extender.model.plan import Code, Refusal
from tests.gang.rig import LOW, PODS, Rig
from tests.gang.test_room_of_others import Gate, leave_after_searches

PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}


async def whole_gang_on_n0(rig: Rig, pods: int, **single: Any) -> None:
    """A less urgent gang that goes whole, "p" that wants its node, and as many ``pods`` beside."""
    await rig.group("low", 2, "low")
    for name in LOW:
        await rig.pod(name, cls="low", group="low", on="n0", cpu="2")
    await rig.pod("p", **{"cls": "high", **single})
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == pods + 3, "all pods")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new


def at_its_record(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Stop where the next record is about to be written."""
    keeper: Any = rig.coordinator.executor._keeper
    gate = Gate(keeper.write, after=False)
    monkeypatch.setattr(keeper, "write", gate)
    return gate


async def protected(rig: Rig) -> None:
    for name in LOW:
        await rig.client.patch(f"{PODS}/{name}", PROTECTED)
    await rig.until(lambda: all(rig.cached(name).annotations for name in LOW), "both stay")


async def test_nobody_goes_where_seats_are(rig: Rig) -> None:
    """A seat of another there made a node one to evict on, which kube-scheduler had not named."""
    await rig.pod("single", cls="low", on="n1")
    await rig.group("first", 1, "high")
    await rig.pod("first-0", cls="high", group="first", cpu="1")
    await whole_gang_on_n0(rig, 2)
    await rig.coordinator.ensure(rig.resolver_key("first-0"), Verb.LOOP)
    rig.coordinator.evidence._freed.clear()
    await rig.preempt("p", n0=[*LOW])
    await rig.until_names("single", "first-0", "p")


async def test_nobody_goes_where_a_pod_has_just_left(rig: Rig) -> None:
    """A tenant makes one with a node, and deletes it, as often as he likes."""
    await rig.pod("single", cls="low", on="n1")
    await rig.pod("bait", on="n1", cpu="0")
    await whole_gang_on_n0(rig, 2)
    await rig.remove("bait")
    await rig.until(lambda: rig.cache.pod_named("default", "bait") is None, "it is gone")
    await rig.preempt("p", n0=[*LOW])
    await rig.until_names("single", "p")


async def test_no_gang_loses_its_seats_there(rig: Rig) -> None:
    await rig.group("first", 1, "high")
    await rig.pod("first-0", cls="high", group="first", cpu="4")
    await whole_gang_on_n0(rig, 1, cls="top", cpu="4")
    first = await rig.coordinator.ensure(rig.resolver_key("first-0"), Verb.LOOP)
    rig.coordinator.evidence._freed.clear()
    await rig.preempt("p", n0=[*LOW])
    await rig.until_names("first-0", "p")
    assert rig.coordinator.reservations.get(rig.resolver_key("first-0")) is first


async def test_room_beside_seats_that_it_was_kept_off_is_used(rig: Rig) -> None:
    """It was our word that kept it off (607790 with sparing)."""
    await rig.group("first", 1, "high")
    await rig.pod("first-0", cls="high", group="first", cpu="2")
    await whole_gang_on_n0(rig, 1, cpu="2")
    await rig.coordinator.ensure(rig.resolver_key("first-0"), Verb.LOOP)
    rig.coordinator.evidence._freed.clear()
    await rig.preempt("p", n0=[*LOW])
    assert {*LOW} <= await rig.names()
    assert {s.node for f in rig.coordinator.reservations for s in f.plan.seats} == {"n1"}


async def test_a_plan_that_is_changed_keeps_to_them(
    wide: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its victims were protected meanwhile, and others went on a node that nobody had named."""
    rig = wide
    for i in range(1, 4):
        await rig.pod(f"mid-{i}", cls="mid", on=f"n{i}", cpu="4")
    await whole_gang_on_n0(rig, 3)
    gate = at_its_record(rig, monkeypatch)
    await rig.preempt("p", n0=[*LOW])
    await rig.until(lambda: gate.reached, "its plan is being recorded")
    (preemption,) = rig.coordinator.reservations
    await protected(rig)
    gate.opened.set()
    await rig.until(lambda: preemption.over, "the plan does not hold any more")
    await rig.rounds()
    assert {*LOW, "mid-1", "mid-2", "mid-3"} <= await rig.names()


async def test_a_plan_of_a_life_before_that_does_not_hold_ends(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not known any more which nodes were named."""
    await rig.pod("other", cls="low", on="n1", cpu="4")
    await whole_gang_on_n0(rig, 1)
    keeper: Any = rig.coordinator.executor._keeper
    write, recorded = keeper.write, False

    async def killed(*args: Any, **named: Any) -> Any:
        nonlocal recorded
        await write(*args, **named)
        recorded = True
        await rig.until(lambda: False, "the process is killed", 30)

    monkeypatch.setattr(keeper, "write", killed)
    await rig.preempt("p", n0=[*LOW])
    await rig.until(lambda: recorded, "its record is there")
    await rig.kill()
    for name in LOW:
        await rig.client.patch(f"{PODS}/{name}", PROTECTED)
    await rig.start()
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")
    await rig.rounds()
    assert {*LOW, "other"} <= await rig.names()


async def test_room_that_comes_while_the_plan_is_searched_for_counts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search for whether a plan is cheapest is over by then; the next one left the node out."""
    await rig.pod("leaving", cls="top", on="n1")
    await whole_gang_on_n0(rig, 1)
    leave_after_searches(rig, monkeypatch, "", "leaving")
    await rig.preempt("p", n0=[*LOW])
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_room_that_comes_while_the_cheapest_node_is_searched_for(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer was a node that breaks no gang, and kube-scheduler evicted beside free room."""
    await rig.nodes(1, first=2)
    await rig.pod("leaving", cls="top", on="n1")
    await rig.pod("single", cls="low", on="n2")
    await whole_gang_on_n0(rig, 2)
    leave_after_searches(rig, monkeypatch, "leaving")
    assert not (await rig.preempt("p", n0=[*LOW], n2=["single"])).candidates
    assert [seat.node for each in rig.coordinator.reservations for seat in each.plan.seats] == [
        "n1"
    ]


async def test_room_comes_on_a_node_that_looked_free_and_was_not(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler knew of a pod there that the watch showed later (seed 853908 with sparing)."""
    await rig.pod("top", cls="top", on="n1", cpu="4")
    await rig.nodes(1, first=2)
    await whole_gang_on_n0(rig, 1, cpu="1")
    gate = at_its_record(rig, monkeypatch)
    await rig.preempt("p", n0=[*LOW])
    await rig.until(lambda: gate.reached, "its plan is being recorded")
    (preemption,) = rig.coordinator.reservations
    assert {victim.name for victim in preemption.plan.victims} == {*LOW}
    await rig.pod("assumed", cls="top", on="n2", cpu="4")
    await rig.until(lambda: rig.cache.pod_named("default", "assumed") is not None, "it shows")
    await rig.remove("assumed")
    await rig.pod("other", cls="top", on="n2", cpu="3")
    await rig.until(lambda: rig.cache.pod_named("default", "assumed") is None, "it has gone")
    await rig.until(lambda: rig.cache.pod_named("default", "other") is not None, "another came")
    gate.opened.set()
    await rig.until(lambda: preemption.over, "there is room for it")
    await rig.rounds()
    assert {*LOW} <= await rig.names()
    assert [seat.node for each in rig.coordinator.reservations for seat in each.plan.seats] == [
        "n2"
    ]


async def test_a_node_that_is_offered_since_is_used_where_its_plan_is_changed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seats of another gang were there when it asked, so it was no candidate (seed 864332)."""
    await rig.pod("top", cls="top", on="n1", cpu="1")
    await whole_gang_on_n0(rig, 1, cpu="4", cls="top")
    await rig.nodes(1, first=2)
    await rig.group("first", 1, "high")
    await rig.pod("first-0", cls="high", group="first", cpu="4")
    await rig.until(lambda: rig.cache.pod_named("default", "first-0") is not None)
    await rig.coordinator.ensure(rig.resolver_key("first-0"), Verb.LOOP)
    await rig.until(
        lambda: all(each.recorded for each in rig.coordinator.reservations), "seats are held"
    )
    gate = at_its_record(rig, monkeypatch)
    rig.coordinator.evidence._freed.clear()
    await rig.preempt("p", n0=[*LOW])
    await rig.until(lambda: gate.reached, "its plan is being recorded")
    (preemption,) = [each for each in rig.coordinator.reservations if each.plan.victims]
    assert not (await rig.filter("p", "n2")).node_names
    await protected(rig)
    gate.opened.set()
    await rig.until(lambda: preemption.over, "the plan does not hold any more")
    await rig.rounds()
    seats = [
        (seat.name, seat.node) for each in rig.coordinator.reservations for seat in each.plan.seats
    ]
    assert seats == [("p", "n2")]


async def test_a_pod_beside_a_protected_one_goes_where_kube_scheduler_proposes_that_one(
    rig: Rig,
) -> None:
    """kube-scheduler knows no protection, and no event tells it to propose another victim."""
    await rig.pod("full", cls="top", on="n1", cpu="4")
    await rig.pod("kept", cls="low", on="n0", cpu="2")
    path = "/api/v1/namespaces/default/pods/kept"
    await rig.client.patch(path, PROTECTED, kind="merge")
    await rig.pod("other", cls="low", on="n0", cpu="2")
    await rig.pod("urgent", cls="top", cpu="2")
    await rig.until(lambda: bool(rig.cached("kept").annotations), "the mark is seen")
    assert not (await rig.preempt("urgent", n0=["kept"])).candidates
    await rig.until_names("full", "kept", "urgent")


async def test_a_pod_beside_a_protected_one_that_has_to_wait_its_turn_is_tried_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time lifts such a refusal, and kube-scheduler hears of no event."""
    await rig.pod("full", cls="top", on="n1", cpu="4")
    await rig.pod("kept", cls="low", on="n0", cpu="2")
    await rig.client.patch("/api/v1/namespaces/default/pods/kept", PROTECTED, kind="merge")
    await rig.pod("other", cls="low", on="n0", cpu="2")
    await rig.pod("urgent", cls="top", cpu="2")
    await rig.until(lambda: bool(rig.cached("kept").annotations), "the mark is seen")

    def in_turn(gang: Gang, waiting: object) -> Refusal:
        return Refusal(gang=gang.key, code=Code.TURN, message="others come first")

    monkeypatch.setattr(rig.coordinator.admission, "must_wait", in_turn)
    assert not (await rig.preempt("urgent", n0=["kept"])).candidates
    assert [pod.name for pod in rig.coordinator.hints.held_back.pods()] == ["urgent"]
