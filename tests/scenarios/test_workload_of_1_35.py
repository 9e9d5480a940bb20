"""Gangs of a Workload (scheduling.k8s.io/v1alpha1) on a real Kubernetes 1.35, the one that has it.

kube-apiserver has the gate GenericWorkload and serves v1alpha1, kube-scheduler has the gate off.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.rights import grant_manifest

pytestmark = pytest.mark.real

Obj = dict[str, Any]


def workload(name: str) -> Obj:
    """One whose only pod group is a gang of four."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroups": [{"name": "workers", "policy": {"gang": {"minCount": 4}}}]},
    }


def members(name: str, count: int, first: int = 0) -> list[Obj]:
    """Pods of 3 CPU, of the class that is called like the Workload."""
    ref = {"name": name, "podGroup": "workers"}
    return [
        make_pod(f"{name}-{i}", cpu=3, priority_class=name, spec={"workloadRef": ref})
        for i in range(first, first + count)
    ]


def story(cluster: Cluster) -> None:
    """The low gang runs once it is complete; the high one takes its place, or nothing happens."""
    client = cluster.client
    cluster.nodes(4)
    client.create_all(workload("low"), workload("high"), *members("low", 3))

    def refused(*names: str) -> bool:
        pods = [client.get("Pod", name) for name in names]
        assert not any(pod["spec"].get("nodeName") for pod in pods)
        conditions = [pod["status"].get("conditions", ()) for pod in pods]
        return all(any(c["status"] == "False" for c in each) for each in conditions)

    low, high = [f"low-{i}" for i in range(4)], [f"high-{i}" for i in range(4)]
    client.wait_for(lambda: refused(*low[:3]), 60, "three of four wait")
    client.create_all(*members("low", 1, first=3))
    client.wait_running(*low, timeout=60)
    client.patch("Node", "n3", {"spec": {"unschedulable": True}})
    client.create_all(*members("high", 4))
    client.wait_for(lambda: refused(*high), 60, "no room for four")
    assert not any(client.get("Pod", name)["metadata"].get("deletionTimestamp") for name in low)
    client.patch("Node", "n3", {"spec": {"unschedulable": False}})
    client.wait_running(*high, timeout=60)
    assert [client.get_or_none("Pod", name) for name in low] == [None] * 4


async def test_gangs_of_a_workload(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.release.minor != "1.35":
        pytest.skip("spec.workloadRef is of 1.35 alone")
    await asyncio.to_thread(grant_manifest, cluster.client, others=True)
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100)
    seats = SeatSettings(record_namespace=cluster.namespace)
    settings = replace(Settings(), seats=seats)
    hooks = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(cluster.use_extender, hooks.url)
        await asyncio.to_thread(story, cluster)
    finally:
        await hooks.close()
