"""Gangs with parts through the verbs: nothing is bound, nobody goes, before every part can start.

Four pods of 3 CPU for four nodes of 4: three of them are the quorum, the first is one of these.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import OTHER_POD_GROUPS
from extender.settings.settings import SeatSettings
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.test_systems import NODES, decided, destroyed, until_only
from tests.groups import recorded

HIGH = [f"high-0-{i}" for i in range(4)]
LOW = [f"low-0-{i}" for i in range(4)]


@asynccontextmanager
async def bed() -> AsyncIterator[Rig]:
    patient = SeatSettings(bind_seconds=60.0, victim_slack_seconds=60.0)
    rig = Rig(replace(FAST, seats=patient))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=OTHER_POD_GROUPS)
    async with rig:
        await rig.nodes(4)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


async def group(rig: Rig, system: str, name: str) -> None:
    document = recorded.parts_document(system, 4, name)
    document["metadata"]["namespace"] = "default"
    path = f"/apis/{document['apiVersion']}/namespaces/default/podgroups"
    await rig.client.create(path, document)
    key = (system.partition("-")[0], "default", name)
    await rig.until(lambda: key in rig.cache.snapshot().groups, "the PodGroup is read")


async def member(rig: Rig, system: str, gang: str, i: int, cls: str, on: str = "") -> None:
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": cls,
    }
    if on:
        spec["nodeName"] = on
    elif not i:
        spec["nodeSelector"] = {"kubernetes.io/hostname": "n3"}
    meta = {"name": f"{gang}-{i}", **recorded.PARTS[system](i, 4, gang)}
    await rig.client.create(PODS, {"metadata": meta, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", f"{gang}-{i}") is not None, gang)


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_three_that_would_fit_wait_for_the_one_that_is_not_there(system: str) -> None:
    async with bed() as rig:
        await group(rig, system, "high-0")
        for i in (1, 2, 3):
            await member(rig, system, "high-0", i, "high")
        for name in HIGH[1:]:
            assert (await rig.filter(name, *NODES)).node_names == []
        assert "incomplete" in rig.outcomes("high-0")
        part = "ps" if system == "volcano-tasks" else "master"
        assert f"0 of 1 of part '{part}'" in rig.messages("high-0")


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_three_that_would_fit_wait_for_the_room_of_the_first(system: str) -> None:
    async with bed() as rig:
        for node in NODES[:3]:
            await rig.pod(f"low-{node}", cls="low", on=node)
        await rig.pod("keep", cls="top", on="n3")
        await group(rig, system, "high-0")
        for i in range(4):
            await member(rig, system, "high-0", i, "high")
        victims = {node: [f"low-{node}"] for node in NODES[:3]}
        outcome = await decided(rig, "high-0-1", **victims)
        assert outcome not in ("plan", "done"), rig.messages("high-0")
        for name in HIGH:
            assert (await rig.filter(name, *NODES)).node_names == []
        assert not destroyed(rig)
        await rig.remove("keep")
        gone = {"low-n0", "low-n1", "low-n2"}
        # Two of the three others are the quorum's: the third needs nobody to go for it.
        for _ in range(600):
            if len(rig.coordinator.reservations):
                break
            await rig.preempt("high-0-1", **victims)
            await rig.cache.wait_change(rig.cache.generation, 0.05)
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        assert len(gone & await rig.names()) == 1
        seats = {}
        for name in HIGH:
            if names := (await rig.filter(name, *NODES)).node_names:
                (seats[name],) = names
        assert seats["high-0-0"] == "n3"
        assert len(seats) == 3
        for name, node in seats.items():
            await rig.bind(name, node)
        await rig.until(lambda: not len(rig.coordinator.reservations), "the plan ends")


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_as_a_victim_it_goes_whole_once_every_part_runs(system: str) -> None:
    async with bed() as rig:
        await group(rig, system, "low-0")
        for i in range(4):
            await member(rig, system, "low-0", i, "low", NODES[i])
        await rig.pod("urgent", cls="high")
        await until_only(rig, "urgent", "urgent")


@pytest.mark.parametrize("system", recorded.PARTS)
async def test_as_a_victim_without_a_part_its_pods_are_single(system: str) -> None:
    async with bed() as rig:
        await group(rig, system, "low-0")
        for i in (1, 2, 3):
            await member(rig, system, "low-0", i, "low", NODES[i])
        await rig.pod("keep", cls="top", on="n0")
        await rig.pod("urgent", cls="high")
        victims = {node: [f"low-0-{i}"] for i, node in enumerate(NODES) if i}
        answer = await rig.preempt("urgent", **victims)
        assert answer.candidates.keys() == victims.keys(), "kube-scheduler may take any of them"
