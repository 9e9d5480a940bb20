"""What callers can make the server hold, and for how long. Over real sockets.

See docs/security.md, row 8.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import socket
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import pytest
import structlog
from msgspec.structs import replace

from extender.server import limits
from extender.server.connections import Connections, ListenerLimits
from extender.server.diagnostics import MADE
from extender.settings.settings import ServerSettings
from tests.server.callers import HEAD, QUESTION, SHORT, Streams, answer, connect, refused, works
from tests.server.doubles import Gate, Row, Running, running
from tests.server.test_tls import Files, status, trusting
from tests.wire.documents import dump, filter_by_name


@pytest.fixture
async def site() -> AsyncIterator[Running]:
    async with running(SHORT) as one:
        yield one


class TestHead:
    @pytest.mark.parametrize(
        "start", [b"GET /livez HTTP/1.1\r\nX-Long: ", b"GET /", b"GET /livez HTTP/1.1\r\nX"]
    )
    async def test_an_endless_one(self, site: Running, start: bytes) -> None:
        """The parser must not be fed it: the time to join its pieces grows with their square."""
        reader, writer = await connect(site)
        writer.write(start)
        sent = 0
        with contextlib.suppress(ConnectionError):
            while sent < 1 << 26 and not reader.at_eof():
                writer.write(b"a" * 65536)
                await writer.drain()
                sent += 65536
                if reader._buffer:  # type: ignore[attr-defined]
                    break
        assert sent < 1 << 26
        assert (await reader.readline()).startswith(b"HTTP/1.1 431")
        writer.close()
        await refused(site, "head-size")
        await works(site)

    @pytest.mark.parametrize("headers", [[b"x: " + b"a" * 17_000], [b"x: 1"] * 4000])
    async def test_a_large_one_in_one_piece(self, site: Running, headers: list[bytes]) -> None:
        reader, writer = await connect(site)
        writer.write(b"GET /livez HTTP/1.1\r\n" + b"\r\n".join(headers) + b"\r\n\r\n")
        status, document = await answer(reader)
        assert (status, "16384" in document["error"]) == (431, True)
        writer.close()

    async def test_one_within_the_limit_in_small_pieces(self, site: Running) -> None:
        reader, writer = await connect(site)
        for piece in (HEAD, b"x: " + b"a" * 15_000, b"\r\nContent-Le", b"ngth: 2\r\n\r\n{", b"}"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.005)
        assert (await reader.readline()).startswith(b"HTTP/1.1 400"), "read, and no question"
        writer.close()

    @pytest.mark.parametrize("start", [b"P", HEAD, HEAD + b"Content-Length: 5\r\n"])
    async def test_one_that_does_not_come(self, site: Running, start: bytes) -> None:
        reader, writer = await connect(site)
        writer.write(start)
        status, document = await answer(reader)
        assert (status, "head" in document["error"]) == (408, True)
        writer.close()
        await refused(site, "head-late")

    async def test_one_that_does_not_come_after_an_answered_call(self, site: Running) -> None:
        reader, writer = await connect(site)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok")
        writer.write(b"GET /li")
        assert (await answer(reader))[0] == 408
        writer.close()

    async def test_an_idle_connection_is_kept(self, site: Running) -> None:
        """Go's client opens connections ahead, and must find them open when it asks."""
        fresh, used = await connect(site), await connect(site)
        used[1].write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        await used[0].readuntil(b"ok")
        late = await connect(site)
        late[1].write(b"x")
        await answer(late[0])  # several rounds of looking after
        for reader, writer in (fresh, used):
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
            writer.close()
        late[1].close()


class TestBody:
    async def test_one_that_does_not_come(self, site: Running) -> None:
        reader, writer = await connect(site)
        writer.write(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        status, document = await answer(reader)
        assert (status, document["where"]) == (408, "body")
        writer.close()
        await refused(site, "body-late")
        assert site.server.app.budget.held == 0

    async def test_one_that_nobody_wants_and_that_does_not_come(self, site: Running) -> None:
        reader, writer = await connect(site)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf")
        await reader.readuntil(b"ok")
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                while await reader.read(100):
                    pass
        writer.close()

    async def test_bytes_of_all_bodies_are_bounded(
        self, site: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "SMALL", 1024)
        callers = [await connect(site) for _ in range(8)]
        head = HEAD + b"Content-Length: 65000\r\n\r\n"
        for _, writer in callers:
            writer.write(head + b" " * 60_000)
            await writer.drain()
        held = site.server.app.budget
        found = await asyncio.gather(*(answer(reader) for reader, _ in callers))
        assert {status for status, _ in found} == {503, 408}
        assert held.held == 0
        await refused(site, "bytes")
        for _, writer in callers:
            writer.close()

    async def test_a_small_one_is_read_beside_huge_ones(
        self, site: Running, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(limits, "SMALL", 1024)
        app = site.server.app
        app.budget.held = app.budget.limit * 3 // 4  # by others
        async with aiohttp.ClientSession() as web:
            async with web.post(site.url("/filter"), data=b" " * 2000) as call:
                assert call.status == 503
                assert call.headers["connection"] == "close"
            async with web.post(site.url("/filter"), data=QUESTION) as call:
                assert call.status == 200
        app.budget.held = 0

    @pytest.mark.parametrize(
        "tail",
        [
            b"0\r\n" + b"x: 1\r\n" * 20_000,
            b"0\r\nx: " + b"a" * 200_000,
            b"1;" + b"e" * 200_000,
            b"1\r\n \r\n" * 50_000,
        ],
    )
    async def test_framing_without_content(self, site: Running, tail: bytes) -> None:
        reader, writer = await connect(site)
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n")
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(tail), 10_000):
                writer.write(tail[start : start + 10_000])
                await writer.drain()
                await asyncio.sleep(0)
        async with asyncio.timeout(60):
            with contextlib.suppress(ConnectionError):
                while await reader.read(1000):
                    pass
        writer.close()
        await refused(site, "framing")
        await works(site)


@pytest.mark.parametrize("size", [8, 100, 60_000])
async def test_a_body_in_small_chunks_is_put_together(size: int) -> None:
    """And once for all that came together: each piece alone costs a copy of what is there."""
    body = dump(filter_by_name([f"node-{i}" for i in range(3000)]))
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    async with running() as site:
        reader, writer = await connect(site)
        after = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        writer.write(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n" + after)
        async with asyncio.timeout(60):
            text = await reader.read()
        assert text.count(b"HTTP/1.1 200") == 2
        assert b"node-2999" in text
        writer.close()


async def test_an_answer_that_is_not_read(site: Running) -> None:
    site.source.pods = ["x" * 1000] * 60_000
    _, writer = await connect(site)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(b"GET /debug/snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await refused(site, "answer-not-read")
    await asyncio.wait_for(site.server.app.idle(), 60)
    writer.close()


async def test_requests_sent_ahead_are_few(site: Running) -> None:
    gate = Gate()
    site.verbs.hook = gate
    reader, writer = await connect(site)
    call = HEAD + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    writer.write(call + b"GET /livez HTTP/1.1\r\n\r\n" * 500)
    await gate.entered.wait()
    await refused(site, "no-http")
    gate.opened.set()
    text = await asyncio.wait_for(reader.read(), 60)
    assert text.startswith(b"HTTP/1.1 200"), "the call under way is answered"
    assert text.count(b"HTTP/1.1") <= 1 + 16
    writer.close()


async def test_a_caller_that_goes_away_with_requests_sent_ahead(
    site: Running, caplog: pytest.LogCaptureFixture
) -> None:
    """The one that is being answered must not write to a closed connection. Found by the fuzzer."""
    gate = Gate()
    site.verbs.hook = gate
    _, writer = await connect(site)
    call = HEAD + b"Content-Length: %d\r\n\r\n" % len(QUESTION) + QUESTION
    writer.write(call + b"GET /livez HTTP/1.1\r\n\r\n" * 3)
    await gate.entered.wait()
    writer.transport.abort()
    async with asyncio.timeout(60):
        while len(site.server.listeners[0].server_state.connections):
            await asyncio.sleep(0.005)
    gate.opened.set()
    await asyncio.wait_for(site.server.app.idle(), 60)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


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
