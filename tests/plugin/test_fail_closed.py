"""What the plugin does without the extender, and what it wakes, on a real control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.controlplane.cluster import Cluster
from tests.plugin.stage import SECONDS, Stage, staged
from tests.scenarios.ways import Plugin

pytestmark = pytest.mark.real


@pytest.fixture
async def stage(rights: Cluster, tmp_path: Path, sockets: Path) -> AsyncIterator[Stage]:
    async with staged(rights, tmp_path, Plugin(sockets)) as made:
        yield made


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
