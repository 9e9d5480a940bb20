"""A new life of the extender goes on where the last one ended."""

from __future__ import annotations

import asyncio

from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, LOW, Rig, full_cluster


async def test_the_planner_knows_the_cluster_before_the_first_question(rig: Rig) -> None:
    """Reading all pods takes long; a gang must not be the one to wait for it."""
    await full_cluster(rig)
    await rig.restart()
    planner = rig.coordinator.thread.planner
    assert planner.seen == rig.cache.snapshot().generation
    await rig.remove("low-0")
    await rig.until(lambda: planner.seen == rig.cache.snapshot().generation)


async def test_restart_goes_on_where_the_cluster_stands(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: next(iter(rig.coordinator.reservations)).state is PreemptionState.WAITING
    )
    before = dict(next(iter(rig.coordinator.reservations)).seats)
    await rig.restart()
    preemption = next(iter(rig.coordinator.reservations))
    assert preemption.seats == before
    assert preemption.sent == set(preemption.victims)
    for name in LOW:
        await rig.remove(name)
    await rig.until(lambda: preemption.state is PreemptionState.OPEN)
    result = await rig.filter("high-0", "n0", "n1")
    assert result.node_names == [before[rig.cached("high-0").uid]]


async def test_restart_between_two_evictions_sends_the_rest(rig: Rig) -> None:
    await full_cluster(rig)
    fault = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path="low-1(?!.*dryRun)", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.kill()
    assert fault.hits
    rig.server.faults.clear()
    await rig.start()
    await rig.until_names(*HIGH)
    assert rig.outcomes("high")[0] == "plan"


async def test_restart_after_everything_was_bound_drops_the_record(rig: Rig) -> None:
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)
    await rig.kill()
    await rig.bind("high-0", "n0")
    await rig.bind("high-1", "n1")
    await rig.start()
    for _ in range(100):
        if not await rig.records():
            break
        await asyncio.sleep(0.02)
    assert await rig.records() == []
    assert not len(rig.coordinator.reservations)


async def test_an_unreadable_record_is_left_alone_and_stops_nothing(rig: Rig) -> None:
    await rig.client.create(
        "/api/v1/namespaces/kube-system/configmaps",
        {
            "metadata": {"name": "broken", "labels": {"podgroup-extender.io/plan": "in-flight"}},
            "data": {"plan": "{not json"},
        },
    )
    await rig.restart()
    assert rig.coordinator.recovered
    assert len(await rig.records()) == 1
