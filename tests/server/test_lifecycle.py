"""Keep-alive, draining, signals, addresses."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
from typing import Any

import aiohttp
import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from extender.model.errors import InvalidInput
from extender.server.lifecycle import stop_on_signals
from extender.settings.settings import ServerSettings
from tests.server.doubles import Gate, Running, running
from tests.wire.documents import dump, filter_by_name

QUESTION = dump(filter_by_name(["n1"]))
GO_IDLE_SECONDS = 90
"""net/http DefaultTransport.IdleConnTimeout, which kube-scheduler's client keeps."""


class Timers:
    """An event loop whose timers, as one connection sets them, are kept and never run."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delays: list[float]) -> None:
        self._loop = loop
        self._delays = delays

    def call_later(self, delay: float, *args: Any) -> asyncio.TimerHandle:
        self._delays.append(delay)
        return self._loop.call_later(3600, *args)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)


async def idle_for(port: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """After how many idle seconds the server would close a connection, once it has answered."""
    made = HttpToolsProtocol.connection_made
    delays: list[float] = []

    def connection_made(self: HttpToolsProtocol, transport: asyncio.Transport) -> None:
        self.loop = Timers(self.loop, delays)  # type: ignore[assignment]
        made(self, transport)

    monkeypatch.setattr(HttpToolsProtocol, "connection_made", connection_made)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        await reader.readexactly(2)
        # The timer is set in the turn in which the answer was sent: before a second one is.
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()
    return delays[-1]


async def test_connection_outlives_gos_idle_time(
    site: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ServerSettings().keep_alive_seconds > GO_IDLE_SECONDS
    assert await idle_for(site.server.port, monkeypatch) == ServerSettings().keep_alive_seconds


async def test_uvicorns_own_idle_time_would_be_too_short(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the setting is for: with the default the server closes first."""
    short = inspect.signature(uvicorn.Config).parameters["timeout_keep_alive"].default
    async with running(ServerSettings(port=0, keep_alive_seconds=short)) as site:
        assert await idle_for(site.server.port, monkeypatch) == short < GO_IDLE_SECONDS


async def test_stop_finishes_calls_in_preemption(web: aiohttp.ClientSession) -> None:
    gate = Gate()
    async with running() as site:
        site.verbs.hook = gate
        call = asyncio.create_task(web.post(site.url("/filter"), data=QUESTION).__aenter__())
        await gate.entered.wait()
        site.stop.set()
        async with aiohttp.ClientSession() as probe:
            while True:
                async with probe.get(site.url("/readyz")) as ready:
                    reasons = (await ready.json())["reasons"] if ready.status == 503 else []
                if ready.status == 503:
                    break
            assert reasons == ["stopping"]
            assert ready.headers["connection"] == "close"
            async with probe.get(site.url("/healthz")) as alive:
                assert alive.status == 200
        assert not call.done()
        gate.opened.set()
        answer = await call
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
        assert (await answer.json())["NodeNames"] == ["n1"]
    with pytest.raises(aiohttp.ClientConnectorError):
        await web.get(site.url("/healthz"))


async def test_stop_cuts_off_what_does_not_end(
    web: aiohttp.ClientSession, lines: list[Any]
) -> None:
    gate = Gate()
    async with running(ServerSettings(port=0, drain_seconds=0.05)) as site:
        site.verbs.hook = gate
        call = asyncio.create_task(web.post(site.url("/filter"), data=QUESTION).__aenter__())
        await gate.entered.wait()
        site.stop.set()
        answer = await call
        assert answer.status == 503
        assert "stopping" in (await answer.json())["error"]
    assert "stopped" in [line["event"] for line in lines]


async def test_stop_closes_idle_connections(web: aiohttp.ClientSession) -> None:
    async with running() as site:
        reader, writer = await asyncio.open_connection("127.0.0.1", site.server.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok")
        site.stop.set()
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()


async def test_signals() -> None:
    stop = asyncio.Event()
    before = signal.getsignal(signal.SIGTERM)
    stop_on_signals(stop)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(stop.wait(), 60)
    assert signal.getsignal(signal.SIGTERM) == before, "a second signal must end the process"
    assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


async def test_port_in_use() -> None:
    async with running() as site:
        with pytest.raises(InvalidInput, match=r"cannot listen on 127\.0\.0\.1"):
            async with running(ServerSettings(port=site.server.port)):
                pass


async def test_bad_address() -> None:
    with pytest.raises(InvalidInput, match="cannot listen on"):
        async with running(ServerSettings(host="203.0.113.7", port=0)):
            pass


async def test_ipv6(web: aiohttp.ClientSession) -> None:
    async with running(ServerSettings(host="::1", port=0)) as site:
        assert site.server.url == f"http://[::1]:{site.server.port}"
        async with web.get(site.url("/healthz")) as answer:
            assert answer.status == 200


async def test_the_room_is_tested_on_uvloop() -> None:
    assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
