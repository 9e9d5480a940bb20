"""Gangs whose members claim devices (DRA), beside a stock kube-scheduler.

DynamicResources allocates; the extender reads no ResourceSlice. Whether a gang starts, and whether
pods are evicted for it, is read from the API server.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from extender.model.policy import DEFAULT, EVERYBODY, PolicySettings
from extender.model.settings import Settings
from extender.sandbox.process import ExtenderProcess
from tests.controlplane.client import Client, Object
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod

pytestmark = pytest.mark.real

SETTINGS = Settings(policy=PolicySettings(opt_out={DEFAULT: EVERYBODY}))
API = "resource.k8s.io/v1"
DRIVER = "gpu.example.com"
DEVICES = 8
AT_ONCE = 5.0
"""Seconds within which an empty cluster starts a gang; it was 44 s and more for eight nodes."""
QUIET = 8.0
"""Seconds for which nothing is evicted: a plan acts 0.2 s after it is asked for."""


def slices(client: Client, nodes: list[str]) -> None:
    """Give each node devices of one class."""
    client.create(
        {
            "apiVersion": API,
            "kind": "DeviceClass",
            "metadata": {"name": "gpu"},
            "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]},
        }
    )
    for node in nodes:
        client.create(
            {
                "apiVersion": API,
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-gpus"},
                "spec": {
                    "driver": DRIVER,
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": [{"name": f"gpu-{i}"} for i in range(DEVICES)],
                },
            }
        )


def claim(client: Client, name: str) -> dict[str, Any]:
    """Make a claim of all devices of a node; return the part of a pod's spec that names it."""
    exactly = {"deviceClassName": "gpu", "count": DEVICES}
    client.create(
        {
            "apiVersion": API,
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}},
        }
    )
    return {"resourceClaims": [{"name": "gpus", "resourceClaimName": name}]}


class Bed:
    """A cluster with devices, and the extender beside its kube-scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.client = cluster.client

    def prepare(self, nodes: int, cpu: int = 32) -> list[str]:
        """Make nodes with devices, and two priority classes."""
        names = self.cluster.nodes(nodes, cpu=cpu)
        self.cluster.priority_classes(low=1, high=1000)
        slices(self.client, names)
        return names

    def gang(self, count: int, cpu: int, *, shared: bool = False) -> list[str]:
        """Make a gang, each member with a claim of its own, or all with one."""
        self.cluster.pod_group("g", count, disruption="all", priority_class="high")
        one = claim(self.client, "shared") if shared else None
        for i in range(count):
            spec = one or claim(self.client, f"g-{i}")
            self.client.create(
                make_pod(f"g-{i}", cpu=cpu, priority_class="high", pod_group="g", spec=spec)
            )
        return [f"g-{i}" for i in range(count)]

    def bound(self) -> set[str]:
        """The names of the pods that have a node."""
        return {p["metadata"]["name"] for p in self.client.list("Pod") if p["spec"].get("nodeName")}

    def message(self) -> str:
        """What the pending pods and the PodGroup say."""
        told: list[Object] = self.client.list("Pod") + self.client.list("PodGroup")
        conditions = [c for each in told for c in each.get("status", {}).get("conditions", ())]
        return " ".join(str(c.get("message", "")) for c in conditions)


@pytest.fixture
async def bed(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Bed]:
    """The extender runs, and kube-scheduler asks it."""
    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, SETTINGS)
    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_extender, extender.url)
        yield Bed(cluster)
    finally:
        await extender.close()


@pytest.mark.parametrize("nodes", [2, 8])
async def test_an_empty_cluster_starts_a_gang_whole_and_at_once(bed: Bed, nodes: int) -> None:
    def play() -> float:
        bed.prepare(nodes)
        started = time.monotonic()
        members = bed.gang(nodes, cpu=1)
        bed.client.wait_for(lambda: bed.bound() >= set(members), what="all members bound")
        return time.monotonic() - started

    assert await asyncio.to_thread(play) < AT_ONCE


async def test_no_pod_is_evicted_for_devices_that_a_node_has_for_one_member(bed: Bed) -> None:
    """One node, 8 devices free, and both members claim 8: the gang never fits."""

    def play() -> None:
        (node,) = bed.prepare(1)
        bed.client.create(make_pod("low", cpu=30, priority_class="low", node=node))
        bed.client.wait_running("low")
        bed.gang(2, cpu=8)
        time.sleep(QUIET)
        assert bed.bound() == {"low"}
        bed.client.wait_for(lambda: "claims devices" in bed.message(), what="the reason is told")

    await asyncio.to_thread(play)


async def test_no_pod_is_evicted_for_a_claim_that_members_share(bed: Bed) -> None:
    """One claim is allocated on one node, and two full nodes are needed for the CPU."""

    def play() -> None:
        nodes = bed.prepare(2)
        for i, node in enumerate(nodes):
            bed.client.create(make_pod(f"low-{i}", cpu=30, priority_class="low", node=node))
        bed.client.wait_running("low-0", "low-1")
        bed.gang(2, cpu=20, shared=True)
        time.sleep(QUIET)
        assert bed.bound() == {"low-0", "low-1"}
        bed.client.wait_for(lambda: "shared" in bed.message(), what="the claim is named")

    await asyncio.to_thread(play)


async def test_members_with_claims_of_their_own_preempt(bed: Bed) -> None:
    """Devices are free on both nodes and their CPU is not: one eviction a node."""

    def play() -> None:
        nodes = bed.prepare(2)
        for i, node in enumerate(nodes):
            bed.client.create(make_pod(f"low-{i}", cpu=30, priority_class="low", node=node))
        bed.client.wait_running("low-0", "low-1")
        members = bed.gang(2, cpu=20)
        bed.client.wait_for(lambda: bed.bound() == set(members), what="all members bound")

    await asyncio.to_thread(play)
