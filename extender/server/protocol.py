"""uvicorn's HTTP/1.1 with limits on what a caller can make it hold.

What uvicorn has no limit for: the size of a head (its parser joins the pieces of one header again
and again, at a cost that grows with the square of the length), trailers and chunk extensions, the
number of requests sent ahead. How long each part may take is looked after in ``connections``.
"""

from __future__ import annotations

import asyncio
from functools import partial
from math import inf
from time import time as wall_clock
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from extender.server.certificates import end_of, names_of
from extender.server.connections import Connections, Phase, Place
from extender.server.responses import BROKEN, HOLDING, LATE, raw_answer

MAX_AHEAD = 16
"""Requests that may wait on one connection for the answer to an earlier one."""
FRAMING = 1
"""Bytes of chunk framing allowed for each byte of a body, beyond the size of a head: each chunk
costs several calls, and five bytes of framing."""


LINGER_SECONDS = 1.0
"""How long a caller may go on sending after it was refused."""


class _Refused(Exception):  # noqa: N818 - leaves the parser, and is never seen outside
    """Parsing is broken off; what to answer is noted."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection. ``place`` is kept up to date for whoever looks after it."""

    def __init__(
        self,
        config: Config,
        state: ServerState,
        connections: Connections,
        place: Place,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(config, state, {}, loop)
        self._held = connections
        self._place = place
        self._refusal: tuple[int, str] | None = None
        self._answering: RequestResponseCycle | None = None
        self._over = False
        """Nothing that comes is read any more."""
        self._message = 0
        self._head = 0
        """Bytes of the head that is coming."""
        self._framing = 0
        """Bytes of the present message beyond head and body."""
        self._body = 0
        self._end = inf
        """When the caller's certificate ends; connections are kept for days."""
        self._pieces: list[bytes] = []
        """Of the present body, from what is being fed."""

    # -- the connection -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take over after the handshake."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        self._end = end_of(certificate)
        place = self._place
        self.app_state = {
            "names": names_of(certificate),
            "expired": False,
            HOLDING: partial(self._held.holding, place),
        }
        place.connection = self
        place.phase, place.since = Phase.IDLE, self.loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        """Give the place back."""
        self._held.closed(self._place)
        self._forget_answers()
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def is_closing(self) -> bool:
        """Whether it is on its way out."""
        return self.transport.is_closing()

    def late(self) -> None:
        """The head of a request did not come in time."""
        self._refuse(408, f"no complete head within {self._held.limits.head_seconds:g} s")

    def body_late(self) -> None:
        """The body of a request did not come in time."""
        self.scope["state"][LATE] = True
        self.cycle.message_event.set()

    def cut(self) -> None:
        """Close at once."""
        self._over = True
        self._forget_answers()
        self.transport.abort()

    def _forget_answers(self) -> None:
        """Nobody is there to answer.

        uvicorn tells the newest request alone; with several sent ahead, the one that is being
        answered would write to a closed connection.
        """
        for cycle in (self._answering, *(waiting for waiting, _ in self.pipeline)):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self.pipeline.clear()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def pause_writing(self) -> None:
        """The caller does not read."""
        super().pause_writing()
        self._place.stalled = self.loop.time()

    def resume_writing(self) -> None:
        """The caller reads again."""
        super().resume_writing()
        self._place.stalled = None

    def on_response_complete(self) -> None:
        """An answer is out; there may be a request that waits, or the connection goes."""
        super().on_response_complete()
        place = self._place
        if place.phase is Phase.ANSWER and not self._busy():
            place.phase, place.since = Phase.IDLE, self.loop.time()

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: int, message: str) -> None:
        """Answer with an error and close; behind an answer under way, close alone.

        Where the application waits for the body, it says what is wrong.
        """
        if self._over or self.transport.is_closing():
            return
        self._over = True
        self._place.closing = self.loop.time()
        if self._busy():
            self.cycle.keep_alive = False
            self.flow.pause_reading()
            if self._place.phase is Phase.BODY:
                self.scope["state"][BROKEN] = message
                self.cycle.message_event.set()
            return
        self.transport.write(raw_answer(status, message))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        # What still comes is dropped for a while: closing with unread data makes the kernel reset
        # the connection, and the caller loses the answer that is on its way.
        self.loop.call_later(LINGER_SECONDS, self.transport.close)

    # -- what comes in --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Feed the parser, within the limits."""
        if self._over:
            return
        self._unset_keepalive_if_required()
        place = self._place
        before, message = place.phase, self._message
        if before is Phase.HEAD:
            self._head += len(data)
        elif before is Phase.BODY:
            self._framing += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # nothing is upgraded here: the request is answered as it is
        except httptools.HttpParserError as error:
            status, text = self._refusal or (400, f"no HTTP/1.1 request: {_reason(error)}")
            self._held.refused("head-size" if status == 431 else "no-http")
            self._refuse(status, text)
            return
        self._put_together()
        begun = self._message - message
        if place.phase is Phase.HEAD:
            if begun == 1 and before in (Phase.IDLE, Phase.ANSWER):
                self._head = len(data)
            if self._head > self._held.limits.header_bytes:
                self._held.refused("head-size")
                self._refuse(431, self._too_large())
                return
        if self._framing > self._held.limits.header_bytes + FRAMING * self._body:
            self._held.refused("framing")
            self._refuse(400, "more bytes of chunk framing than of content")
            return
        if begun or place.phase is not before:
            place.since = self.loop.time()

    def _too_large(self) -> str:
        return f"request line and headers exceed {self._held.limits.header_bytes} bytes"

    def send_400_response(self, msg: str) -> None:
        """Refuse as JSON, like every other refusal."""
        self._refuse(400, msg)

    # -- what the parser finds ------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A request begins."""
        if wall_clock() > self._end:
            self.app_state = {"names": frozenset(), "expired": True}
        super().on_message_begin()
        self._message += 1
        self._head = self._framing = self._body = 0
        self._place.phase = Phase.HEAD

    def on_headers_complete(self) -> None:
        """Start answering, unless the head is too large or too many requests wait."""
        size = len(self.url) + sum([len(name) + len(value) + 4 for name, value in self.headers])
        if size > self._held.limits.header_bytes:
            self._refusal = 431, self._too_large()
            raise _Refused
        if wrong := _ambiguous(self.headers):
            self._refusal = 400, wrong
            raise _Refused
        if len(self.pipeline) >= MAX_AHEAD:
            self._refusal = 429, f"more than {MAX_AHEAD} requests are waiting on this connection"
            raise _Refused
        self._place.phase = Phase.BODY
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body; they are put together once: uvicorn copies all for each."""
        self._body += len(body)
        self._framing -= len(body)
        self._pieces.append(body)

    def _put_together(self) -> None:
        if self._pieces:
            pieces, self._pieces = self._pieces, []
            super().on_body(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def on_message_complete(self) -> None:
        """The request is there as a whole."""
        self._put_together()
        place = self._place
        place.phase = Phase.ANSWER if self._busy() else Phase.IDLE
        self._framing = 0
        super().on_message_complete()


def _ambiguous(headers: list[tuple[bytes, bytes]]) -> str:
    """Return why two readers may differ on where a request ends or whom it is for, "" if not.

    RFC 9112, 3.2 and 6.3. The parser sees such a Transfer-Encoding only when the request has been
    begun, and takes any number of hosts.
    """
    if len([name for name, _ in headers if name == b"host"]) > 1:
        return "more than one Host"
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings and (len(codings) > 1 or codings[0].strip().lower() != b"chunked"):
        return "Transfer-Encoding must be chunked, and given once"
    return ""


def _reason(error: Exception) -> str:
    """Return the parser's words, without anything of the input."""
    text: Any = error.args[0] if error.args else ""
    return text[:200] if isinstance(text, str) and text.isprintable() else type(error).__name__
