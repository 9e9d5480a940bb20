"""A victim that does not go, so that seats are held for as long as a test likes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.plugin.telling import ENDED, told
from tests.scenarios.ways import Plugin

SECONDS = 90.0
GRACE = 600
"""Of the victim: nothing of the story may end by itself."""


class Stage:
    """n0 with a low pod that will not go, n1 free; a gang of two wants both nodes."""

    def __init__(self, cluster: Cluster, extender: ExtenderProcess) -> None:
        self.cluster, self.client, self.extender = cluster, cluster.client, extender
        self.log = cluster.control_plane.layout.log("kube-scheduler")

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
        before = self.log.read_text().count(ENDED)
        await self.extender.kill_extender()
        await asyncio.to_thread(
            self.client.wait_for, lambda: self.log.read_text().count(ENDED) > before, SECONDS, ENDED
        )

    async def refused(self, name: str, why: str) -> None:
        """Return when kube-scheduler has said so of a pod."""
        await asyncio.to_thread(
            self.client.wait_for, lambda: why in told(self.client, name), SECONDS, f"{name}: {why}"
        )


def patient(cluster: Cluster) -> Settings:
    """Settings with which nothing ends by itself."""
    seats = SeatSettings(record_namespace=cluster.namespace, victim_slack_seconds=SECONDS)
    return replace(Settings(), seats=seats)


@contextlib.asynccontextmanager
async def staged(rights: Cluster, folder: Path, way: Plugin) -> AsyncIterator[Stage]:
    """A stage that is set, with an extender process that kube-scheduler asks this way."""
    control_plane = rights.control_plane
    extender = ExtenderProcess(
        folder, control_plane.extender_kubeconfig, way.settings(patient(rights))
    )
    try:
        await extender.start()
        await way.schedule(rights, extender)
        made = Stage(rights, extender)
        await made.set()
        yield made
    finally:
        await extender.close()
