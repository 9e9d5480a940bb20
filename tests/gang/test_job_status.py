"""Members that are done and whose pods are gone, on a live API server: their Job's status tells."""

from __future__ import annotations

import asyncio
from typing import Any

from msgspec.structs import replace

from extender.model.objects import GangKey
from extender.model.owner_kinds import PARTLY_DONE
from tests.gang.rig import FAST, PODS, Rig

JOBS = "/apis/batch/v1/namespaces/default/jobs"
LISTED = "/apis/batch/v1/jobs"
SPEC = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": {"spec": {}}}
DONE = {"succeeded": 1, "active": 1, "completedIndexes": "0"}
KEY = GangKey("pod-group", "default", "high")
AT_ONCE = replace(FAST, groups=replace(FAST.groups, settle_seconds=0.0))


async def job(rig: Rig, name: str, **status: Any) -> str:
    """A Job of two; return its uid."""
    made = await rig.client.create(JOBS, {"metadata": {"name": name}, "spec": SPEC})
    await rig.client.patch(f"{JOBS}/{name}/status", {"status": status})
    uid: str = made["metadata"]["uid"]
    return uid


async def member(rig: Rig, job: str, uid: str, index: int, *, on: str = "") -> None:
    """The pod of one index, in the PodGroup of its Job's name."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    label = {"batch.kubernetes.io/job-completion-index": str(index)}
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "schedulingGroup": {"podGroupName": job},
        "priorityClassName": job,
        "terminationGracePeriodSeconds": 0,
        **({"nodeName": on} if on else {}),
    }
    meta = {"name": f"{job}-{index}", "labels": label, "ownerReferences": [owner]}
    await rig.client.create(PODS, {"metadata": meta, "spec": spec})


async def waits(rig: Rig, **status: Any) -> None:
    """A pod of low priority on the one node; of a gang of two the replacement of index 1 waits,
    and the pod of index 0 has been cleaned up (f8 of issue 34)."""
    await rig.nodes(1)
    await rig.classes(low=1, high=100)
    await rig.group("high", 2, "high")
    uid = await job(rig, "high", **status)
    await rig.pod("low-0", cls="low", on="n0")
    await member(rig, "high", uid, 1)
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is not None, "low")
    await rig.until(lambda: rig.cache.pod_named("default", "high-1") is not None, "high")


def followed(rig: Rig) -> dict[str, int]:
    """Names of the Jobs whose status is kept, and how many of their pods are done."""
    rows = rig.cache.snapshot().groups.values()
    return {row.name: row.done for row in rows if row.source == PARTLY_DONE}


async def test_the_replacement_of_a_lost_member_waits_for_none_that_is_done() -> None:
    async with Rig(AT_ONCE) as rig:
        await waits(rig, **DONE)
        await rig.until(lambda: followed(rig) == {"high": 1}, "the Job is read")
        await rig.preempt("high-1", n0=["low-0"])
        await rig.until_names("high-1")


async def test_of_a_job_none_of_whose_pods_are_done_all_are_waited_for() -> None:
    async with Rig(AT_ONCE) as rig:
        await waits(rig, active=1)
        await rig.preempt("high-1", n0=["low-0"])
        assert rig.outcomes("high")[-1] == "incomplete"
        assert not followed(rig)
        await rig.client.patch(f"{JOBS}/high/status", {"status": DONE})
        await rig.until(lambda: followed(rig) == {"high": 1}, "the Job is read")
        # As kube-scheduler does: a refusal is kept for a while, the longer the longer it took.
        while "low-0" in await rig.names():
            await rig.preempt("high-1", n0=["low-0"])
            await asyncio.sleep(0.05)
        await rig.until_names("high-1")


async def test_a_job_that_has_ended_is_not_kept() -> None:
    """A cluster has a hundred thousand of them, and no gang waits for a pod of one."""
    ended = {"succeeded": 2, "conditions": [{"type": "Complete", "status": "True"}]}
    async with Rig() as rig:
        await job(rig, "before", **ended)
        await job(rig, "now", **DONE)
        await job(rig, "later", active=2)
        await rig.until(lambda: followed(rig) == {"now": 1}, "the Job is read")
        await rig.client.patch(f"{JOBS}/now/status", {"status": ended})
        await rig.until(lambda: not followed(rig), "the Job is let alone")
        await rig.restart()
        assert not followed(rig)
