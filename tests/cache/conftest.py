from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from extender.cache.cache import Cache
from extender.cache.clock import Clock
from extender.kube.client import KubeClient
from extender.model.objects import GangKey, Pod
from extender.settings.settings import CacheSettings
from tests.cache.fakeapi import FakeApi


class FastClock(Clock):
    """Sleeping takes no time, but the clock goes on by as much."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.epoch = 1_795_000_000.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.epoch

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        # Real, but short: the server under test needs a turn.
        await asyncio.sleep(0.002)


def by_label(pod: Pod) -> GangKey | None:
    name = pod.labels.get("gang")
    return GangKey("test", pod.namespace, name) if name else None


async def until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait until ``condition`` holds; the limit only ends a test that has failed."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(api: FakeApi) -> AsyncIterator[KubeClient]:
    async with await KubeClient.connect(server=api.url) as made:
        yield made


@pytest.fixture
def clock() -> FastClock:
    return FastClock()


@pytest.fixture
async def make(client: KubeClient, clock: FastClock) -> AsyncIterator[Callable[..., Cache]]:
    made: list[Cache] = []

    def factory(
        *, discovery_seconds: float = 30.0, probe_seconds: float = math.inf, **settings: Any
    ) -> Cache:
        cache = Cache(
            client,
            CacheSettings(**settings),
            by_label,
            clock=clock,
            random=Random(1),
            discovery_seconds=discovery_seconds,
            probe_seconds=probe_seconds,
        )
        made.append(cache)
        return cache

    yield factory
    for cache in made:
        await cache.stop()
