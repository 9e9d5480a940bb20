"""A gang for which cluster-autoscaler has announced nodes, where API server and scheduler are real.

The events are written as cluster-autoscaler's recorder writes them (client-go, tools/record).
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_node, make_pod

SIZE = 3
COMES = tuple(float(at) for at in os.environ.get("PODGROUP_NODES_COME", "4,5,6").split(","))
"""When a node comes, in seconds since the gang was complete."""


def announce(cluster: Cluster, name: str) -> None:
    """Say of a pod that a node group grows for it."""
    pod = cluster.client.get("Pod", name)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": cluster.namespace, "name": name}
    cluster.client.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.17c2a8f3b1d0e9aa", "namespace": cluster.namespace},
            "involvedObject": about | {"uid": pod["metadata"]["uid"]},
            "reason": "TriggeredScaleUp",
            "message": "pod triggered scale-up: [{workers 3->6 (max: 9)}]",
            "type": "Normal",
            "source": {"component": "cluster-autoscaler"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "count": 1,
            "reportingComponent": "cluster-autoscaler",
            "reportingInstance": "",
        }
    )


def reasons(group: dict[str, Any]) -> list[str]:
    return [each["reason"] for each in group.get("status", {}).get("conditions", [])]


@pytest.mark.real
async def test_nobody_is_evicted_while_announced_nodes_come(
    rights: Cluster, tmp_path: Path
) -> None:
    rights.needs_pod_groups()
    settings = replace(Settings(), seats=SeatSettings(record_namespace=rights.namespace))
    extender = ExtenderProcess(tmp_path, rights.control_plane.extender_kubeconfig, settings)
    try:
        await extender.start()
        await asyncio.to_thread(rights.use_extender, extender.url)
        began = await asyncio.to_thread(_play, rights)
        extender.check()
    finally:
        await extender.close()
    assert COMES[-1] <= began <= COMES[-1] + 5


def _play(cluster: Cluster) -> float:
    """Return after how many seconds the gang ran."""
    client = cluster.client
    cluster.nodes(SIZE, cpu=4)
    cluster.priority_classes(low=1, high=100000)
    low, high = ([f"{gang}-{i}" for i in range(SIZE)] for gang in ("low", "high"))
    cluster.pod_group("low", SIZE, disruption="all", priority_class="low")
    for name in low:
        client.create(make_pod(name, 3, priority_class="low", pod_group="low", grace=30))
    client.wait_running(*low)
    # They wait for their PodGroup: the autoscaler has its say before the extender plans.
    for name in high:
        client.create(make_pod(name, 3, priority_class="high", pod_group="high"))
        announce(cluster, name)
    cluster.pod_group("high", SIZE, disruption="all", priority_class="high")
    began = time.monotonic()
    client.wait_for(
        lambda: "NodeAnnounced" in reasons(client.get("PodGroup", "high")), what="a condition"
    )
    for number, at in enumerate(COMES, start=SIZE):
        time.sleep(max(0.0, began + at - time.monotonic()))
        client.create(make_node(f"n{number}", 4))
    client.wait_running(*high, timeout=60)
    took = time.monotonic() - began
    assert not [
        name for name in low if client.get("Pod", name)["metadata"].get("deletionTimestamp")
    ]
    print(f"all members ran after {took:.1f} s")
    return took
