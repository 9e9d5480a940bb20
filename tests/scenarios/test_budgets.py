"""PodDisruptionBudgets as the real disruption controller and Eviction API keep them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pdb, make_pod


@pytest.mark.real
async def test_a_respected_budget_decides_who_goes_and_how(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Two equal pods in the way: the one whose budget allows nothing stays, the other goes
    through the Eviction API, because a budget covers it too."""
    client, plane = cluster.client, cluster.control_plane
    extender = ExtenderProcess(tmp_path, plane.kubeconfig, Settings())

    def play() -> list[dict[str, Any]]:
        nodes = cluster.nodes(2)
        cluster.priority_classes(low=1, high=1000)
        for name, node in zip(("kept", "spare"), nodes, strict=True):
            client.create(
                make_pod(name, cpu=3, priority_class="low", labels={"app": name}, node=node)
            )
        client.wait_running("kept", "spare")
        client.create(make_pdb("kept", {"app": "kept"}, minAvailable=1))
        client.create(make_pdb("spare", {"app": "spare"}, minAvailable=0))
        client.wait_for(
            lambda: client.get("PodDisruptionBudget", "spare")["status"].get("disruptionsAllowed"),
            what="the budget allows one disruption",
        )
        cluster.pod_group("high", 1, disruption="all", priority_class="high")
        client.create(make_pod("high-0", cpu=3, pod_group="high", priority_class="high"))
        client.wait_running("high-0")
        return [
            record
            for record in plane.removals()
            if record["objectRef"].get("namespace") == cluster.namespace
        ]

    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_extender, extender.url)
        removals = await asyncio.to_thread(play)
        pods = {pod["metadata"]["name"] for pod in await asyncio.to_thread(client.list, "Pod")}
        assert pods == {"kept", "high-0"}
        ours = [
            (record["objectRef"]["name"], record["objectRef"].get("subresource", ""))
            for record in removals
            if "kwok" not in record["user"]["username"]
        ]
        assert set(ours) == {("spare", "eviction")}
    finally:
        await extender.close()
