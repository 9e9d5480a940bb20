"""One GET over a connection that is there already, of a socket or a port that is forwarded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httptools

READ = 256 * 1024
MOST_BYTES = 2 * 1024**3
"""Of a body, far above any snapshot: one without an end would take all memory."""
LEAST_RATE = 4096
"""Bytes a second that an answer comes with at least, once it has had as long as nothing may come:
one that drips would have no end."""


class BadAnswer(Exception):  # noqa: N818 - reads as what has happened
    """What came is no complete HTTP answer."""


class _HttpAnswer:
    """Collects what the parser finds."""

    def __init__(self, received: Callable[[int], None]) -> None:
        self.body = bytearray()
        self.complete = False
        self._received = received

    def on_body(self, data: bytes) -> None:
        self.body += data
        self._received(len(self.body))

    def on_message_complete(self) -> None:
        self.complete = True


async def get(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    host: str,
    path: str,
    token: str,
    idle_seconds: float,
    received: Callable[[int], None] = lambda _: None,
) -> tuple[int, bytes]:
    """Return status and body; ``received`` is told the bytes so far, as they come.

    Raises BadAnswer, OSError, or TimeoutError when nothing came for ``idle_seconds``, or all the
    time so little that an answer of that rate would have no end.
    """
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Accept: application/json",
        "User-Agent: podgroup-extender",
        "Connection: close",
    ]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
    await asyncio.wait_for(writer.drain(), idle_seconds)
    answer = _HttpAnswer(received)
    parser: Any = httptools.HttpResponseParser(answer)
    clock = asyncio.get_running_loop().time
    end = clock() + idle_seconds
    while not answer.complete:
        left = min(idle_seconds, end - clock())
        data = await asyncio.wait_for(reader.read(READ), left)
        end += len(data) / LEAST_RATE
        if not data:
            raise BadAnswer("the connection ended before the answer was complete")
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise BadAnswer(f"the answer is no HTTP: {error}") from error
        if len(answer.body) > MOST_BYTES:
            raise BadAnswer(f"the answer is longer than {MOST_BYTES} bytes")
    status: int = parser.get_status_code()
    return status, bytes(answer.body)
