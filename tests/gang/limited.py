"""A rig on which limits are met, and what it takes to meet them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from extender.gang.fairness.suspensions import NAME
from extender.settings.settings import Settings
from tests.gang.rig import Rig


@asynccontextmanager
async def rigged(settings: Settings) -> AsyncIterator[Rig]:
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        yield rig


async def warnings(rig: Rig) -> list[dict[str, Any]]:
    found = await rig.client.get("/api/v1/events")
    return [item for item in found["items"] if item["type"] == "Warning"]


async def until_written(rig: Rig) -> None:
    deadline = time.monotonic() + rig.patience
    while not any(item["metadata"]["name"] == NAME for item in await rig.records()):
        assert time.monotonic() < deadline, "the suspension is not written"
        await asyncio.sleep(0.01)


async def tried(rig: Rig, name: str, namespace: str = "default") -> None:
    """Let it look as if kube-scheduler had tried to place the pod."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/status"
    await rig.client.patch(path, {"status": {"conditions": [condition]}}, kind="strategic")
