"""Plain answers of an ASGI application, and reading a body with a limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import msgspec

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
CLOSE = (b"connection", b"close")


class BodyTooLarge(Exception):  # noqa: N818 - reads as the condition it is
    """The body exceeds the limit; not all of it has been read."""


class Disconnected(Exception):  # noqa: N818 - reads as the condition it is
    """The caller went away before its question was complete."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of that (lower-case) name."""
    headers: Headers = scope["headers"]
    for key, value in headers:
        if key == name:
            return value
    return None


async def read_body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Return the whole body. Raises BodyTooLarge beyond ``limit`` bytes.

    A Content-Length beyond the limit is refused before anything is read; a body
    without one is counted as it comes.
    """
    declared = header(scope, b"content-length")
    if declared is not None and int(declared) > limit:
        raise BodyTooLarge
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            raise BodyTooLarge
        chunks.append(chunk)
        if not message.get("more_body", False):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = JSON,
    headers: Headers = (),
    more: bool = False,
) -> None:
    """Send one whole answer; ``more`` keeps the exchange open although all was sent."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [
                (b"content-type", content_type),
                (b"content-length", b"%d" % len(body)),
                *headers,
            ],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": more})


def error_body(message: str, where: str = "", **more: object) -> bytes:
    """Return the JSON every error answer has: what is wrong, and where."""
    return msgspec.json.encode({"error": message, "where": where, **more})
