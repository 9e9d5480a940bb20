"""HTTP/2 frames by hand: what no gRPC client would send."""

from __future__ import annotations

import asyncio
import struct
from types import TracebackType

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM, END_HEADERS = 1, 4
INITIAL_WINDOW_SIZE = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream)
    return head + payload


def headers(path: str, *more: tuple[str, str]) -> bytes:
    """A header block without compression."""
    fields = (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    )
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)


def _text(value: str) -> bytes:
    data = value.encode()
    size = len(data)
    if size < 127:
        return bytes((size,)) + data
    found, rest = bytearray((127,)), size - 127
    while rest >= 128:
        found.append(rest % 128 + 128)
        rest //= 128
    found.append(rest)
    return bytes(found) + data


def message(body: bytes, announced: int | None = None) -> bytes:
    """A message with its prefix; ``announced`` bytes are promised."""
    return b"\0" + struct.pack(">I", len(body) if announced is None else announced) + body


class Raw:
    """A connection that says what it is told to."""

    def __init__(self, port: int, *, window: int = 65535) -> None:
        self._port = port
        self._window = window
        self._stream = -1

    async def __aenter__(self) -> Raw:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self._port)
        settings = struct.pack(">HI", INITIAL_WINDOW_SIZE, self._window)
        self.writer.write(PREFACE + frame(SETTINGS, 0, 0, settings))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.writer.close()

    def call(self, path: str, *more: tuple[str, str]) -> int:
        """Begin a call; return its stream."""
        self._stream += 2
        self.writer.write(frame(HEADERS, END_HEADERS, self._stream, headers(path, *more)))
        return self._stream

    def data(self, stream: int, body: bytes, *, end: bool = False) -> None:
        """Send a piece of a body of at most 16 KiB."""
        self.writer.write(frame(DATA, END_STREAM if end else 0, stream, body))

    async def until(self, wanted: bytes) -> bytes:
        """Return what comes, up to and with ``wanted``."""
        async with asyncio.timeout(60):
            return await self.reader.readuntil(wanted)

    async def closed(self) -> None:
        """Wait until the other side has closed."""
        async with asyncio.timeout(60):
            try:
                while await self.reader.read(65536):
                    pass
            except ConnectionError:
                return
