"""The sockets of one listener: counted from accept to close, bounded, and looked after.

uvicorn knows a connection only when its TLS handshake is over, and has no time limit for a
handshake, for a request's head, or for a caller that does not read. So connections are accepted
here, and one round a second closes what has taken too long. When all places are taken, the one
goes that has been of no use for longest: a flood of half-open connections turns itself over, and
a caller that asks at once is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from enum import Enum
from typing import Protocol

import structlog
from msgspec import Struct

from extender.server.logs import Seldom
from extender.server.responses import raw_answer
from extender.settings.settings import ServerSettings

SWEEP_SECONDS = 1.0
SHUTDOWN_SECONDS = 2.0
"""How long a TLS connection may take to say goodbye."""
BODY_SLACK_SECONDS = 2.0
"""The application answers when a body does not come in time, unless it has answered before."""
NO_FILES_SECONDS = 0.1
log = structlog.get_logger("server")


class Phase(Enum):
    """What a connection is doing."""

    HANDSHAKE = "handshake"
    IDLE = "idle"
    """Open, and nothing of a request has come."""
    HEAD = "head"
    BODY = "body"
    ANSWER = "answer"
    """The request is there; it is being answered."""


class ListenerLimits(Struct, frozen=True):
    """Of one listener; see ServerSettings for each."""

    connections: int
    header_bytes: int
    head_seconds: float
    body_seconds: float

    @classmethod
    def of(cls, settings: ServerSettings, connections: int) -> ListenerLimits:
        """Return what the settings say."""
        return cls(
            connections, settings.max_header_bytes, settings.head_seconds, settings.body_seconds
        )


class Connection(Protocol):
    """What is done with one connection after its handshake."""

    def is_closing(self) -> bool:
        """Whether it is on its way out."""

    def late(self) -> None:
        """The head of a request did not come in time: say so and close."""

    def body_late(self) -> None:
        """The body of a request did not come in time: let the application say so."""

    def cut(self) -> None:
        """Close at once, whatever is under way."""


class Place:
    """One accepted socket."""

    __slots__ = ("closing", "connection", "phase", "since", "socket", "stalled")

    def __init__(self, accepted: socket.socket, now: float) -> None:
        self.socket = accepted
        self.phase = Phase.HANDSHAKE
        self.since = now
        """Since when it is in this phase."""
        self.stalled: float | None = None
        """Since when the caller does not read its answer."""
        self.closing: float | None = None
        """Since when it is being closed."""
        self.connection: Connection | None = None

    def cut(self) -> None:
        """Close at once."""
        if self.connection is not None:
            self.connection.cut()
        else:
            # The transport owns the descriptor and sees the end of the stream.
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """Accepts, counts and closes. ``refused`` is told the reason of each that was not served."""

    def __init__(self, limits: ListenerLimits, refused: Callable[[str], None]) -> None:
        self.limits = limits
        self.refused = refused
        self._places: dict[Place, None] = {}
        self._holding: set[Place] = set()
        """Those whose answer waits for other callers: bounded by what is held, not counted."""
        self._opening: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._places)

    async def accept(
        self,
        listener: socket.socket,
        make: Callable[[Place], asyncio.Protocol],
        context: ssl.SSLContext | None,
    ) -> None:
        """Accept until cancelled."""
        loop = asyncio.get_running_loop()
        told = Seldom(loop.time)
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError as error:
                # No descriptor is left, or the caller has left already.
                self.refused("accept-failed")
                if told.due(error.errno):
                    log.warning("a connection cannot be accepted", error=str(error))
                await asyncio.sleep(NO_FILES_SECONDS)
                continue
            if self._room(loop.time()):
                place = Place(accepted, loop.time())
                self._places[place] = None
                task = loop.create_task(self._open(place, make, context))
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
            else:
                self._turn_away(accepted, encrypted=context is not None)

    async def _open(
        self,
        place: Place,
        make: Callable[[Place], asyncio.Protocol],
        context: ssl.SSLContext | None,
    ) -> None:
        seconds = self.limits.head_seconds
        times = {"ssl_handshake_timeout": seconds, "ssl_shutdown_timeout": SHUTDOWN_SECONDS}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: make(place), place.socket, ssl=context, **(times if context else {})
            )
        except (OSError, ssl.SSLError, TimeoutError) as error:
            self.refused("handshake")
            log.debug("handshake failed", error=str(error))
        finally:
            if place.connection is None:
                place.socket.close()
                self.closed(place)

    def closed(self, place: Place) -> None:
        """The socket is no more."""
        self._places.pop(place, None)
        self._holding.discard(place)

    def holding(self, place: Place, *, now: bool) -> None:
        """Note whether its answer waits for other callers."""
        if now and place in self._places:
            self._holding.add(place)
        else:
            self._holding.discard(place)

    def _room(self, now: float) -> bool:
        """Whether there is a place, perhaps by closing what is of no use."""
        if len(self._places) - len(self._holding) < self.limits.connections:
            return True
        useless = [place for place in self._places if _useless(place)]
        if not useless:
            return False
        # A handshake or a head that does not come is worth less than an idle caller.
        oldest = min(useless, key=lambda place: (place.phase is Phase.IDLE, place.since))
        self.refused("displaced")
        self.closed(oldest)
        oldest.cut()
        return True

    def _turn_away(self, accepted: socket.socket, *, encrypted: bool) -> None:
        self.refused("connections")
        with contextlib.suppress(OSError):
            if not encrypted:
                accepted.setblocking(False)  # noqa: FBT003 - takes no keyword
                accepted.send(raw_answer(503, "too many connections"))
        accepted.close()

    async def sweep(self) -> None:
        """Close what takes too long, once a second, until cancelled."""
        loop = asyncio.get_running_loop()
        pause = min(SWEEP_SECONDS, self.limits.head_seconds / 4, self.limits.body_seconds / 4)
        while True:
            await asyncio.sleep(pause)
            now = loop.time()
            for place in list(self._places):
                self._look(place, now)

    def _look(self, place: Place, now: float) -> None:
        limits = self.limits
        connection = place.connection
        if connection is None:
            return  # the handshake has a limit of its own
        if place.closing is None and connection.is_closing():
            place.closing = now
        if place.closing is not None:
            if now - place.closing > limits.body_seconds:
                place.cut()
        elif place.stalled is not None and now - place.stalled > limits.body_seconds:
            self.refused("answer-not-read")
            place.cut()
        elif place.phase is Phase.HEAD and now - place.since > limits.head_seconds:
            self.refused("head-late")
            connection.late()
        elif place.phase is Phase.BODY and now - place.since > limits.body_seconds:
            connection.body_late()
            if now - place.since > limits.body_seconds + BODY_SLACK_SECONDS:
                self.refused("body-unread")
                place.cut()

    async def close(self) -> None:
        """Wait for handshakes that are under way to end, having cut them."""
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)


def _useless(place: Place) -> bool:
    return place.phase in (Phase.HANDSHAKE, Phase.HEAD, Phase.IDLE) or place.closing is not None
