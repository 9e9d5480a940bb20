"""Finding out what is served, on a bad day."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from extender.cache import cache as module
from extender.cache.discovery import served
from tests.cache.conftest import until
from tests.cache.fakeapi import FakeApi
from tests.cache.watched import Make

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1"


async def test_a_version_that_is_not_told_holds_nothing_up(api: FakeApi, make: Make) -> None:
    hung = asyncio.Event()

    async def hanging(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/version":
            await hung.wait()
        return None

    api.script = hanging
    cache = make()
    await cache.start()
    try:
        await cache.wait_synced(3)
    finally:
        hung.set()


async def test_a_mistake_of_ours_does_not_end_discovery(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ValueError("ours")]

    async def failing(client: Any, source: str) -> str | None:
        if failures:
            raise failures.pop()
        return await served(client, source)

    monkeypatch.setattr(module, "served", failing)
    cache = make(discovery_seconds=0.05)
    await cache.start()
    await cache.wait_synced(5)
    api.groups[GROUPS] = True
    await until(lambda: "podgroups-scheduling-plugins" in cache.stats.watches)
