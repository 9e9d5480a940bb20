"""Server-sent events: who is told, who is not let in, and that they end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest

from extender.console import events
from tests.console.site import Site, serving
from tests.console.stage import training_cluster

SOON = 20.0


@contextlib.asynccontextmanager
async def listening(web: aiohttp.ClientSession, site: Site) -> AsyncIterator[aiohttp.StreamReader]:
    async with web.get(site.url("events")) as answer:
        assert answer.status == 200
        assert answer.content_type == "text/event-stream"
        assert answer.headers["Cache-Control"] == "no-store"
        yield answer.content


async def news(stream: aiohttp.StreamReader) -> int:
    async with asyncio.timeout(SOON):
        while not (line := await stream.readline()).startswith(b"data: "):
            assert line, "it goes on"
        return int(line[6:])


async def test_everybody_is_told_of_what_is_new(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "LOOK_SECONDS", 0.02)
    async with listening(web, site) as one, listening(web, site) as other:
        first = await news(one)
        assert await news(other) == first
        site.console.board._next = 0.0
        site.stage.generation += 1
        later = await asyncio.gather(news(one), news(other))
        assert later[0] == later[1] > first
        assert len(site.console.events) == 2


async def test_who_leaves_is_forgotten_and_nobody_follows_any_more(
    site: Site, web: aiohttp.ClientSession
) -> None:
    async with listening(web, site) as stream:
        await news(stream)
    async with asyncio.timeout(SOON):
        while len(site.console.events) or site.server.app.in_flight:
            await asyncio.sleep(0.01)
    assert site.console.events._following is None


async def test_listeners_are_bounded_and_keep_nobody_busy(
    site: Site, web: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_LISTENERS", 2)
    async with listening(web, site) as one, listening(web, site) as other:
        await news(one)
        await news(other)
        async with web.get(site.url("events")) as answer:
            assert answer.status == 503
            assert "Retry-After" in answer.headers
        assert site.server.app.busy == 0
        assert len(site.server.listeners[0]._connections._holding) == 2, "no place of the verbs'"


async def test_a_stop_does_not_wait_for_listeners(web: aiohttp.ClientSession) -> None:
    async with serving(training_cluster()) as site:
        stream = await web.get(site.url("events")).__aenter__()
        await news(stream.content)
        site.server.app.drain()
        async with asyncio.timeout(SOON):
            await site.server.app.idle()
            assert (await stream.content.read()).endswith((b"\n", b""))
        stream.close()
        async with web.get(site.url("events")) as answer:
            assert answer.status == 503
