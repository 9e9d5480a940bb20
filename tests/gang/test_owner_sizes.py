"""Gangs whose size their owner states, on the sandbox's API server: JobSets that come in parts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.resources import ServedResource
from tests.gang.rig import FAST, PODS, Rig
from tests.gang.test_systems import NODES, destroyed
from tests.groups.owners import job, jobset, jobset_pod, replicated

KEY = GangKey("jobset", "default", "high")
JOBSETS = ServedResource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", custom=True)


@asynccontextmanager
async def bed(low_nodes: int, *, served: bool = True) -> AsyncIterator[Rig]:
    """Nodes n0.. full of a low gang, one pod on each; JobSets may be read, or are not served."""
    groups = replace(FAST.groups, settle_seconds=0.0)
    rig = Rig(replace(FAST, groups=groups))
    rig.server = ApiServer(bookmark_seconds=0.05, extra=(JOBSETS,) if served else ())
    async with rig:
        await rig.nodes(low_nodes)
        await rig.classes(low=1, high=100)
        for i in range(low_nodes):
            await rig.pod(f"low-{i}", cls="low", on=NODES[i], labels={"skypilot-cluster-name": "l"})
        await rig.until(lambda: rig.cache.pod_named("default", f"low-{low_nodes - 1}") is not None)
        yield rig


async def high(rig: Rig, made: dict[str, Any]) -> None:
    made["metadata"]["namespace"] = "default"
    path = f"/apis/{made['apiVersion']}/namespaces/default/{made['kind'].lower()}s"
    await rig.client.create(path, made)
    key = (made["kind"].lower(), "default", made["metadata"]["name"])
    await rig.until(lambda: key in rig.cache.snapshot().groups, "the owner is read")


async def member(rig: Rig, name: str, part: str, index: int = 0, number: int = 0) -> None:
    await rig.client.create(
        PODS,
        {
            "metadata": {"name": name, **jobset_pod(0, part, "high", index, number)},
            "spec": {
                "containers": [
                    {"name": "c", "image": "i", "resources": {"requests": {"cpu": "3"}}}
                ],
                "terminationGracePeriodSeconds": 0,
                "priorityClassName": "high",
            },
        },
    )
    await rig.until(lambda: rig.cache.pod_named("default", name) is not None)


def victims(count: int) -> dict[str, list[str]]:
    return {NODES[i]: [f"low-{i}"] for i in range(count)}


async def outcome(rig: Rig, name: str, **victims: list[str]) -> str:
    """Ask as kube-scheduler does; return what became of it."""
    answer = await rig.preempt(name, **victims)
    assert answer.candidates == {}
    return rig.outcomes("high")[-1]


async def test_a_jobset_whose_jobs_come_back_one_after_the_other() -> None:
    """At 10 s one of four pods exists: no gang of four goes for it."""
    async with bed(4) as rig:
        await high(rig, jobset(replicated("w", replicas=4), name="high"))
        await member(rig, "high-w-0", "w", number=0)
        assert await outcome(rig, "high-w-0", **victims(4)) == "incomplete"
        assert (await rig.filter("high-w-0", *NODES)).node_names == []
        assert not destroyed(rig)
        for i in (1, 2, 3):
            await member(rig, f"high-w-{i}", "w", number=i)
        await rig.preempt("high-w-3", **victims(4))
        await rig.until_names(*(f"high-w-{i}" for i in range(4)))


async def test_nobody_goes_for_a_leader_whose_workers_cannot_fit() -> None:
    """startupPolicy InOrder: the leader is there alone, its three workers have no fourth node."""
    async with bed(3) as rig:
        parts = (replicated("lead"), replicated("w", replicas=3))
        await high(rig, jobset(*parts, name="high", in_order=True))
        await member(rig, "high-lead-0", "lead")
        assert await outcome(rig, "high-lead-0", **victims(3)) == "infeasible"
        answer = await rig.filter("high-lead-0", *NODES[:3])
        assert answer.node_names == []
        (why,) = set(answer.failed_and_unresolvable.values())
        assert "with the 3 pods that are created once these run" in why
        assert not destroyed(rig)


async def test_leader_and_then_workers_where_there_can_be_room() -> None:
    async with bed(4) as rig:
        parts = (replicated("lead"), replicated("w", replicas=3))
        await high(rig, jobset(*parts, name="high", in_order=True))
        await member(rig, "high-lead-0", "lead")
        await rig.preempt("high-lead-0", **victims(4))
        await rig.until_names("high-lead-0")
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        (node,) = (await rig.filter("high-lead-0", *NODES)).node_names
        await rig.bind("high-lead-0", node)
        await rig.until(lambda: not len(rig.coordinator.reservations), "the leader has started")
        await member(rig, "high-w-0", "w")
        assert (await rig.filter("high-w-0", *NODES)).node_names == []
        assert rig.outcomes("high")[-1] == "incomplete"
        for i in (1, 2):
            await member(rig, f"high-w-{i}", "w", number=i)
        taken = {node}
        await rig.filter("high-w-0", *NODES)
        await rig.until(
            lambda: [f.state for f in rig.coordinator.reservations] == [PreemptionState.OPEN],
            "seats",
        )
        for i in range(3):
            (seat,) = (await rig.filter(f"high-w-{i}", *NODES)).node_names
            taken.add(seat)
        assert taken == set(NODES)


async def test_without_the_jobset_its_gang_is_what_is_there() -> None:
    """As before it was read; the decision says so."""
    async with bed(4, served=False) as rig:
        await member(rig, "high-w-0", "w")
        await rig.preempt("high-w-0", **victims(4))
        await rig.until_names("high-w-0")
        gang = rig.coordinator.resolver.resolve(KEY, rig.cache.snapshot())
        assert "not served or must not be read" in gang.notes[0]


@pytest.mark.parametrize("of", ["high", ""])
async def test_of_jobs_those_of_jobsets_are_read(of: str) -> None:
    async with bed(1) as rig:
        made = job("high-w-0", 1, of=of)
        made["metadata"]["namespace"] = "default"
        await rig.client.create("/apis/batch/v1/namespaces/default/jobs", made)
        await high(rig, jobset(replicated("w"), name="high"))
        await rig.until(lambda: "job" in rig.cache.snapshot().group_sources, "Jobs are read")
        found = ("job", "default", "high-w-0")
        if of:
            await rig.until(lambda: found in rig.cache.snapshot().groups)
        else:
            # Made before the Jobs were listed, or told of in their watch: neither brings it.
            await high(rig, job("later", 1, of="high"))
            assert found not in rig.cache.snapshot().groups
