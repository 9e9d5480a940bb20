"""Floods of what is allowed by itself: are others still answered, and is memory bounded?

    python -m tests.fuzz.floods --seconds 4

A server with doubles of the verbs, in a process of its own, with the default limits; a few
connections of a kind send as fast as they can, while another caller asks: /livez on the health
listener under floods over HTTP, Filter under those over gRPC. Loopback only; told are how long the
other caller waited, how many of its calls failed, and by how much the server grew. For people to
look at: a machine that is busy otherwise makes all of it slower.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import struct
import sys
import time
from collections.abc import Callable, Coroutine
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import uvloop

from extender.server.logs import configure_logs
from extender.settings.settings import ServerSettings, Settings
from tests.grpc_api.frames import END_HEADERS, HEADERS, SETTINGS, Raw, frame, headers
from tests.grpc_api.site import LOCAL, calling, serving
from tests.grpc_api.test_calls import FILTER
from tests.grpc_api.test_limits import QUESTION
from tests.server.doubles import Echo, running
from tests.wire.documents import dump, filter_by_name

CONNECTIONS = 4
PAUSE_SECONDS = 0.05
HEAD = b"POST /filter HTTP/1.1\r\nHost: x\r\n"
GET = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
SMALL = dump(filter_by_name(["n1"]))
HTTP_FLOODS: dict[str, tuple[bytes, bytes]] = {
    "chunks of a byte": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n" * 10_000),
    "chunks of 8 bytes": (
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n",
        b"8\r\n        \r\n" * 10_000,
    ),
    "bodies sent ahead": (b"", HEAD + b"Content-Length: 60000\r\n\r\n" + b" " * 60_000),
    "requests sent ahead": (b"", (GET + b"\r\n") * 1000),
    "100-continue": (
        b"",
        HEAD + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(SMALL) + SMALL,
    ),
    "upgrades": (b"", (GET + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n") * 100),
    "blank lines": (b"", b"\r\n" * 5000),
}
"""What a connection begins with, and what it goes on with."""


def _opened(number: int, more: bytes) -> bytes:
    return frame(HEADERS, END_HEADERS, 1, headers(FILTER)) if not number else more


GRPC_FLOODS: dict[str, Callable[[int], bytes]] = {
    "calls and resets": lambda n: (
        frame(HEADERS, END_HEADERS, 2 * n + 1, headers(FILTER))
        + frame(3, 0, 2 * n + 1, struct.pack(">I", 8))
    ),
    "pings": lambda n: frame(6, 0, 0, b"12345678"),
    "settings": lambda n: frame(SETTINGS, 0, 0, struct.pack(">HI", 4, 65535)),
    "window updates": lambda n: frame(8, 0, 0, struct.pack(">I", 1)),
    "headers without end": lambda n: (
        frame(9, 0, 1, b"\0\x01a\x7f\x81\x01" + b"x" * 256)
        if n
        else frame(HEADERS, 0, 1, headers(FILTER))
    ),
    "empty data": lambda n: _opened(n, frame(0, 0, 1)),
    "frames of no kind": lambda n: frame(0x77, 0, 0, b"x" * 8000),
    "priorities": lambda n: frame(2, 0, 2 * n + 1, b"\0\0\0\0\x10"),
}
"""The number of a frame on its connection -> the frame."""


def serve(pipe: Connection) -> None:
    """Serve until the pipe says stop; send (HTTP port, health port, gRPC target)."""

    async def both() -> None:
        settings = ServerSettings(port=0, health_port=0)
        async with (
            running(settings) as http,
            serving(Echo(), Settings(server=settings, grpc=LOCAL)) as site,
        ):
            pipe.send((http.server.port, http.server.health_port, site.target))
            await asyncio.to_thread(pipe.recv)

    configure_logs("error")
    uvloop.run(both())


def resident(pid: int | None) -> int:
    """Return a process's memory in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4 // 1024


async def livez(port: int) -> None:
    """Ask on a new connection. Raises when it is no 200."""
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(repr(answer[:100]))


async def over_http(port: int, first: bytes, more: bytes, end: float) -> None:
    """Flood on one connection after the other."""
    while time.monotonic() < end:
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(first)
            await _flood(reader, writer, lambda: more, end)


async def over_grpc(port: int, make: Callable[[int], bytes], end: float) -> None:
    """The same with frames."""
    while time.monotonic() < end:
        with contextlib.suppress(OSError, TimeoutError):
            async with Raw(port) as raw:
                sent = 0

                def more() -> bytes:
                    nonlocal sent
                    sent += 50
                    return b"".join(make(n) for n in range(sent - 50, sent))

                await _flood(raw.reader, raw.writer, more, end)


async def _flood(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    more: Callable[[], bytes],
    end: float,
) -> None:
    async def read() -> None:
        with contextlib.suppress(OSError):
            while await reader.read(1 << 16):
                pass

    reading = asyncio.create_task(read())
    try:
        while time.monotonic() < end and not reading.done():
            writer.write(more())
            await asyncio.wait_for(writer.drain(), 3)
    finally:
        reading.cancel()
        writer.transport.abort()


async def watch(
    name: str,
    pid: int | None,
    floods: list[Coroutine[Any, Any, None]],
    ask: Callable[[], Coroutine[Any, Any, object]],
    end: float,
) -> None:
    """Ask beside the floods, and tell how it went."""
    tasks = [asyncio.create_task(flood) for flood in floods]
    before = most = resident(pid)
    times: list[float] = []
    failed = 0
    while time.monotonic() < end:
        began = time.perf_counter()
        try:
            await ask()
        except (OSError, TimeoutError, grpc.aio.AioRpcError):
            failed += 1
        times.append((time.perf_counter() - began) * 1000)
        most = max(most, resident(pid))
        await asyncio.sleep(PAUSE_SECONDS)
    await asyncio.gather(*tasks)
    times.sort()
    print(
        f"| {name} | {len(times)} | {failed} | {times[len(times) // 2]:.0f} | {times[-1]:.0f} "
        f"| {most - before} |",
        flush=True,
    )


async def run(seconds: float) -> None:
    """Play every flood, one after the other."""
    spawn = get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=serve, args=(theirs,))
    process.start()
    port, health, target = await asyncio.to_thread(ours.recv)
    grpc_port = int(target.rpartition(":")[2])
    print("| flood | asked | failed | p50 ms | largest ms | MiB more |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    try:
        for name, (first, more) in HTTP_FLOODS.items():
            end = time.monotonic() + seconds
            floods = [over_http(port, first, more, end) for _ in range(CONNECTIONS)]
            await watch(f"HTTP: {name}", process.pid, floods, lambda: livez(health), end)
        async with calling(target) as callers:
            for name, make in GRPC_FLOODS.items():
                end = time.monotonic() + seconds
                floods = [over_grpc(grpc_port, make, end) for _ in range(CONNECTIONS)]

                async def ask() -> None:
                    await callers.extender.Filter(QUESTION, timeout=30)

                await watch(f"gRPC: {name}", process.pid, floods, ask, end)
    finally:
        ours.send("stop")
        process.join(15)


def main(arguments: list[str]) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each flood")
    asyncio.run(run(parser.parse_args(arguments).seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
