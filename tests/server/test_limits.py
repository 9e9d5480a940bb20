"""What one connection can make the server hold, and for how long. Over real sockets.

See docs/security.md, row 8.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import aiohttp
import pytest

from extender.server import limits
from tests.server.callers import HEAD, QUESTION, SHORT, answer, connect, refused, works
from tests.server.doubles import Gate, Running, running
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
