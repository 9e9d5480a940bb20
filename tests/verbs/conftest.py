"""The whole extender behind a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from extender.model.settings import ServerSettings
from extender.server.app import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from tests.gang.rig import PODS, Rig


class Served:
    """A rig with its verbs on a port."""

    def __init__(self, rig: Rig, url: str, http: aiohttp.ClientSession) -> None:
        self.rig = rig
        self.url = url
        self.http = http

    async def post(self, verb: str, body: Any) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.http.post(f"{self.url}/{verb}", data=data) as answer:
            return answer.status, await answer.json(content_type=None)

    async def metrics(self) -> str:
        async with self.http.get(f"{self.url}/metrics") as answer:
            return await answer.text()

    async def document(self, name: str) -> dict[str, Any]:
        """The pod as the API server has it."""
        return await self.rig.client.get(f"{PODS}/{name}")

    async def plain(self, name: str = "p", cls: str = "", cpu: str = "500m") -> dict[str, Any]:
        """A new pod of no gang, cached."""
        made = await self.rig.pod(name, cpu=cpu, cls=cls)
        await self.rig.until(lambda: self.rig.cache.pod_named("default", name) is not None, name)
        return made


class _NoDebug:
    def decisions(self) -> list[object]:
        return []

    reservations = evictions = gangs = decisions

    def limits(self) -> dict[str, object]:
        return {}

    def pods_named(self, name: str) -> list[object]:
        return []

    def snapshot(self, generation: int | None) -> object:
        return {}


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        await rig.gang("high", 2, "high")
        settings = ServerSettings(port=0, max_body_bytes=64 * 1024)
        metrics = Metrics()
        server = Server(settings, rig.verbs, _NoDebug(), Health(), metrics)
        stop = asyncio.Event()
        serving = asyncio.create_task(server.serve(stop))
        await asyncio.wait_for(server.started.wait(), 10)
        async with aiohttp.ClientSession() as http:
            yield Served(rig, server.url, http)
        stop.set()
        await serving
        metrics.close()
