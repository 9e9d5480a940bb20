"""A JobSet that was deleted and made again at once: its new pods do not start one by one."""

from __future__ import annotations

import asyncio
from typing import Any

from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.rig import PODS, Rig
from tests.gang.test_owner_sizes import bed, high
from tests.gang.test_systems import NODES
from tests.groups.owners import jobset, jobset_pod, replicated


async def member(rig: Rig, life: str, index: int, on: str = "") -> None:
    """A pod of the JobSet that had, or has, this uid."""
    name = f"{life}-{index}"
    meta = jobset_pod(index, "w", "high", index)
    meta["labels"]["jobset.sigs.k8s.io/jobset-uid"] = life
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
        "priorityClassName": "high",
    }
    if on:
        spec["nodeName"] = on
    await rig.client.create(PODS, {"metadata": {"name": name, **meta}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


async def test_while_its_old_pods_run_the_new_ones_are_held_and_then_start_whole() -> None:
    async with bed(1) as rig:
        await rig.nodes(4, first=1)
        await high(rig, jobset(replicated("w", each=3), name="high"))
        for i in range(3):
            await member(rig, "old", i, NODES[1 + i])
        await member(rig, "new", 0)
        answer = await rig.filter("new-0", *NODES)
        assert answer.node_names == [], "the others of its own JobSet are not there yet"
        assert rig.outcomes("high")[-1] == "incomplete"
        await member(rig, "new", 1)
        await member(rig, "new", 2)
        assert (await rig.filter("new-0", *NODES)).node_names == [], "there is room for two"
        for i in range(3):
            await rig.remove(f"old-{i}")
        await rig.until(lambda: rig.cache.pod_named("default", "old-2") is None, "they have gone")
        while not (await rig.filter("new-0", *NODES)).node_names:
            await asyncio.sleep(0.05)
        assert [preemption.state for preemption in rig.coordinator.reservations] == [
            PreemptionState.OPEN
        ]
        taken = {tuple((await rig.filter(f"new-{i}", *NODES)).node_names) for i in range(3)}
        assert len(taken) == 3
        assert all(len(seat) == 1 for seat in taken)
