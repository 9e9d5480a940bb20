"""Server-sent events: pages that are open are told that there is something new to fetch.

What is sent is the same few bytes for everybody; the pages themselves are fetched as always, so
that one rendering serves all who look at the same. One task follows the cluster, and only while
somebody listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from extender.console.board import Board
from extender.console.worker import TooManyRenderings
from extender.server.responses import Headers, Send

MOST_LISTENERS = 32
LOOK_SECONDS = 1.0
HEARTBEAT_SECONDS = 15.0
RETRY = b"retry: 3000\n\n"
log = structlog.get_logger("console")


class Events:
    """Whoever listens. One event loop."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._listeners: set[asyncio.Event] = set()
        self._following: asyncio.Task[None] | None = None
        self._version = 0
        self._ended = False

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def full(self) -> bool:
        """Whether nobody more is let in."""
        return len(self._listeners) >= MOST_LISTENERS or self._ended

    async def tell(self, send: Send, headers: Headers, gone: Callable[[], Awaitable[None]]) -> None:
        """Tell one listener of every new picture, until it has left or the process stops."""
        woken = asyncio.Event()
        if self._version:
            woken.set()  # it may have changed since the page was made
        self._listeners.add(woken)
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        leaving = asyncio.ensure_future(gone())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(headers)})
            await send({"type": "http.response.body", "body": RETRY, "more_body": True})
            while not self._ended and not leaving.done():
                waking = asyncio.ensure_future(woken.wait())
                await asyncio.wait(
                    (waking, leaving),
                    timeout=HEARTBEAT_SECONDS,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                waking.cancel()
                if leaving.done() or self._ended:
                    break
                news = woken.is_set()
                woken.clear()
                # Returns when the caller has room for it; the others are told meanwhile.
                body = b"event: news\ndata: %d\n\n" % self._version if news else b": still here\n\n"
                await send({"type": "http.response.body", "body": body, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()
            self._listeners.discard(woken)
            if not self._listeners and self._following is not None:
                self._following.cancel()
                self._following = None
            with contextlib.suppress(asyncio.CancelledError):
                await leaving

    async def _follow(self) -> None:
        while True:
            try:
                picture = await self._board.picture()
            except TooManyRenderings:
                pass
            except Exception:
                log.exception("the cluster cannot be followed for the page")
            else:
                if picture.version != self._version:
                    self._version = picture.version
                    for woken in self._listeners:
                        woken.set()
            await asyncio.sleep(LOOK_SECONDS)

    def stop(self) -> None:
        """End what is open, and let nobody in any more."""
        self._ended = True
        for woken in self._listeners:
            woken.set()
