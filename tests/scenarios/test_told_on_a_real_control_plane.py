"""What kube-scheduler and owners are told, where the API server and kube-scheduler are real."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.status.group_conditions import TYPE
from extender.kube.client import FIELD_MANAGER
from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import SeatSettings, Settings
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod

SECONDS = 60.0


@pytest.fixture
async def told(rights: Cluster, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two nodes, kube-scheduler with the extender; it has the rights of manifests/rbac.yaml."""
    rights.nodes(2, cpu=4)
    rights.priority_classes(low=1)
    settings = replace(Settings(), seats=SeatSettings(record_namespace=rights.namespace))
    extender = ExtenderProcess(tmp_path, rights.control_plane.extender_kubeconfig, settings)
    try:
        await extender.start()
        await asyncio.to_thread(rights.use_extender, extender.url)
        yield rights
        extender.check()
    finally:
        await extender.close()


def members(cluster: Cluster, gang: str, count: int, cpu: int = 1) -> list[str]:
    names = [f"{gang}-{i}" for i in range(count)]
    for name in names:
        cluster.client.create(make_pod(name, cpu=cpu, priority_class="low", pod_group=gang))
    return names


def scheduled(cluster: Cluster, pod: str) -> str:
    """What kube-scheduler says of a pod, in condition PodScheduled."""
    conditions = cluster.client.get("Pod", pod)["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


@pytest.mark.real
async def test_a_podgroup_that_comes_after_its_pods(told: Cluster) -> None:
    """Nothing happens to pods or nodes then, so kube-scheduler would not try them for minutes."""
    said = await asyncio.to_thread(_late, told)
    assert (said["status"], said["reason"]) == ("True", "Scheduled")
    assert _writers(told, "late") == {FIELD_MANAGER}


def _late(cluster: Cluster) -> dict[str, Any]:
    """Return what the PodGroup says once its pods run."""
    cluster.needs_pod_groups()
    client = cluster.client
    names = members(cluster, "late", 2)
    client.wait_for(
        lambda: all("does not exist" in scheduled(cluster, name) for name in names),
        SECONDS,
        "both are refused",
    )
    cluster.pod_group("late", 2, priority_class="low")
    client.wait_running(*names, timeout=SECONDS)
    return client.wait_for(lambda: _condition(cluster, "late"), 90, "condition")


@pytest.mark.real
async def test_every_member_and_the_podgroup_say_why_it_waits(told: Cluster) -> None:
    said = await asyncio.to_thread(_large, told)
    assert (said["status"], said["reason"]) == ("False", "Unschedulable")


def _large(cluster: Cluster) -> dict[str, Any]:
    """Return what the PodGroup says once every member has its event, and one reason."""
    client = cluster.client
    cluster.pod_group("large", 6, priority_class="low")
    names = members(cluster, "large", 6, cpu=3)
    wanted = {("Pod", name) for name in names} | {("PodGroup", "large")}

    def told_of() -> bool:
        events = client.list("Event")
        found = {
            (one["involvedObject"]["kind"], one["involvedObject"]["name"]): one["message"]
            for one in events
            if one["reason"] == "GangDoesNotFit"
        }
        return wanted <= found.keys() and all("2 of 6 members fit" in why for why in found.values())

    client.wait_for(told_of, SECONDS, "events")
    # One reason for all nodes, however many there are.
    client.wait_for(
        lambda: scheduled(cluster, names[0]).startswith("0/2 nodes are available: 2 pod-group:"),
        SECONDS,
        "one reason",
    )
    return client.wait_for(lambda: _condition(cluster, "large"), 90, "condition")


def _writers(cluster: Cluster, group: str) -> set[str]:
    """Return whose our condition is, by managedFields."""
    entries = cluster.client.get("PodGroup", group)["metadata"]["managedFields"]
    mine = f'k:{{"type":"{TYPE}"}}'
    return {
        entry["manager"]
        for entry in entries
        if entry.get("subresource") == "status"
        and mine in entry["fieldsV1"].get("f:status", {}).get("f:conditions", {})
    }


def _condition(cluster: Cluster, group: str) -> dict[str, Any]:
    conditions = cluster.client.get("PodGroup", group).get("status", {}).get("conditions", [])
    return next((one for one in conditions if one["type"] == TYPE), {})
