"""Room that comes after the search is used: nobody is evicted for seats that are free by then."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from extender.gang.tell.decisions import Verb
from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, LOW, PODS, REAL_DELETE, Rig, full_cluster, held_back, let_go


class Gate:
    """Holds the first call of a coroutine function before (or after) it works."""

    def __init__(self, work: Any, *, after: bool) -> None:
        self.reached = False
        self.opened = asyncio.Event()
        self._work = work
        self._after = after

    async def __call__(self, *args: Any, **named: Any) -> Any:
        held, self.reached = not self.reached, True
        if held and not self._after:
            await self.opened.wait()
        result = await self._work(*args, **named)
        if held and self._after:
            await self.opened.wait()
        return result


def _searching(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Stop where the next search has ended."""
    planner: Any = rig.coordinator.thread
    gate = Gate(planner.plan, after=True)
    monkeypatch.setattr(planner, "plan", gate)
    return gate


async def _leaves(rig: Rig, name: str) -> None:
    await rig.remove(name)
    await rig.until(lambda: rig.cache.pod_named("default", name) is None, "it is gone")


def leave_after_searches(rig: Rig, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Let one pod after the other leave while the answer of a search is on its way; "": nobody."""
    planner: Any = rig.coordinator.thread
    plan, left = planner.plan, list(names)

    async def planned(*args: Any) -> Any:
        found = await plan(*args)
        if left and (name := left.pop(0)):
            await _leaves(rig, name)
        return found

    monkeypatch.setattr(planner, "plan", planned)


async def _two_nodes_more(rig: Rig) -> None:
    for name in ("x0", "x1"):
        await rig.client.create(
            "/api/v1/nodes",
            {"metadata": {"name": name}, "status": {"allocatable": {"cpu": "4", "pods": "110"}}},
        )
    await rig.until(lambda: {"x0", "x1"} <= rig.cache.snapshot().nodes.keys(), "they are cached")


def _free_seats(rig: Rig) -> bool:
    return any(
        {seat.node for seat in preemption.plan.seats} == {"x0", "x1"}
        and preemption.state.value == "open"
        for preemption in rig.coordinator.reservations
    )


@pytest.mark.parametrize("moment", ["search", "record"])
async def test_nodes_that_come_before_the_first_eviction_spare_the_victims(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    if moment == "search":
        gate = _searching(rig, monkeypatch)
    else:
        owner: Any = rig.coordinator.executor._keeper
        gate = Gate(owner.write, after=False)
        monkeypatch.setattr(owner, "write", gate)
    await full_cluster(rig)
    asked = asyncio.create_task(rig.preempt("high-0", n0=["low-0"]))
    await rig.until(lambda: gate.reached, "the plan comes to that")
    await _two_nodes_more(rig)
    gate.opened.set()
    await asked
    await rig.until(lambda: _free_seats(rig), "it has seats on the new nodes")
    assert await rig.names() == {*LOW, *HIGH}


@pytest.mark.parametrize("older", [True, False])
async def test_a_list_is_no_reason_to_evict_where_a_pod_has_just_left(
    rig: Rig, *, older: bool
) -> None:
    """kube-scheduler's list was milliseconds older than the room (seed 600072 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("other", cls="high", on="n1")
    await rig.gang("high", 1, "high")
    await _leaves(rig, "other")
    if not older:
        rig.coordinator.evidence._freed.clear()
    await rig.filter("high-0")
    (preemption,) = rig.coordinator.reservations
    assert len(preemption.plan.victims) == (0 if older else 1)


async def test_candidates_are_no_reason_to_evict_where_a_pod_has_just_left(rig: Rig) -> None:
    """kube-scheduler's candidates for a pod of no gang may be as old as a list."""
    await rig.group("low", 2, "low")
    for name in LOW:
        await rig.pod(name, cls="low", group="low", on="n0", cpu="2")
    await rig.pod("leaving", cls="low", on="n1")
    await rig.pod("p", cls="high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "four pods")
    await rig.remove("leaving")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "it is gone")
    assert not (await rig.preempt("p", n0=[*LOW])).candidates
    (preemption,) = rig.coordinator.reservations
    assert [(seat.name, seat.node) for seat in preemption.plan.seats] == [("p", "n1")]
    assert not preemption.victims


def _is_nominated(rig: Rig, node: str) -> bool:
    other = rig.cache.pod_named("default", "other")
    return other is not None and other.nominated == node


@pytest.mark.parametrize("goes", ["cleared", "moved", "deleted"])
async def test_a_list_is_no_reason_to_evict_where_a_nomination_has_just_gone(
    rig: Rig, goes: str
) -> None:
    """kube-scheduler knew of one for some milliseconds more (508203, 508460 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("other", cls="high")
    for node in ("n1", {"cleared": None, "moved": "n9", "deleted": "n1"}[goes]):
        await rig.client.patch(f"{PODS}/other/status", {"status": {"nominatedNodeName": node}})
        await rig.until(partial(_is_nominated, rig, node or ""), "it is known")
    await rig.gang("high", 1, "high")
    if goes == "deleted":
        await _leaves(rig, "other")
    await rig.filter("high-0")
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_room_behind_a_nomination_is_seen_to_come(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is free while the pod is there that another was nominated for; its end leaves room
    beside the nominated one (seed 503998 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0", cpu="4")
    await rig.pod("leaving", cls="low", on="n1", grace=60)
    await rig.client.delete(f"{PODS}/leaving", grace=60)
    await rig.pod("other", cls="top")
    await rig.client.patch(f"{PODS}/other/status", {"status": {"nominatedNodeName": "n1"}})
    await rig.until(partial(_is_nominated, rig, "n1"), "it is known")
    await rig.group("high", 1, "high")
    await rig.pod("high-0", cls="high", group="high", cpu="1")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    gate = await _recorded(rig, monkeypatch, "high-0")
    (preemption,) = rig.coordinator.reservations
    assert [victim.name for victim in preemption.plan.victims] == ["low-0"]
    await _goes_by_itself(rig, "leaving", gate)
    assert "low-0" in await rig.names()


async def _recorded(rig: Rig, monkeypatch: pytest.MonkeyPatch, name: str, *nodes: str) -> Gate:
    """Ask for the gang, and stop where its plan's record is about to be written."""
    gate = Gate(rig.coordinator.executor._keeper.write, after=False)
    monkeypatch.setattr(rig.coordinator.executor._keeper, "write", gate)
    await rig.filter(name, *nodes)
    await rig.until(lambda: gate.reached, "its record is about to be written")
    return gate


async def _goes_by_itself(rig: Rig, name: str, gate: Gate) -> None:
    await _leaves(rig, name)
    gate.opened.set()
    await rig.until(
        lambda: any(not f.plan.victims for f in rig.coordinator.reservations), "it has seats"
    )


@pytest.mark.parametrize("cpu", ["3", "2"])
async def test_the_rest_of_a_gang_stays_when_its_owner_takes_who_was_in_the_way(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, cpu: str
) -> None:
    """Whose room the plan needs has gone, and no request of ours (538784, 525126 with sparing).

    With 2 CPU each, one of the two seats was free before.
    """
    await rig.group("low", 2, "low")
    await rig.pod("low-0", cls="low", group="low", cpu="2" if cpu == "3" else "1", on="n0")
    await rig.pod("low-1", cls="low", group="low", cpu="3", on="n1")
    count = 1 if cpu == "3" else 2
    await rig.group("high", count, "high")
    for i in range(count):
        await rig.pod(f"high-{i}", cls="high", group="high", cpu=cpu)
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 2 + count, "all pods")
    gate = await _recorded(rig, monkeypatch, "high-0", "n0", "n1")
    (preemption,) = rig.coordinator.reservations
    assert {victim.name for victim in preemption.plan.victims} == {*LOW}
    await _goes_by_itself(rig, "low-0", gate)
    assert "low-1" in await rig.names()


async def test_who_is_found_gone_was_not_taken_by_us(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request for one is answered with 404 before the one for the other is sent."""
    await rig.group("low", 2, "low")
    await rig.pod("low-0", cls="low", group="low", cpu="3", on="n0")
    await rig.pod("low-1", cls="low", group="low", cpu="3", on="n1")
    await rig.gang("high", 1, "high")
    held = held_back(rig, "PATCH", "/pods/low-1/status")
    rig.server.faults.plan(Fault(1, "DELETE", f"/pods/low-0{REAL_DELETE}", 404, "NotFound"))
    await rig.filter("high-0")
    await rig.until(lambda: held.hits > 0, "both are about to go")
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: bool(preemption.sent), "one is not found")
    assert preemption.seen is not None
    await rig.remove("low-0")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "it is gone")
    let_go(held)
    await rig.until(
        lambda: any(not f.plan.victims for f in rig.coordinator.reservations), "it has a seat"
    )
    assert "low-1" in await rig.names()


@pytest.mark.parametrize("verb", ["filter", "preempt"])
async def test_neither_list_nor_candidates_know_of_a_node_that_has_just_come(
    rig: Rig, verb: str
) -> None:
    """kube-scheduler looked at its nodes before (538119 with sparing)."""
    await full_cluster(rig)
    await rig.pod("p", cls="high")
    await rig.until(lambda: rig.cache.pod_named("default", "p") is not None, "it is known")
    await _two_nodes_more(rig)
    if verb == "filter":
        await rig.filter("high-0")
    else:
        await rig.preempt("p", n0=["low-0"], n1=["low-1"])
    (preemption,) = rig.coordinator.reservations
    assert {seat.node for seat in preemption.plan.seats} <= {"x0", "x1"}
    assert not preemption.plan.victims


async def test_room_that_comes_during_the_search_counts_whatever_the_list_said(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod was on its way to the node, and the snapshot did not say so (517548 with sparing)."""
    gate = _searching(rig, monkeypatch)
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("small", cls="high", on="n1", cpu="1")
    await rig.gang("high", 1, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "all pods")
    asked = asyncio.create_task(rig.filter("high-0"))
    await rig.until(lambda: gate.reached, "the search has begun")
    await _leaves(rig, "small")
    gate.opened.set()
    await asked
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_a_list_does_not_know_that_who_was_offered_a_node_has_gone(rig: Rig) -> None:
    """kube-scheduler had assumed it there (575367 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.pod("late", cls="high")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    assert (await rig.filter("late", "n1")).node_names == ["n1"]
    await rig.gang("high", 1, "high")
    await _leaves(rig, "late")
    await rig.filter("high-0")
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_the_rest_of_a_gang_stays_where_another_of_it_has_left_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner deletes the one whose room the plan did not count on (574917 with sparing)."""
    await rig.group("low", 2, "low")
    for i, name in enumerate(LOW):
        await rig.pod(name, cls="low", group="low", cpu="4", on=f"n{i}")
    await rig.gang("high", 1, "high")
    gate = await _recorded(rig, monkeypatch, "high-0", "n0", "n1")
    (preemption,) = rig.coordinator.reservations
    (seat,) = preemption.plan.seats
    gone, stays = LOW[::-1] if seat.node == "n0" else LOW
    await _goes_by_itself(rig, gone, gate)
    assert stays in await rig.names()


async def test_seats_that_go_back_during_the_search_are_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search had left room for them, and they were not held any more when it had ended
    (586495 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.gang("first", 1, "high")
    await rig.coordinator.ensure(rig.resolver_key("first-0"), Verb.LOOP)
    (first,) = rig.coordinator.reservations
    assert [seat.node for seat in first.plan.seats] == ["n1"]
    gate = _searching(rig, monkeypatch)
    await rig.gang("high", 1, "high")
    asked = asyncio.create_task(rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP))
    await rig.until(lambda: gate.reached, "the search has begun")
    await rig.remove("first-0")
    await rig.until(lambda: first.over, "the seat is given back")
    gate.opened.set()
    await asked
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_a_list_may_not_know_of_seats_that_have_gone_back(rig: Rig) -> None:
    """Its member was nominated there, and kube-scheduler kept the room (609541 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0")
    await rig.gang("first", 1, "high")
    await rig.coordinator.ensure(rig.resolver_key("first-0"), Verb.LOOP)
    (first,) = rig.coordinator.reservations
    assert [seat.node for seat in first.plan.seats] == ["n1"]
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    await rig.remove("first-0")
    await rig.until(lambda: first.over, "the seat is given back")
    await rig.gang("high", 1, "high")
    await rig.filter("high-0")
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_candidates_do_not_know_of_room_beside_seats_that_were_taken_since(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pod was kept off for them and for another, which went elsewhere (666585 with sparing)."""
    await rig.nodes(2, first=2)
    for name, node in (("low-0", "n0"), ("low-1", "n2")):
        await rig.pod(name, cls="low", group="low", on=node)
    for name, node in (("busy", "n3"), ("elsewhere", ""), ("p", "")):
        await rig.pod(name, cls="high", on=node, cpu="2")
    await rig.group("low", 2, "low")
    await rig.group("first", 1, "high")
    await rig.pod("first-0", cls="high", group="first", cpu="2")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 6, "all pods")
    assert (await rig.filter("first-0", "n1")).node_names == ["n1"]
    assert (await rig.filter("elsewhere", "n1", "n3")).node_names == ["n1", "n3"]
    assert (await rig.filter("p", "n1")).node_names == []
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    gate = _searching(rig, monkeypatch)
    asked = asyncio.create_task(rig.preempt("p", n0=["low-0"], n2=["low-1"]))
    await rig.until(lambda: gate.reached, "the search has begun")
    for name, node in (("first-0", "n1"), ("elsewhere", "n3")):
        await rig.bind(name, node)
    await rig.until(lambda: not len(rig.coordinator.reservations), "all of the gang sits")
    gate.opened.set()
    await asked
    (preemption,) = rig.coordinator.reservations
    assert not preemption.plan.victims


async def test_victims_stay_once_the_seats_have_room_without_them(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others beside them have left (610614, 616856 with sparing)."""
    await rig.pod("low-0", cls="low", on="n0", cpu="1")
    await rig.pod("small", cls="top", on="n0", cpu="1")
    await rig.pod("busy", cls="top", on="n1", cpu="4")
    await rig.gang("high", 1, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 4, "all pods")
    gate = await _recorded(rig, monkeypatch, "high-0", "n0")
    (preemption,) = rig.coordinator.reservations
    assert [victim.name for victim in preemption.plan.victims] == ["low-0"]
    await _goes_by_itself(rig, "small", gate)
    assert "low-0" in await rig.names()


async def test_room_that_comes_during_the_second_search_is_seen_before_anybody_goes(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan is searched for twice at most at a time (531746 with sparing)."""
    leave_after_searches(rig, monkeypatch, "first", "second")
    await rig.nodes(2, first=2)
    for name, cls, node in (
        ("low-0", "low", "n0"),
        ("low-1", "low", "n3"),
        ("first", "top", "n1"),
        ("second", "top", "n2"),
    ):
        await rig.pod(name, cls=cls, on=node)
    await rig.gang("high", 2, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 6, "all pods")
    await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    await rig.until(
        lambda: any(not f.plan.victims for f in rig.coordinator.reservations), "it has seats"
    )
    assert {*LOW} <= await rig.names()
