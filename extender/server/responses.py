"""Plain answers of an ASGI application, and reading a body with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http import HTTPStatus
from typing import Any

import msgspec

from extender.model.errors import InvalidInput
from extender.server.limits import ByteBudget

AsgiMessage = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
TEXT = b"text/plain; charset=utf-8"
CLOSE = (b"connection", b"close")
HOLDING = "holding"
"""Key in a scope's state: to be called with whether the answer waits for other callers now."""
LATE = "late"
"""Key in a scope's state: the body has not come in time."""
BROKEN = "broken"
"""Key in a scope's state: why no more of the body can be read."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that the caller sees the refusal."""


class BodyTooLarge(Exception):  # noqa: N818 - reads as the condition it is
    """The body exceeds the limit; not all of it has been read."""


class BodyTooLate(Exception):  # noqa: N818 - reads as the condition it is
    """The body did not come in time."""


class Disconnected(Exception):  # noqa: N818 - reads as the condition it is
    """The caller went away before its question was complete."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of that (lower-case) name."""
    headers: Headers = scope["headers"]
    for key, value in headers:
        if key == name:
            return value
    return None


class Body:
    """Reads one body, and holds its bytes in the budget until ``release``.

    Whoever looks after the connection says that it takes too long, by LATE in the scope's state:
    a timer for each call would cost more than the reading.
    """

    def __init__(self, budget: ByteBudget, limit: int) -> None:
        self._budget = budget
        self._limit = limit
        self._held = 0

    async def read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the whole body.

        Raises BodyTooLarge beyond the limit, BodyTooLate when it does not come in time,
        BudgetSpent when too much is held already, Disconnected when the caller goes away,
        InvalidInput when what comes is no body. A Content-Length beyond the limit is refused before
        anything is read; a body without one is counted as it comes.
        """
        declared = header(scope, b"content-length")
        if declared is not None and int(declared) > self._limit:
            raise BodyTooLarge
        chunks: list[bytes] = []
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            chunk: bytes = message.get("body", b"")
            size = self._held + len(chunk)
            if size > self._limit:
                raise BodyTooLarge
            self._budget.take(len(chunk), size)
            self._held = size
            chunks.append(chunk)
            if not message.get("more_body", False):
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)
            if BROKEN in scope["state"]:
                raise InvalidInput(scope["state"][BROKEN], "body")
            if LATE in scope["state"]:
                raise BodyTooLate

    def release(self) -> None:
        """Hold nothing any more."""
        self._budget.give(self._held)
        self._held = 0


async def respond(
    send: Send,
    status: int,
    body: bytes,
    content_type: bytes = JSON,
    headers: Headers = (),
    *,
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


async def method_not_allowed(send: Send, allowed: str, headers: Headers) -> None:
    """Say which method is served."""
    body = error_body(f"only {allowed} is served here", "method")
    await respond(send, 405, body, headers=[*headers, (b"allow", allowed.encode())])


async def respond_unread(
    receive: Receive,
    send: Send,
    status: int,
    answer: bytes,
    headers: Headers,
    content_type: bytes = JSON,
) -> None:
    """Answer a request whose body is not wanted, and read on for a while."""
    await respond(send, status, answer, content_type, headers, more=True)
    await _discard(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    """Read on for a while.

    Closing with unread data makes the kernel reset the connection, and the
    caller loses the answer that is already on its way.
    """
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            more = True
            while more:
                more = (await receive()).get("more_body", False)
    except TimeoutError:
        return


def error_body(message: str, where: str = "", **more: object) -> bytes:
    """Return the JSON every error answer has: what is wrong, and where."""
    return msgspec.json.encode({"error": message, "where": where, **more})


def raw_answer(status: int, message: str) -> bytes:
    """Return a whole HTTP/1.1 answer, for where there is no application to give one."""
    body = error_body(message)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
        f"content-type: {JSON.decode()}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
