"""A new life of the extender goes on where the last one ended, and a decision replays."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from extender.app.debug_source import DebugView
from extender.app.main import main
from extender.cli.output import encoded
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
            "metadata": {"name": "broken", "labels": {"podgroup-extender.io/plan": "under-way"}},
            "data": {"plan": "{not json"},
        },
    )
    await rig.restart()
    assert rig.coordinator.recovered
    assert len(await rig.records()) == 1


async def test_a_past_decision_replays_to_the_same_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with Rig() as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        await rig.pod("aside", cpu="1", on="n2")
        await rig.gang("high", 2, "high")
        # n2 has room by our rules, and kube-scheduler does not offer it.
        await rig.filter("high-0", "n1")
        await rig.until_names("aside", "high-0", "high-1")
        made = next(d for d in rig.coordinator.decisions if d.outcome == "plan")
        view = DebugView(rig.cache, list, lambda: rig.coordinator, rig.settings)
        assert view.snapshot(made.generation + 1000) is None
        document = view.snapshot(made.generation)
        assert document is not None
        path = tmp_path / "decision.json"
        path.write_bytes(msgspec.json.encode(document))
    capsys.readouterr()
    assert main(["plan", str(path), "--gang", "high", "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)["plan"]
    assert replayed["victims"] == json.loads(encoded(made.victims, "json"))
    assert replayed["seats"] == json.loads(msgspec.json.encode(made.seats))
    assert {victim["name"] for victim in replayed["victims"]} == {"low-0", "low-1"}
    assert "n2" not in {seat["node"] for seat in replayed["seats"]}
