"""In observe mode a real kube-scheduler does what it does with no extender at all.

Each story is played without an extender and with one that observes, and has to come out as it is
written down here. The extender has the rights of manifests/observe/rbac.yaml, which only read, and
goes through a proxy that counts what it sends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.model.settings import Settings
from extender.sandbox.process import ExtenderProcess
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import scheduler_config

SECONDS = 90.0
QUIET_SECONDS = 2.0
"""Without a pod event for so long nothing more comes: kube-scheduler's pauses begin at a second."""
WAYS = ("alone", "observed")


class Stage:
    """A cluster with a real kube-scheduler, and an extender that observes, or none."""

    def __init__(self, cluster: Cluster, extender: ExtenderProcess | None) -> None:
        self.cluster = cluster
        self.extender = extender
        self.pods = cluster.watch()

    def gang(self, name: str, count: int, cls: str, on: str = "", **more: Any) -> None:
        """A gang that goes whole; bound to nodes of this prefix when ``on`` is given."""
        self.cluster.pod_group(name, count, disruption="all", priority_class=cls)
        for i in range(count):
            node = f"{on}{i}" if on else None
            self.single(f"{name}-{i}", cls, node=node, pod_group=name, **more)

    def single(self, name: str, cls: str, **more: Any) -> None:
        """A pod that fills a node."""
        made = make_pod(name, cpu=3, priority_class=cls, **more)
        self.cluster.client.create(made)

    def outcome(self) -> tuple[set[str], dict[str, str]]:
        """Who was evicted, and where the others are ("" waits), once nothing happens any more."""
        self.pods.settle(QUIET_SECONDS, SECONDS)
        there = {
            pod["metadata"]["name"]: pod["spec"].get("nodeName", "")
            for pod in self.cluster.client.list("Pod")
        }
        return set(self.pods.disrupted().values()), there

    def until_bound(self, *names: str) -> None:
        client = self.cluster.client
        client.wait_for(
            lambda: all(client.get("Pod", name)["spec"].get("nodeName") for name in names),
            what=f"{names} bound",
        )

    async def observed(self, fine: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """What the extender has counted, once that is as it should be."""
        assert self.extender is not None
        until = time.monotonic() + SECONDS
        while True:
            async with (
                aiohttp.ClientSession() as http,
                http.get(f"{self.extender.url}/debug/observe") as answer,
            ):
                found: dict[str, Any] = await answer.json()
            if fine(found):
                return found
            assert time.monotonic() < until, found
            await asyncio.sleep(0.2)


@pytest.fixture(params=WAYS)
async def stage(
    cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Stage]:
    cluster.priority_classes(low=1, middle=50, high=1000)
    if request.param == "alone":
        await asyncio.to_thread(cluster.use_scheduler, scheduler_config())
        yield Stage(cluster, None)
        return
    grant_manifest(cluster.client, observe=True)
    settings = replace(Settings(), mode="observe")
    extender = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_scheduler, scheduler_config(extender.url))
        yield Stage(cluster, extender)
        extender.check()
        assert set(extender.asked) == {"GET"}, extender.asked
    finally:
        await extender.close()


def total(report: dict[str, Any], name: str) -> float:
    """One number, summed over all days."""
    return float(sum(day[name] for week in report["weeks"] for day in week["days"]))


@pytest.mark.real
async def test_gang_is_left_in_half_for_an_urgent_pod(stage: Stage) -> None:
    """We would have evicted the gang whole, or taken the pod of no gang on the other node."""
    await asyncio.to_thread(_half, stage)
    outcome = await asyncio.to_thread(stage.outcome)
    assert outcome == ({"low-1"}, {"low-0": "n0", "urgent": "n1"})
    if stage.extender is not None:
        report = await stage.observed(lambda found: total(found, "half_broken_gangs") == 1)
        assert total(report, "evicted_pods") == 1


def _half(stage: Stage) -> None:
    stage.cluster.nodes(2)
    stage.gang("low", 2, "low", on="n")
    chosen = {"nodeSelector": {"kubernetes.io/hostname": "n1"}}
    stage.single("urgent", "high", spec=chosen)
    stage.until_bound("urgent")


@pytest.mark.real
async def test_gang_takes_the_room_of_one_that_it_breaks(stage: Stage) -> None:
    """Each member evicts the least on its own; the node of the middle class stays as it is."""
    await asyncio.to_thread(_breaks, stage)
    outcome = await asyncio.to_thread(stage.outcome)
    assert outcome[0] == {"low-0", "low-1"}
    assert {name: node for name, node in outcome[1].items() if name == "middle"} == {"middle": "n2"}
    assert {outcome[1][f"high-{i}"] for i in range(2)} == {"n0", "n1"}
    assert set(outcome[1]) == {"middle", "high-0", "high-1"}
    if stage.extender is not None:
        report = await stage.observed(lambda found: total(found, "whole") >= 1)
        assert total(report, "evicted_for_gangs") == 2
        assert total(report, "planned") == 1
        assert total(report, "would_evict_pods") == 2
        assert total(report, "broken_gangs") == 1


def _breaks(stage: Stage) -> None:
    stage.cluster.nodes(3)
    stage.gang("low", 2, "low", on="n")
    stage.single("middle", "middle", node="n2")
    stage.gang("high", 2, "high")
    stage.until_bound("high-0", "high-1")


@pytest.mark.real
async def test_pods_go_for_a_gang_that_cannot_run(stage: Stage) -> None:
    """Room for two of three: we would have evicted nobody."""
    await asyncio.to_thread(_in_vain, stage)
    evicted, there = await asyncio.to_thread(stage.outcome)
    assert evicted == {"low-0", "low-1"}
    assert sorted(there) == ["high-0", "high-1", "high-2"]
    assert sorted(there.values()) == ["", "n0", "n1"]
    if stage.extender is not None:
        report = await stage.observed(lambda found: total(found, "in_part_gangs") == 1)
        (gang,) = report["open"]
        assert gang["answer"] == "refusal"
        assert gang["evicted"] == 2
        assert total(report, "would_evict_pods") == 0


def _in_vain(stage: Stage) -> None:
    stage.cluster.nodes(2)
    stage.gang("low", 2, "low", on="n")
    stage.gang("high", 3, "high")
    client = stage.cluster.client
    client.wait_for(
        lambda: (
            sum(bool(pod["spec"].get("nodeName")) for pod in client.list("Pod")) == 2
            and not any(pod["metadata"]["name"].startswith("low") for pod in client.list("Pod"))
        ),
        what="two members bound",
    )
