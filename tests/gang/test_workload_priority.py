"""Kueue gangs whose pods are of equal priority, and whose WorkloadPriorityClasses are not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import ServedResource
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.test_systems import destroyed
from tests.groups import recorded

CLASSES = ServedResource(
    "kueue.x-k8s.io",
    "v1beta2",
    "workloadpriorityclasses",
    "WorkloadPriorityClass",
    namespaced=False,
    custom=True,
)


@asynccontextmanager
async def bed(*, counts: bool) -> AsyncIterator[Rig]:
    """Two nodes with a gang of class low; one of class high waits, and was tried once."""
    groups = replace(FAST.groups, workload_priority=counts)
    rig = Rig(replace(FAST, groups=groups))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=(CLASSES,))
    async with rig:
        await rig.nodes(2)
        for name, value in (("low", 10), ("high", 1000)):
            path = "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses"
            await rig.client.create(path, {"metadata": {"name": name}, "value": value})
        if counts:
            known = ("workload-priority-class", "", "high")
            await rig.until(lambda: known in rig.cache.snapshot().groups, "the classes are read")
        for name in ("low", "high"):
            for i in range(2):
                await member(rig, name, i)
        yield rig


async def member(rig: Rig, gang: str, i: int) -> None:
    meta: dict[str, Any] = recorded.kueue(i, 2, gang)
    meta["labels"]["kueue.x-k8s.io/priority-class"] = gang
    spec: dict[str, Any] = {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}],
        "terminationGracePeriodSeconds": 0,
    }
    if gang == "low":
        spec["nodeName"] = f"n{i}"
    name = f"{gang}-{i}"
    await rig.client.create(PODS, {"metadata": {"name": name, **meta}, "spec": spec})
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


async def test_by_default_the_class_is_named_and_nobody_goes() -> None:
    async with bed(counts=False) as rig:
        answer = await rig.filter("high-0", "n0", "n1")
        assert answer.node_names == []
        (why,) = set(answer.failed_and_unresolvable.values())
        assert "Kueue's WorkloadPriorityClass 'high' does not count" in why
        assert not destroyed(rig)


async def test_the_option_makes_it_the_gangs_priority() -> None:
    """kube-scheduler asks for nothing: to it all are equal. The loop sees them wait."""
    async with bed(counts=True) as rig:
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        for i in range(2):
            await rig.client.patch(f"{PODS}/high-{i}/status", {"status": {"conditions": [tried]}})
        await rig.until_names("high-0", "high-1")
