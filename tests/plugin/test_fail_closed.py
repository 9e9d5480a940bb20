"""What the plugin does without the extender, and what it wakes, on a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from extender.model.settings import SeatSettings, Settings
from extender.sandbox.process import ExtenderProcess
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.plugin.telling import ENDED, told
from tests.scenarios.ways import Plugin

pytestmark = pytest.mark.real

SECONDS = 90.0
GRACE = 600
"""Of the victim: nothing of the story may end by itself."""


class Stage:
    """n0 with a low pod that will not go, n1 free; a gang of two wants both nodes."""

    def __init__(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        self.cluster, self.client, self.extender = cluster, cluster.client, extender

    async def set(self) -> None:
        """Return when the gang's seats are held, and the victim is on its way out."""
        await asyncio.to_thread(self._set)

    def _set(self) -> None:
        client = self.client
        self.cluster.nodes(2)
        self.cluster.priority_classes(low=1, high=1000)
        client.create(make_pod("low", cpu=3, priority_class="low", node="n0", grace=GRACE))
        client.wait_running("low")
        client.patch("Pod", "low", {"metadata": {"finalizers": ["example.com/stays"]}})
        self.cluster.pod_group("high", 2, disruption="all", priority_class="high")
        for number in range(2):
            client.create(
                make_pod(f"high-{number}", cpu=3, priority_class="high", pod_group="high")
            )
        client.wait_for(self._leaves, SECONDS, "the victim is evicted")

    def _leaves(self) -> bool:
        return "deletionTimestamp" in self.client.get("Pod", "low")["metadata"]

    def plain(self, name: str, cpu: str) -> None:
        self.client.create(make_pod(name, cpu=cpu))

    def let_go(self) -> None:
        """The victim goes."""
        self.client.patch("Pod", "low", {"metadata": {"finalizers": None}})
        self.client.delete("Pod", "low", grace=0, missing_ok=True)

    async def killed(self) -> None:
        """Kill the extender; return when the plugin has noticed."""
        log = self.cluster.control_plane.layout.log("kube-scheduler")
        before = log.read_text().count(ENDED)
        await self.extender.kill_extender()
        await asyncio.to_thread(
            self.client.wait_for, lambda: log.read_text().count(ENDED) > before, SECONDS, ENDED
        )

    async def refused(self, name: str, why: str) -> None:
        """Return when kube-scheduler has said so of a pod."""
        await asyncio.to_thread(
            self.client.wait_for, lambda: why in told(self.client, name), SECONDS, f"{name}: {why}"
        )


@pytest.fixture
async def stage(rights: Cluster, tmp_path: Path, sockets: Path) -> AsyncIterator[Stage]:
    way = Plugin(sockets)
    seats = SeatSettings(record_namespace=rights.namespace, victim_slack_seconds=SECONDS)
    extender = ExtenderProcess(
        tmp_path,
        rights.control_plane.extender_kubeconfig,
        way.settings(replace(Settings(), seats=seats)),
    )
    try:
        await extender.start()
        await way.schedule(rights, extender)
        made = Stage(rights, extender)
        await made.set()
        yield made
    finally:
        await extender.close()


async def test_a_pod_of_no_gang_goes_beside_the_seats_and_is_woken_when_they_are_given_back(
    stage: Stage,
) -> None:
    """4 CPU a node and 3 held: one is left on n1, and two are not."""
    client = stage.client
    await asyncio.to_thread(stage.plain, "small", "1")
    await asyncio.to_thread(client.wait_running, "small", timeout=SECONDS)
    assert client.get("Pod", "small")["spec"]["nodeName"] == "n1", "n0 is full"
    await asyncio.to_thread(client.delete, "Pod", "small", grace=0)
    await asyncio.to_thread(stage.plain, "large", "2")
    await stage.refused("large", "its room is held for pod-group:")
    # The gang is gone, and with it its plan; no pod leaves a node and no node changes.
    for number in range(2):
        await asyncio.to_thread(client.delete, "Pod", f"high-{number}", grace=0)
    await asyncio.to_thread(client.wait_running, "large", timeout=SECONDS)
    assert client.get("Pod", "large")["spec"]["nodeName"] == "n1"


async def test_nobody_is_scheduled_while_the_extender_is_away_and_all_are_after(
    stage: Stage,
) -> None:
    client = stage.client
    await stage.killed()
    # It has room beside any seat, and still: which seats are held is not known.
    await asyncio.to_thread(stage.plain, "small", "1")
    await stage.refused("small", "it is not known which seats are held")
    await asyncio.to_thread(stage.let_go)
    await stage.refused("high-0", "it is not known which seats are held")
    assert not client.get("Pod", "small")["spec"].get("nodeName")
    await stage.extender.start_extender()
    await asyncio.to_thread(client.wait_running, "small", "high-0", "high-1", timeout=SECONDS)
    nodes = {client.get("Pod", f"high-{number}")["spec"]["nodeName"] for number in range(2)}
    assert nodes == {"n0", "n1"}
