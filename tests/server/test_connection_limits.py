"""How many connections a caller can take, and who makes room; health has a listener of its own.

See docs/security.md, row 8.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tracemalloc
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.settings.settings import ServerSettings
from tests.server.callers import HEAD, QUESTION, SHORT, answer, connect, refused, works
from tests.server.doubles import Gate, Running, running
from tests.server.test_tls import Files, status, trusting


@pytest.fixture
async def site() -> AsyncIterator[Running]:
    async with running(SHORT) as one:
        yield one


class TestConnections:
    async def test_more_than_there_are_places(self, site: Running) -> None:
        """Half-open ones turn themselves over; who asks is served; health has its own."""
        crowd = [await connect(site) for _ in range(40)]
        for _, writer in crowd:
            with contextlib.suppress(ConnectionError):
                writer.write(b"P")
        await works(site)
        await refused(site, "displaced")
        for _, writer in crowd:
            writer.close()

    async def test_who_was_answered_and_stays_makes_room(self, site: Running) -> None:
        crowd = [await connect(site) for _ in range(16)]
        for reader, writer in crowd:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        await works(site)
        await refused(site, "displaced")
        for _, writer in crowd:
            writer.close()

    async def test_who_is_being_answered_is_not_displaced(self, site: Running) -> None:
        gate = Gate()
        site.verbs.hook = gate
        call = HEAD + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
        asking = [await connect(site) for _ in range(16)]
        for _, writer in asking:
            writer.write(call)
        while site.server.app.in_flight < 16:
            await asyncio.sleep(0.01)
        reader, writer = await connect(site)
        status, document = await answer(reader)
        assert (status, document["error"]) == (503, "too many connections")
        writer.close()
        livez = site.server.health_url + "/livez"
        async with aiohttp.ClientSession() as web, web.get(livez) as alive:
            assert alive.status == 200
        gate.opened.set()
        for reader, writer in asking:
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
        await refused(site, "connections")

    async def test_places_come_back(self, site: Running) -> None:
        for _ in range(50):
            reader, writer = await connect(site)
            writer.write(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 200")
            writer.close()
        assert 'reason="displaced"' not in site.metrics.render("")[0].decode()

    async def test_a_crowd_of_handshakes(self, tmp_path: Any) -> None:
        files = Files(tmp_path, ask_clients=True)
        settings = replace(files.settings, max_connections=16, health_port=0, head_seconds=30.0)
        async with running(settings) as site:
            crowd = [await connect(site) for _ in range(40)]
            known = trusting(files.authority, files.authority)
            assert await status(site.url("/livez"), known) == 200
            stranger = trusting(files.authority)
            assert await status(site.server.health_url + "/livez", stranger) == 200
            for _, writer in crowd:
                writer.close()


class TestHealthListener:
    async def test_it_has_health_and_no_verbs(self, site: Running) -> None:
        url = site.server.health_url
        assert url != site.server.url
        async with aiohttp.ClientSession() as web:
            for path in ("/livez", "/healthz", "/readyz", "/readyz/caches", "/metrics", "/debug/"):
                async with web.get(url + path) as page:
                    assert page.status == 200, path
            for verb in ("filter", "prioritize", "preempt"):
                async with web.post(f"{url}/{verb}", data=QUESTION) as call:
                    assert call.status == 404
                    assert (await call.json())["verbs"] == []
        assert not site.verbs.asked

    async def test_it_answers_until_the_last_call_is_done(self) -> None:
        gate = Gate()
        async with running(ServerSettings(port=0, health_port=0)) as site:
            site.verbs.hook = gate
            async with aiohttp.ClientSession() as web:
                call = asyncio.create_task(
                    web.post(site.url("/filter"), data=QUESTION).__aenter__()
                )
                await gate.entered.wait()
                site.stop.set()
                for _ in range(3):  # uvicorn looks ten times a second whether to end
                    closing = {"Connection": "close"}
                    url = site.server.health_url + "/livez"
                    async with web.get(url, headers=closing) as alive:
                        assert alive.status == 200
                    await asyncio.sleep(0.1)
                gate.opened.set()
                assert (await call).status == 200


async def test_memory_under_half_requests_is_bounded(
    site: Running, scrape: Callable[[], str]
) -> None:
    """A thousand connections that begin a request and stop cost no more than the places do."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            crowd = [await connect(site) for _ in range(50)]
            for _, writer in crowd:
                with contextlib.suppress(ConnectionError):
                    writer.write(HEAD + b"x: " + b"a" * 10_000)
            for _, writer in crowd:
                writer.transport.abort()
        await works(site)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 4_000_000
