"""Gangs of other systems on a real kube-scheduler, one after the other in one cluster.

The pods are those of tests/groups/recorded.py without their owners, which no controller here
has made (the garbage collector would take such pods). Of PodGroup objects the extender has
no right to read any: manifests/rbac.yaml, as shipped.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.model.custom_groups import CustomGroup
from extender.model.settings import GroupSettings, SeatSettings, Settings
from extender.sandbox.process import ExtenderProcess
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod
from tests.controlplane.rights import grant_manifest
from tests.groups import recorded

CUSTOM = CustomGroup(name="ours", annotation="x.example/run", size_annotation="x.example/pods")
SYSTEMS = (
    "kueue-annotation",
    "kueue-skypilot",
    "koordinator",
    "yunikorn",
    "leader-worker-set-kueue",
    "training-operator-mpi",
    "ray-cluster",
    "spark",
    "volcano",
    "kai",
    "custom",
)
SECONDS = 60.0


def _gang(system: str, name: str, cls: str, *, bound: bool) -> list[dict[str, Any]]:
    """Four pods of 3 CPU, on n0 to n3 when they are bound."""
    pods = []
    for i in range(4):
        meta: dict[str, Any] = {"annotations": {"x.example/run": name, "x.example/pods": "4"}}
        if system != "custom":
            meta = recorded.EVERY[system](i, 4, name)
        pods.append(
            make_pod(
                f"{name}-{i}",
                cpu=3,
                priority_class=cls,
                labels=meta.get("labels"),
                annotations=meta.get("annotations"),
                node=f"n{i}" if bound else None,
            )
        )
    return pods


def _play(cluster: Cluster, system: str) -> None:
    """A low gang runs; a high one arrives that cannot fit, and then can."""
    client = cluster.client
    short = system.replace("-", "")
    low, high = (
        _gang(system, f"{cls}{short}-0", cls, bound=cls == "low") for cls in ("low", "high")
    )
    victims = [pod["metadata"]["name"] for pod in low]
    members = [pod["metadata"]["name"] for pod in high]
    client.patch("Node", "n3", {"spec": {"unschedulable": False}})
    client.create_all(*low)
    before = {pod["metadata"]["uid"] for pod in client.wait_running(*victims, timeout=SECONDS)}
    client.patch("Node", "n3", {"spec": {"unschedulable": True}})
    client.create_all(*high)

    def refused() -> bool:
        pods = [client.get("Pod", name) for name in members]
        assert not any(pod["spec"].get("nodeName") for pod in pods), system
        return all(
            any(
                condition["type"] == "PodScheduled" and condition["status"] == "False"
                for condition in pod["status"].get("conditions", ())
            )
            for pod in pods
        )

    client.wait_for(refused, SECONDS, f"{system}: all are refused")
    here = [client.get("Pod", name) for name in victims]
    assert {pod["metadata"]["uid"] for pod in here} == before, system
    assert not any(pod["metadata"].get("deletionTimestamp") for pod in here), system
    client.patch("Node", "n3", {"spec": {"unschedulable": False}})
    client.wait_running(*members, timeout=SECONDS)
    assert [client.get_or_none("Pod", name) for name in victims] == [None] * 4, system
    for name in members:
        client.delete("Pod", name, grace=0)
    for name in members:
        client.wait_gone("Pod", name)


@pytest.mark.real
async def test_gangs_of_other_systems(cluster: Cluster, tmp_path: Path) -> None:
    await asyncio.to_thread(grant_manifest, cluster.client)
    await asyncio.to_thread(cluster.nodes, 4)
    await asyncio.to_thread(cluster.priority_classes, low=1, high=100)
    settings = replace(
        Settings(),
        seats=SeatSettings(record_namespace=cluster.namespace),
        groups=GroupSettings(custom=(CUSTOM,)),
    )
    hooks = ExtenderProcess(tmp_path, cluster.control_plane.extender_kubeconfig, settings)
    try:
        await hooks.start()
        await asyncio.to_thread(cluster.use_extender, hooks.url)
        for system in SYSTEMS:
            await asyncio.to_thread(_play, cluster, system)
    finally:
        await hooks.close()
