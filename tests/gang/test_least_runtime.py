"""Pods that may not be evicted yet are asked about again when they may."""

from __future__ import annotations

import time

from msgspec.structs import replace

from extender.model.texts import rfc3339
from tests.gang.rig import FAST, HIGH, LOW, PODS, Rig


async def test_a_gang_is_planned_when_pods_have_run_for_their_least_time() -> None:
    """The cluster does not change then: the refusal stood until something else did."""
    plan = replace(FAST.plan, min_runtime_seconds=8.0, retry_seconds=0.1)
    async with Rig(replace(FAST, plan=plan)) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        started = {"phase": "Running", "startTime": rfc3339(time.time())}
        for name in LOW:
            await rig.client.patch(f"{PODS}/{name}/status", {"status": started})
        await rig.until(lambda: all(rig.cached(name).started for name in LOW), "both have started")
        await rig.gang("high", 2, "high")
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        for name in HIGH:
            await rig.client.patch(f"{PODS}/{name}/status", {"status": {"conditions": [tried]}})
        await rig.until(lambda: "infeasible" in rig.outcomes("high"), "it is refused at first")
        await rig.until(lambda: "plan" in rig.outcomes("high"), "they may go")
