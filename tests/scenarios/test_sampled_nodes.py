"""What only kube-scheduler knows is learned from the seat it refuses, among 150 nodes.

Another extender that is asked before ours stands for all that is not modelled: volumes, devices,
unknown plugins.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.recorder import Object, RecordingExtender, agree
from tests.controlplane.rights import grant_manifest
from tests.controlplane.scheduler import EXTENDER, scheduler_config

pytestmark = pytest.mark.real

HALL = "example.com/hall"
STAGE = 4
FILLERS = 146


class Refusing(RecordingExtender):
    """Removes some nodes from the lists for pods of the urgent gang."""

    def __init__(self, *refused: str) -> None:
        super().__init__()
        self.refused = frozenset(refused)

    def answer(self, verb: str, asked: Object) -> Any:
        if verb != "filter" or not asked["Pod"]["metadata"]["name"].startswith("high"):
            return agree(verb, asked)
        kept = [name for name in asked["NodeNames"] if name not in self.refused]
        return {"NodeNames": kept}


def prepare(cluster: Cluster) -> None:
    """Four nodes of one hall, each with a low pod; 146 free ones that are no hall for a gang."""
    cluster.priority_classes(low=1, high=1000)
    cluster.nodes(STAGE, labels={HALL: "stage"})
    for number in range(FILLERS):
        cluster.nodes(1, prefix=f"z{number}-", pods=1, labels={HALL: f"z{number}"})
    lows = [
        make_pod(f"low-{i}", cpu=3, priority_class="low", node=f"n{i}", grace=0)
        for i in range(STAGE)
    ]
    cluster.client.create_all(*lows)
    cluster.client.wait_running(*[pod["metadata"]["name"] for pod in lows])


def gang(cluster: Cluster, count: int) -> None:
    cluster.pod_group("high", count, disruption="all", priority_class="high")
    asked = {"podgroup-extender.io/required-topology": HALL}
    for number in range(count):
        cluster.client.create(
            make_pod(
                f"high-{number}",
                cpu=3,
                priority_class="high",
                pod_group="high",
                annotations=asked,
            )
        )


def places(client: Client) -> dict[str, str]:
    """Who of the story is on which node."""
    return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in client.list("Pod")}


async def beside(cluster: Cluster, other: Refusing, tmp_path: Path, seats: SeatSettings) -> Any:
    """Our extender, asked after the other one."""
    grant_manifest(cluster.client)
    settings = replace(Settings(), seats=replace(seats, record_namespace=cluster.namespace))
    hooks = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    await hooks.start()
    config = scheduler_config(hooks.url)
    first = {**EXTENDER, "urlPrefix": other.url}
    del first["preemptVerb"]
    config["extenders"].insert(0, first)
    await asyncio.to_thread(cluster.use_scheduler, config)
    return hooks


async def test_a_refused_seat_leads_to_another_and_costs_one_more(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Whichever two seats are planned first, n0 is one that cannot be had."""
    with Refusing("n0") as other:
        hooks = await beside(cluster, other, tmp_path, SeatSettings())
        try:
            await asyncio.to_thread(prepare, cluster)
            await asyncio.to_thread(gang, cluster, 3)
            await asyncio.to_thread(
                cluster.client.wait_running, "high-0", "high-1", "high-2", timeout=120.0
            )
            found = await asyncio.to_thread(places, cluster.client)
            assert {found[f"high-{i}"] for i in range(3)} == {"n1", "n2", "n3"}
            # n0's pod had gone before it was known; never more than the four that could be asked.
            assert len(hooks_evictions(cluster)) <= STAGE
        finally:
            await hooks.close()


async def test_a_gang_that_kube_scheduler_takes_nowhere_stops_evicting(
    cluster: Cluster, tmp_path: Path
) -> None:
    """One change of plan is allowed: two pods go, then one more, and the fourth stays."""
    refused = [f"n{i}" for i in range(STAGE)]
    with Refusing(*refused) as other:
        seats = SeatSettings(max_replans=1)
        hooks = await beside(cluster, other, tmp_path, seats)
        try:
            await asyncio.to_thread(prepare, cluster)
            await asyncio.to_thread(gang, cluster, 2)

            async def given_up() -> bool:
                decisions = await hooks.decisions()
                return any(each["outcome"] == "gave-up" for each in decisions)

            async with asyncio.timeout(60):
                while not await given_up():
                    await asyncio.sleep(0.2)
            assert len(hooks_evictions(cluster)) <= 3
        finally:
            await hooks.close()


def hooks_evictions(cluster: Cluster) -> set[str]:
    """Names of pods that somebody but kwok has removed in this test."""
    return {
        record["objectRef"]["name"]
        for record in cluster.control_plane.removals()
        if record["objectRef"].get("namespace") == cluster.namespace
        and "kwok" not in record["user"]["username"]
    }
