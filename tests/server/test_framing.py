"""A request whose framing is ambiguous or broken is refused at once, with an answer."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import aiohttp
import pytest
import structlog

from extender.server.connections import Connections, ListenerLimits
from extender.server.diagnostics import MADE
from extender.settings.settings import ServerSettings
from tests.server.callers import QUESTION, Streams, answer, connect
from tests.server.doubles import Row, running

PATIENT = ServerSettings(port=0, body_seconds=3600.0, head_seconds=3600.0)
"""What is answered is answered before any of these times."""
POST = b"POST /filter HTTP/1.1\r\n"


async def _asked(text: bytes) -> tuple[int, str]:
    async with running(PATIENT) as site:
        streams: Streams = await connect(site)
        streams[1].write(text)
        status, document = await answer(streams[0])
        streams[1].close()
        assert not site.verbs.asked
        assert site.server.app.budget.held == 0
        return status, document["error"]


@pytest.mark.parametrize("value", [b"xchunked", b"chunked, gzip", b"gzip", b"chunked\x0b", b""])
async def test_a_transfer_encoding_that_is_none(value: bytes) -> None:
    head = POST + b"Host: x\r\nTransfer-Encoding: " + value + b"\r\n\r\n"
    status, error = await _asked(head + b"2\r\n{}\r\n0\r\n\r\n")
    assert (status, "ransfer-" in error or "header" in error) == (400, True), error


async def test_a_transfer_encoding_that_is_given_twice() -> None:
    twice = b"Transfer-Encoding: chunked\r\n" * 2
    status, _ = await _asked(POST + b"Host: x\r\n" + twice + b"\r\n2\r\n{}\r\n0\r\n\r\n")
    assert status == 400


@pytest.mark.parametrize("chunk", [b"zz\r\n{}\r\n", b"2\r\n{}XX", b"-2\r\n{}\r\n"])
async def test_a_chunk_that_is_none_is_answered_while_its_body_is_read(chunk: bytes) -> None:
    head = POST + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    status, error = await _asked(head + chunk)
    assert (status, "no HTTP/1.1 request" in error) == (400, True), error


@pytest.mark.parametrize(
    "hosts", [b"Host: localhost\r\nHost: evil.example\r\n", b"Host: x\r\nhost: x\r\n"]
)
@pytest.mark.parametrize("page", [b"GET /livez", b"GET /debug/", b"POST /filter"])
async def test_two_hosts(page: bytes, hosts: bytes) -> None:
    """RFC 9112, 3.2: a request with more than one Host is answered with 400."""
    status, error = await _asked(
        page + b" HTTP/1.1\r\n" + hosts + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    )
    assert (status, error) == (400, "more than one Host")


async def test_a_request_of_good_framing_is_served_with_these_limits() -> None:
    async with running(PATIENT) as site:
        reader, writer = await connect(site)
        head = POST + b"Host: x\r\nTransfer-Encoding: Chunked\r\n\r\n"
        writer.write(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(QUESTION), QUESTION))
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_others_are_served_between_the_gangs_of_a_long_page() -> None:
    """Each gang takes a while to be made: 3,000 held /livez for 1.6 s."""
    turns = 0
    seen: list[int] = []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def gangs() -> Iterator[Row]:
        for place in range(300):
            seen.append(turns)
            yield Row(f"gang-{place}")

    async with running(PATIENT) as site, aiohttp.ClientSession() as web:
        site.source.gangs = gangs  # type: ignore[method-assign]
        serving = asyncio.create_task(others())
        async with web.get(site.url("/debug/gangs")) as page:
            found = await page.json()
        serving.cancel()
    assert [each["name"] for each in found["gangs"]] == [f"gang-{n}" for n in range(300)]
    assert len(set(seen)) == 300 / MADE


async def test_no_gangs() -> None:
    async with running(PATIENT) as site, aiohttp.ClientSession() as web:
        site.source.gangs = list  # type: ignore[method-assign]
        async with web.get(site.url("/debug/gangs")) as page:
            assert await page.json() == {"gangs": []}


async def test_no_descriptor_left_is_told_once_a_minute() -> None:
    listener = socket.socket()
    asked = 0
    enough = asyncio.Event()

    async def full(_: socket.socket) -> None:
        nonlocal asked
        asked += 1
        if asked == 5:
            enough.set()
        raise OSError(errno.EMFILE, "Too many open files")

    told: list[str] = []
    connections = Connections(ListenerLimits(4, 4096, 1.0, 1.0), told.append)
    loop = asyncio.get_running_loop()
    with (
        pytest.MonkeyPatch.context() as patch,
        structlog.testing.capture_logs() as lines,
        contextlib.closing(listener),
    ):
        patch.setattr("extender.server.connections.NO_FILES_SECONDS", 0.0)
        patch.setattr(type(loop), "sock_accept", lambda _, each: full(each), raising=False)
        accepting = asyncio.create_task(connections.accept(listener, lambda _: None, None))  # type: ignore[arg-type,return-value]
        await enough.wait()
        accepting.cancel()
    assert told[:5] == ["accept-failed"] * 5
    assert len(lines) == 1
