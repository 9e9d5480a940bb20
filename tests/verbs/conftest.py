"""The whole extender behind a socket; what runs with ``served`` runs over HTTP and over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from extender.settings.settings import ServerSettings, Settings
from tests.gang.rig import PODS, Rig
from tests.grpc_api.site import LOCAL, calling, serving_rig
from tests.verbs.transports import OverGrpc, OverHttp, Transport

LIMITS = ServerSettings(port=0, max_body_bytes=64 * 1024)


class Served:
    """A rig with its verbs on a port."""

    def __init__(self, rig: Rig, transport: Transport, metrics: Metrics) -> None:
        self.rig = rig
        self.transport = transport
        self.post = transport.post
        self._metrics = metrics

    def metrics(self) -> str:
        return self._metrics.render("")[0].decode()

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

    reservations = evictions = binds = gangs = decisions

    def limits(self) -> dict[str, object]:
        return {}

    def pods_named(self, name: str) -> list[object]:
        return []

    def watches(self) -> list[object]:
        return []

    def observed(self) -> None:
        return None

    def snapshot(self, generation: int | None) -> object:
        return {}


@pytest.fixture
async def filled() -> AsyncIterator[Rig]:
    async with Rig() as made:
        await made.nodes(2)
        await made.classes(low=1, high=100)
        await made.gang("low", 2, "low", on="n")
        await made.gang("high", 2, "high")
        yield made


@pytest.fixture(params=["http", "grpc"])
async def served(filled: Rig, request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    async with over_http(filled) if request.param == "http" else over_grpc(filled) as one:
        yield one


@asynccontextmanager
async def over_http(rig: Rig) -> AsyncIterator[Served]:
    """The rig on an HTTP port."""
    metrics = Metrics()
    server = Server(LIMITS, rig.verbs, _NoDebug(), Health(), metrics)
    stop = asyncio.Event()
    serving = asyncio.create_task(server.serve(stop))
    await asyncio.wait_for(server.started.wait(), 60)
    async with aiohttp.ClientSession() as http:
        yield Served(rig, OverHttp(server.url, http), metrics)
    stop.set()
    await serving
    metrics.close()


@asynccontextmanager
async def over_grpc(rig: Rig) -> AsyncIterator[Served]:
    """The rig on a gRPC port."""
    settings = Settings(server=LIMITS, grpc=LOCAL)
    async with serving_rig(rig, settings) as site, calling(site.target) as callers:
        yield Served(rig, OverGrpc(callers.channel), site.metrics)
