"""Room that comes, that another plan is about to make, or that is kept for another pod."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
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


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HOST = "kubernetes.io/hostname"


async def made(rig: Rig, name: str, cls: str, *, on: str = "", group: str = "", **of: Any) -> None:
    """A pod of 2 CPU, or of ``cpu``, with ``labels``; ``near``: beside a pod with app=near."""
    requests = {"requests": {"cpu": of.get("cpu", "2")}}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": requests}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": cls,
    }
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    if on:
        spec["nodeName"] = on
    if near := of.get("near"):
        term = {"labelSelector": {"matchLabels": {"app": near}}, "topologyKey": HOST}
        spec["affinity"] = {
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    meta = {"name": name, "labels": of.get("labels", {})}
    await rig.client.create(PODS, {"metadata": meta, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None, f"{name} is there")


async def known(rig: Rig, *groups: str) -> None:
    await rig.until(
        lambda: set(groups) <= {key[2] for key in rig.cache.snapshot().groups}, "groups are known"
    )


async def settled(rig: Rig, *gangs: str) -> set[str]:
    """Return the pods once no plan evicts any more."""
    await rig.until(lambda: any(rig.outcomes(gang) for gang in gangs), "it is decided")
    await asyncio.sleep(2)
    return set(await rig.names())


async def test_pods_of_one_gang_are_spared_for_two_plans_together(wide: Rig) -> None:
    """A gang of 2 has 4 pods that may be evicted one by one: 2 of them, and not 3. What the second
    plan takes besides is a pod of no gang."""
    rig = wide
    await rig.nodes(1, first=4)
    await rig.pod("solo", cls="low", on="n4")
    await rig.group("low", 2, "low", whole=False)
    for i in range(4):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.gang("one", 1, "high")
    await rig.gang("two", 2, "high")
    offered = {f"n{i}": [f"low-{i}"] for i in range(4)} | {"n4": ["solo"]}
    await asyncio.gather(rig.preempt("one-0", **offered), rig.preempt("two-0", **offered))
    async with asyncio.timeout(rig.patience):
        names = set(await rig.names())
        while len(names & {"solo", *(f"low-{i}" for i in range(4))}) > 2:
            left = {node: pods for node, pods in offered.items() if pods[0] in names}
            await rig.preempt("two-0", **left)
            await asyncio.sleep(0.1)
            names = set(await rig.names())
    assert "solo" not in names
    assert len([name for name in names if name.startswith("low")]) == 2


@pytest.mark.parametrize("first", ["a", "b"])
async def test_a_pod_that_members_need_beside_them_is_wanted_by_another_plan(
    wide: Rig, first: str
) -> None:
    """Whichever is planned first, nothing is evicted for b-0 that db does not stay beside."""
    rig = wide
    for n in range(4):
        labels = {HOST: "z" if n < 2 else f"n{n}"}
        await rig.client.patch(f"/api/v1/nodes/n{n}", {"metadata": {"labels": labels}})
    for n in (2, 3):
        await rig.pod(f"full-{n}", cls="top", on=f"n{n}", cpu="4")
    for n in (0, 1):
        await rig.pod(f"same-{n}", cls="top", on=f"n{n}", cpu="2")
    await made(rig, "db", "low", on="n0", labels={"app": "db"})
    await made(rig, "other", "mid", on="n1")
    for name in ("a", "b"):
        await rig.group(name, 1, "high")
    await made(rig, "a-0", "high", group="a")
    await made(rig, "b-0", "high", group="b", near="db")
    await known(rig, "a", "b")
    nodes = rig.cache.snapshot
    await rig.until(
        lambda: all(nodes().nodes[n].labels.get(HOST) == "z" for n in ("n0", "n1")), "labels"
    )
    offered = {"a": {"n0": ["db"]}, "b": {"n1": ["other"]}}
    order = ("a", "b") if first == "a" else ("b", "a")
    await asyncio.gather(*(rig.preempt(f"{gang}-0", **offered[gang]) for gang in order))
    names = await settled(rig, "a", "b")
    assert len({"db", "other"} & names) == 1


@pytest.mark.parametrize("allowed", [3, 4])
async def test_one_budget_allows_what_two_plans_evict_together(wide: Rig, allowed: int) -> None:
    """Of two gangs of 2 that are evicted as a whole one stays where 3 evictions are allowed."""
    rig = wide
    for number, name in enumerate(("lowx", "lowy")):
        await rig.group(name, 2, "low")
        for i in range(2):
            node = f"n{2 * number + i}"
            await made(rig, f"{name}-{i}", "low", on=node, group=name, cpu="3", labels={"app": "x"})
            ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
            await rig.client.patch(f"{PODS}/{name}-{i}/status", {"status": ready})
    await known(rig, "lowx", "lowy")
    await rig.until(
        lambda: all(
            pod.phase == "Running" for pods in rig.cache.snapshot().bound.values() for pod in pods
        ),
        "they run",
    )
    spec = {"selector": {"matchLabels": {"app": "x"}}, "maxUnavailable": allowed}
    await rig.client.create(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    status = {"disruptionsAllowed": allowed, "observedGeneration": 1}
    await rig.client.patch(f"{BUDGETS}/b/status", {"status": status})
    shown = rig.cache.snapshot
    await rig.until(lambda: any(b.allowed == allowed for b in shown().budgets), "budget")
    await rig.gang("high", 2, "high")
    await rig.gang("top", 2, "high")
    offered = {f"n{2 * n + i}": [f"low{x}-{i}"] for n, x in enumerate("xy") for i in range(2)}
    await asyncio.gather(rig.preempt("high-0", **offered), rig.preempt("top-0", **offered))
    names = await settled(rig, "high", "top")
    left = {name for name in names if name.startswith("low")}
    assert left in ({"lowx-0", "lowx-1"}, {"lowy-0", "lowy-1"}) or (allowed == 4 and not left)


async def test_two_plans_may_want_the_same_gang_gone(wide: Rig) -> None:
    """It is evicted once, and no pod of it counts twice."""
    rig = wide
    await rig.group("low", 4, "low")
    for i in range(4):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.gang("one", 1, "high")
    await rig.gang("two", 2, "high")
    offered = {f"n{i}": [f"low-{i}"] for i in range(4)}
    await asyncio.gather(rig.preempt("one-0", **offered), rig.preempt("two-0", **offered))
    names = await settled(rig, "one", "two")
    assert not [name for name in names if name.startswith("low")]
    assert not [each for gang in ("one", "two") for each in rig.outcomes(gang) if each == "refusal"]


async def waiting(rig: Rig) -> None:
    """A gang of one with a seat where a pod is leaving, and an urgent pod of no gang."""
    await rig.pod("leaving", cls="low", on="n0", grace=60)
    await rig.pod("other", cls="top", on="n1")
    await rig.client.delete(f"{PODS}/leaving", grace=60)
    await rig.until(lambda: bool(rig.cached("leaving").deleting), "it terminates")
    await rig.gang("calm", 1, "high")
    await rig.coordinator.ensure(rig.resolver_key("calm-0"), Verb.LOOP)
    (preemption,) = rig.coordinator.reservations
    assert list(preemption.seats.values()) == ["n0"]
    await rig.pod("urgent", cls="top")


async def nominate(rig: Rig, name: str) -> None:
    """As kube-scheduler does once it was allowed to preempt there."""
    status = {"status": {"nominatedNodeName": "n0"}}
    await rig.client.patch(f"{PODS}/{name}/status", status)
    await rig.until(lambda: rig.cached(name).nominated == "n0", "it is nominated")


async def test_seats_do_not_open_where_another_pod_was_allowed_to_preempt(rig: Rig) -> None:
    await waiting(rig)
    (preemption,) = rig.coordinator.reservations
    answer = await rig.preempt("urgent", n0=["leaving"])
    assert list(answer.candidates) == ["n0"]  # more urgent than the gang
    await rig.remove("leaving")
    await rig.until(lambda: not preemption.waits, "its room is there")
    assert rig.coordinator.preconditions.crowded(preemption)
    assert preemption.state is not PreemptionState.OPEN
    assert (await rig.filter("calm-0", "n0")).node_names == []


async def test_a_plan_is_compared_again_when_its_room_is_kept_for_a_more_urgent_pod(
    rig: Rig,
) -> None:
    await waiting(rig)
    (preemption,) = rig.coordinator.reservations
    await nominate(rig, "urgent")
    await rig.until(lambda: preemption.over, "the plan does not hold any more")


async def test_a_nomination_of_the_less_urgent_is_no_reason(rig: Rig) -> None:
    await waiting(rig)
    (preemption,) = rig.coordinator.reservations
    await rig.pod("small", cls="low")
    await nominate(rig, "small")
    assert not preemption.doubted
    assert rig.coordinator.preconditions.problem(preemption) == ""


async def test_the_nominations_of_a_plan_before_go_with_the_last_one(rig: Rig) -> None:
    """kube-scheduler kept room for a plan that had ended, and so did searches (seed 124370)."""
    await full_cluster(rig)
    refused = Fault(times=10**6, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    rig.server.faults.plan(refused)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).nominated for name in HIGH), "both are nominated")
    reservations = rig.coordinator.reservations
    await rig.nodes(2, first=2)
    await rig.pod("low-2", cls="low", group="low", on="n2")  # low is whole again: it stays
    await rig.until(lambda: [len(f.victims) for f in reservations] == [0], "a plan without victims")
    await rig.remove("high-1")
    await rig.until(lambda: not reservations, "the plan is over")
    await rig.until(lambda: not rig.cached("high-0").nominated, "no node is kept for it")
