"""A running member that a plan in flight is about to evict counts for nobody's quorum."""

from __future__ import annotations

import asyncio
import time

from tests.gang.rig import Rig, held_back, let_go


async def test_who_is_to_go_is_not_counted_as_running(rig: Rig) -> None:
    """A gang was completed with a member that went a moment later: it ran in part (seed 29284)."""
    await rig.gang("low", 2, "low", on="n", whole=False)
    await rig.gang("high", 1, "high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 3, "three pods")
    held = held_back(rig, "POST", "configmaps")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    (flight,) = rig.coordinator.book
    (victim,) = flight.victims.values()
    (stays,) = {"low-0", "low-1"} - {victim.name}
    await rig.until(lambda: held.hits > 0, "the record is being written")
    await rig.remove(stays)
    await rig.until(lambda: rig.cache.pod_named("default", stays) is None, "another has gone")
    await rig.pod("low-2", cls="low", group="low")
    await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "it is made anew")
    answer = await rig.filter("low-2", "n0", "n1")
    assert not answer.node_names
    assert f"{victim.name} is to go for" in answer.failed_and_unresolvable["n0"]
    let_go(held)
    # Whatever becomes of that plan, the gang is looked at again.
    deadline = time.monotonic() + 60
    while "is to go for" in answer.failed_and_unresolvable.get("n0", ""):
        assert time.monotonic() < deadline, "it waits for ever"
        await asyncio.sleep(0.05)
        answer = await rig.filter("low-2", "n0", "n1")
