"""What `kubectl describe pod` says of a member that waits, on real control planes.

kubectl sorts events by lastTimestamp, which those of kube-scheduler do not have: they come first,
and ours stand below them, the newest last.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from extender.sandbox.process import ExtenderProcess
from extender.settings.settings import Settings
from tests.controlplane.client import Client
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod

Obj = dict[str, Any]
SECONDS = 120.0


def events_of(client: Client, name: str) -> list[tuple[str, str]]:
    """Reason and message of a pod's events, as kubectl orders them."""
    found = [e for e in client.list("Event") if e["involvedObject"]["name"] == name]
    found.sort(key=lambda event: event.get("lastTimestamp") or "")
    return [(event["reason"], event["message"]) for event in found]


def last_event(client: Client, name: str, reason: str) -> str:
    """What the last line says, once it is of that reason; it is there once."""

    def told() -> str | None:
        events = events_of(client, name)
        return events[-1][1] if events and events[-1][0] == reason else None

    try:
        found = client.wait_for(told, SECONDS)
    except TimeoutError:
        raise AssertionError(f"{name} is not told {reason}: {events_of(client, name)}") from None
    assert isinstance(found, str)
    assert [each for each, _ in events_of(client, name)].count(reason) == 1
    return found


def condition(client: Client, name: str, words: str) -> str:
    """What PodScheduled says, once it says these words."""

    def said() -> str | None:
        for each in client.get("Pod", name)["status"].get("conditions", ()):
            if each["type"] == "PodScheduled" and words in each.get("message", ""):
                return str(each["message"])
        return None

    found = client.wait_for(said, SECONDS, f"{name} has {words!r}: {events_of(client, name)}")
    assert isinstance(found, str)
    return found


def _play(cluster: Cluster) -> None:
    client = cluster.client
    nodes = cluster.nodes(3)
    cluster.priority_classes(low=1, high=1000)
    cluster.pod_group("low", 3, disruption="all", priority_class="low")
    for name, least in (("few", 3), ("tiny", 3), ("big", 4)):
        cluster.pod_group(name, least, disruption="all", priority_class="high")
    for number, node in enumerate(nodes):
        client.create(
            make_pod(f"low-{number}", cpu=3, pod_group="low", priority_class="low", node=node)
        )
    client.wait_running("low-0", "low-1", "low-2")
    # Their groups have long been read by then. Four members of a gang are told at most.
    for name, there, cpu in (("few", 1, "3"), ("tiny", 1, "500m"), ("big", 4, "3")):
        client.create_all(
            *(
                make_pod(f"{name}-{i}", cpu=cpu, pod_group=name, priority_class="high")
                for i in range(there)
            )
        )
    # No node has room: kube-scheduler's sentence is about resources, ours is the last line.
    few = last_event(client, "few-0", "GangIncomplete")
    assert "waits for members: 1 of 3 exist" in few
    big = last_event(client, "big-0", "GangDoesNotFit")
    assert "3 of 4 members fit" in big
    # Every node has room: kube-scheduler repeats our reason, one for all nodes, and adds its own
    # word on preemption.
    last_event(client, "tiny-0", "GangIncomplete")
    waits = condition(client, "tiny-0", "waits for members")
    # Then comes what kube-scheduler says of preemption, and on 1.36 of resource claims.
    ours = f"3 pod-group:{cluster.namespace}/tiny: waits for members: 1 of 3 exist; nothing"
    assert waits.startswith(f"0/3 nodes are available: {ours} is evicted. ")


@pytest.mark.real
async def test_a_waiting_member_reads_like_a_sentence(cluster: Cluster, tmp_path: Path) -> None:
    extender = ExtenderProcess(tmp_path, cluster.control_plane.kubeconfig, Settings())
    try:
        await extender.start()
        await asyncio.to_thread(cluster.use_extender, extender.url)
        await asyncio.to_thread(_play, cluster)
    finally:
        await extender.close()
