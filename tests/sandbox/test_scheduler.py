"""The scheduler loop treats an extender as kube-scheduler does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from extender.sandbox.resources import BUDGETS, EVENTS, NODES, PODS, PRIORITY_CLASSES
from extender.sandbox.rest import Api
from extender.sandbox.world import World
from tests.event_time import passes
from tests.sandbox.conftest import node, pod
from tests.sandbox.stub import StubExtender

Obj = dict[str, Any]


@pytest.fixture
async def stub() -> AsyncIterator[StubExtender]:
    async with StubExtender() as stub:
        yield stub


@pytest.fixture
async def world(stub: StubExtender) -> AsyncIterator[World]:
    async with World(extender_url=stub.url, backoff_scale=0.05) as world:
        for name, value in (("low", 1), ("mid", 50), ("high", 100)):
            world.server.api.create(
                PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value}
            )
        yield world
        world.check()


def make(world: World, name: str, cpu: str = "3", klass: str = "low", **spec: Any) -> Obj:
    spec = {"terminationGracePeriodSeconds": 0, "priorityClassName": klass, **spec}
    return world.server.api.create(PODS, "default", pod(name, cpu, **spec))


def nodes(world: World, *names: str) -> None:
    for name in names:
        world.server.api.create(NODES, "", node(name))


async def until(condition: Callable[[], object], what: str = "") -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


def where(api: Api, name: str) -> str | None:
    found = api.storage.get(PODS.key, "default", name)
    return found["spec"].get("nodeName", "") if found else None


async def full_node(world: World, cpu: str = "3", **spec: Any) -> None:
    """One node, ``a``, and the pod ``low`` on it."""
    nodes(world, "a")
    make(world, "low", cpu, **spec)
    await until(lambda: where(world.server.api, "low"))


def condition(api: Api, name: str, kind: str = "PodScheduled") -> Obj:
    found = api.storage.get(PODS.key, "default", name) or {"status": {}}
    conditions: list[Obj] = found["status"].get("conditions") or [{}]
    return next((c for c in conditions if c.get("type") == kind), {})


async def waits(world: World, name: str) -> None:
    await until(lambda: condition(world.server.api, name).get("status") == "False")


async def test_a_pod_is_filtered_scored_bound_and_run(world: World, stub: StubExtender) -> None:
    api = world.server.api
    stub.scores = {"b": 10}
    nodes(world, "a", "b")
    make(world, "p")
    await until(lambda: where(api, "p") == "b")
    await until(lambda: api.get(PODS, "default", "p")["status"]["phase"] == "Running")
    sent = stub.asked("filter")[0]
    assert sent["NodeNames"] == ["a", "b"]
    assert sent["Nodes"] is None
    assert sent["Pod"]["metadata"]["name"] == "p"


async def test_only_nodes_that_fit_are_offered_and_none_means_no_call(
    world: World, stub: StubExtender
) -> None:
    nodes(world, "a")
    make(world, "big", "9")
    await waits(world, "big")
    assert stub.calls == []
    assert "NodeResourcesFit" in condition(world.server.api, "big")["message"]


async def test_among_many_nodes_an_attempt_offers_a_part_and_the_next_goes_on(
    world: World, stub: StubExtender
) -> None:
    names = [f"n{i:03}" for i in range(150)]
    nodes(world, *names)
    make(world, "p")
    make(world, "q")
    await until(lambda: where(world.server.api, "q"))
    first, second = (each["NodeNames"] for each in stub.asked("filter")[:2])
    assert first == names[:100]
    assert second[:50] == names[100:]
    assert len(second) == 100


async def test_the_more_urgent_pod_goes_first(world: World) -> None:
    make(world, "early", klass="low")
    make(world, "urgent", klass="mid")
    await waits(world, "early")
    await waits(world, "urgent")
    nodes(world, "a")
    await until(lambda: where(world.server.api, "urgent") == "a")
    assert where(world.server.api, "early") == ""


async def test_preemption_takes_the_cheapest_node_and_nominates_it(
    world: World, stub: StubExtender
) -> None:
    api = world.server.api
    nodes(world, "a", "b")
    make(world, "dear", klass="mid")
    make(world, "cheap", klass="low")
    await until(lambda: where(api, "dear") and where(api, "cheap"))
    target = where(api, "cheap")
    make(world, "urgent", klass="high")
    await until(lambda: where(api, "urgent") == target)
    assert where(api, "cheap") is None
    shown = stub.asked("preempt")[0]
    assert shown["NodeNameToVictims"] is None
    assert set(shown["NodeNameToMetaVictims"]) == {"a", "b"}
    reasons = {e["reason"] for e in api.storage.all(EVENTS.key)}
    assert {"Preempted", "Scheduled", "FailedScheduling"} <= reasons


async def test_no_node_in_the_answer_means_nobody_goes(world: World, stub: StubExtender) -> None:
    stub.answer_preempt = {"NodeNameToMetaVictims": {}}
    await full_node(world)
    make(world, "urgent", klass="high")
    await waits(world, "urgent")
    assert "no candidate node" in condition(world.server.api, "urgent")["message"]
    calls = len(stub.calls)
    await passes(60)
    assert len(stub.calls) == calls, "nothing has happened that may help, so nobody is asked again"
    assert where(world.server.api, "low") == "a"


@pytest.mark.parametrize(
    "answer",
    [
        {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": "nobody"}]}}},
        {"NodeNameToMetaVictims": {"nowhere": {"Pods": [{"UID": "x"}]}}},
        {"NodeNameToMetaVictims": {"a": {"Pods": []}}},
        {"NodeNameToMetaVictims": {"a": {"Pods": [{}]}}},
        ["nonsense"],
    ],
)
async def test_a_wrong_preempt_answer_fails_whole(
    world: World, stub: StubExtender, answer: Any
) -> None:
    stub.answer_preempt = answer
    await full_node(world)
    make(world, "urgent", klass="high")
    await waits(world, "urgent")
    assert "extender" in condition(world.server.api, "urgent")["message"]
    assert where(world.server.api, "low") == "a"


async def test_an_extender_that_fails_stops_everybody_until_it_is_back(
    world: World, stub: StubExtender
) -> None:
    stub.status = 503
    nodes(world, "a", "b")
    make(world, "p")
    await waits(world, "p")
    assert condition(world.server.api, "p")["reason"] == "SchedulerError"
    stub.status = 200
    await until(lambda: where(world.server.api, "p"))


async def test_held_back_nodes_are_no_candidates_for_preemption(
    world: World, stub: StubExtender
) -> None:
    await full_node(world, "1")
    stub.held_back = {"a": "promised to another gang"}
    make(world, "urgent", "1", klass="high")
    await waits(world, "urgent")
    assert "promised to another gang" in condition(world.server.api, "urgent")["message"]
    assert stub.asked("preempt") == []
    stub.held_back = {}
    world.server.api.patch(
        PODS,
        "default",
        "urgent",
        {"metadata": {"annotations": {"x": "1"}}},
        "application/merge-patch+json",
    )
    await until(lambda: where(world.server.api, "urgent") == "a")


async def test_failed_nodes_stay_candidates_but_yield_no_victim(
    world: World, stub: StubExtender
) -> None:
    await full_node(world, "1")
    stub.refused = {"a": "not now"}
    make(world, "urgent", "1", klass="high")
    await waits(world, "urgent")
    assert stub.asked("preempt") == []
    assert where(world.server.api, "low") == "a"


async def test_the_nominated_node_is_tried_first(world: World, stub: StubExtender) -> None:
    api = world.server.api
    make(world, "p")
    await waits(world, "p")
    held = api.get(PODS, "default", "p")
    api.set_status(PODS, held, {"nominatedNodeName": "b"})
    stub.calls.clear()
    stub.held_back = {"a": "x", "b": "x"}
    nodes(world, "a", "b")
    await waits(world, "p")
    stub.held_back = {}
    stub.scores = {"a": 10}
    api.patch(
        PODS,
        "default",
        "p",
        {"metadata": {"labels": {"x": "1"}}},
        "application/merge-patch+json",
    )
    await until(lambda: where(api, "p") == "b")
    assert stub.asked("filter")[-1]["NodeNames"] == ["b"]


async def test_a_nominated_pod_keeps_equals_off_but_not_the_more_urgent(world: World) -> None:
    api = world.server.api
    first = make(world, "first", klass="mid", schedulerName="somebody-else")
    api.set_status(PODS, first, {"nominatedNodeName": "a"})
    nodes(world, "a")
    make(world, "equal", klass="mid")
    await waits(world, "equal")
    make(world, "urgent", klass="high")
    await until(lambda: where(api, "urgent") == "a")
    assert where(api, "equal") == ""


async def test_victims_keep_their_grace_and_are_not_evicted_twice(
    world: World, stub: StubExtender
) -> None:
    api = world.server.api
    await full_node(world, terminationGracePeriodSeconds=1)
    make(world, "urgent", klass="high")
    await until(lambda: condition(api, "low", "DisruptionTarget").get("status") == "True")
    assert api.get(PODS, "default", "urgent")["status"]["nominatedNodeName"] == "a"
    await until(lambda: where(api, "urgent") == "a")
    assert len(stub.asked("preempt")) == 1


async def test_preemption_policy_never_asks_for_nothing(world: World, stub: StubExtender) -> None:
    never = {"metadata": {"name": "never"}, "value": 90, "preemptionPolicy": "Never"}
    world.server.api.create(PRIORITY_CLASSES, "", never)
    await full_node(world)
    make(world, "polite", klass="never")
    await waits(world, "polite")
    assert stub.asked("preempt") == []


async def test_a_budget_makes_its_pods_the_last_choice(world: World, stub: StubExtender) -> None:
    api = world.server.api
    nodes(world, "a", "b")
    body = pod("kept", "3", priorityClassName="low")
    body["metadata"]["labels"] = {"app": "x"}
    api.create(PODS, "default", body)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "x"}}}
    api.create(BUDGETS, "default", {"metadata": {"name": "b"}, "spec": spec})
    make(world, "other", klass="mid")
    await until(lambda: where(api, "kept") and where(api, "other"))
    make(world, "urgent", klass="high")
    await until(lambda: where(api, "urgent"))
    assert where(api, "other") is None
    shown = stub.asked("preempt")[0]["NodeNameToMetaVictims"]
    assert sorted(v["NumPDBViolations"] for v in shown.values()) == [0, 1]


async def test_gated_and_foreign_pods_are_left_alone(world: World) -> None:
    nodes(world, "a")
    make(world, "gated", schedulingGates=[{"name": "x"}])
    make(world, "foreign", schedulerName="another")
    make(world, "p")
    await until(lambda: where(world.server.api, "p") == "a")
    assert where(world.server.api, "gated") == where(world.server.api, "foreign") == ""
