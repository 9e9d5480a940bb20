"""A nomination that nobody stands behind any more keeps no room from others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from extender.sandbox.process import ExtenderProcess
from extender.settings.policy import DEFAULT, EVERYBODY, PolicySettings
from extender.settings.settings import Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod

SETTINGS = Settings(policy=PolicySettings(opt_out={DEFAULT: EVERYBODY}))
GATE = {"schedulingGates": [{"name": "example.com/wait"}]}


@pytest.mark.real
async def test_room_is_for_others_once_a_pod_is_allowed_no_node(
    cluster: Cluster, tmp_path: Path
) -> None:
    """As after a plan for a pod of no gang whose extender was killed before it cleared its hint.

    The pod fits nowhere: on the first node a protected pod is in the way, on the second a more
    urgent one. Beside that is room for a small pod, which the nomination keeps from it.
    """
    client = cluster.client

    def prepare() -> None:
        first, second = cluster.nodes(2)
        cluster.priority_classes(low=1, high=1000, top=2000)
        client.create(make_pod("kept", cpu=3, priority_class="low", node=first))
        note = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
        client.patch("Pod", "kept", note)
        client.create(make_pod("top", cpu=2, priority_class="top", node=second))
        client.create(make_pod("p", cpu=3, priority_class="high", spec=GATE))
        status = {"status": {"nominatedNodeName": second}}
        client.patch("Pod", "p", status, subresource="status")
        for name in ("kept", "top"):
            client.wait_running(name)

    def nomination() -> str | None:
        status: dict[str, Any] = client.get("Pod", "p")["status"]
        tried = any(c.get("reason") == "Unschedulable" for c in status.get("conditions", ()))
        return status.get("nominatedNodeName", "") if tried else None

    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, SETTINGS)
    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_extender, extender.url)
        await asyncio.to_thread(prepare)
        await asyncio.to_thread(client.patch, "Pod", "p", {"spec": {"schedulingGates": []}})
        await asyncio.to_thread(
            client.wait_for, lambda: nomination() == "", what="no nomination after an attempt"
        )
        await asyncio.to_thread(client.create, make_pod("small", cpu=2, priority_class="low"))
        await asyncio.to_thread(client.wait_running, "small")
        assert await asyncio.to_thread(client.get_or_none, "Pod", "kept") is not None
    finally:
        await extender.close()
