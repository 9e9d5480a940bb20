"""How many writes the API server gets from us at a time, and which go first.

A gang of 1,000 members is 1,000 nominations and as many events; an eviction, or the record that
has to be there before it, must not wait behind them. Reads are not counted: there is one watch a
resource, and what else is read has bounds of its own. The lease is not either: a term must not
end because there is much to do.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from enum import IntEnum
from itertools import count
from typing import TypeVar

from extender.kube.api_errors import Unavailable
from extender.settings.settings import ApiSettings

REQUEST_SECONDS = 15.0
"""How long one request may take: the Eviction API tries by itself for some ten seconds."""
Answer = TypeVar("Answer")


class Urgency(IntEnum):
    """What goes first, most urgent first."""

    ACT = 0
    """Evictions, marks, records."""
    HINT = 1
    """Events, nominations, wake-ups, reviews of tokens: nothing else waits for them."""


_urgency: ContextVar[Urgency] = ContextVar("urgency", default=Urgency.ACT)


class _Once:
    """A request that must not leave twice, nor when it is not wanted any more."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.wanted = wanted
        self.left = False


_once: ContextVar[_Once | None] = ContextVar("once", default=None)


class CalledOff(Exception):  # noqa: N818 - what has happened, not a fault of this call
    """A request was not wanted any more when its turn came; it was not sent."""


async def answered(request: Awaitable[Answer], seconds: float = REQUEST_SECONDS) -> Answer:
    """Wait for an answer, not for ever. Raises Unavailable when it does not come in time."""
    try:
        async with asyncio.timeout(seconds):
            return await request
    except TimeoutError:
        raise Unavailable(0, "Timeout", f"no answer within {seconds:g} s") from None


@contextmanager
def hint() -> Iterator[None]:
    """Send what is written inside as a hint."""
    token = _urgency.set(Urgency.HINT)
    try:
        yield
    finally:
        _urgency.reset(token)


@contextmanager
def while_wanted(wanted: Callable[[], bool]) -> Iterator[None]:
    """Ask ``wanted()`` when the turn of the request sent inside has come, and again when it has a
    connection. It leaves once at most. Raises CalledOff."""
    token = _once.set(_Once(wanted))
    try:
        yield
    finally:
        _once.reset(token)


def still_wanted() -> None:
    """Raise CalledOff when whoever sends the request that this is asked for does not want it."""
    once = _once.get()
    if once is not None and not once.wanted():
        raise CalledOff


def leaves() -> None:
    """Note that a request leaves now. Raises CalledOff, or Unavailable when it has left before.

    An HTTP client sends a DELETE again when its connection is lost. The second answer, 404,
    would tell that the pod has gone, and hide by whose hand.
    """
    still_wanted()
    once = _once.get()
    if once is not None:
        if once.left:
            raise Unavailable(0, "ConnectionBroken", "the connection was lost before an answer")
        once.left = True


class Gate:
    """Lets writes through; one event loop only.

    Hints get half of the connections at most. Up to one second's worth of requests may go at
    once after a pause.
    """

    def __init__(self, settings: ApiSettings) -> None:
        self._free = {
            Urgency.ACT: settings.connections,
            Urgency.HINT: settings.connections // 2,
        }
        self._per_second = settings.requests_per_second
        self._tokens = settings.requests_per_second
        self._filled = 0.0
        self._waiting: list[tuple[Urgency, int, asyncio.Future[None]]] = []
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def place(self, method: str, path: str) -> AsyncIterator[None]:
        """Hold a place for one request. Raises CalledOff when it is not wanted any more."""
        if method == "GET" or "/leases" in path:
            yield
            return
        urgency = _urgency.get()
        await self._enter(urgency)
        try:
            still_wanted()
            yield
        finally:
            self._leave(urgency)

    def waiting(self) -> Mapping[str, float]:
        """Return how many requests wait for a place, by urgency."""
        counts = {urgency.name.lower(): 0.0 for urgency in Urgency}
        for urgency, _, future in self._waiting:
            counts[urgency.name.lower()] += not future.done()
        return counts

    async def _enter(self, urgency: Urgency) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (urgency, next(self._order), future))
        self._admit()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave(urgency)
            raise

    def _leave(self, urgency: Urgency) -> None:
        self._free[Urgency.ACT] += 1
        if urgency is Urgency.HINT:
            self._free[Urgency.HINT] += 1
        self._admit()

    def _admit(self) -> None:
        """Let through whoever may go, the most urgent first."""
        while self._waiting:
            urgency, _, future = self._waiting[0]
            if not future.done():
                if not (self._free[Urgency.ACT] and self._free[urgency]) or not self._token():
                    return
                self._free[Urgency.ACT] -= 1
                if urgency is Urgency.HINT:
                    self._free[Urgency.HINT] -= 1
                future.set_result(None)
            heapq.heappop(self._waiting)

    def _token(self) -> bool:
        """Take one request of this second's; else see to it that the next one is noticed."""
        if not self._per_second:
            return True
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._tokens += (now - self._filled) * self._per_second
        self._tokens = min(self._tokens, self._per_second)
        self._filled = now
        if self._tokens >= 1:
            self._tokens -= 1
            return True
        if self._timer is None:
            self._timer = loop.call_later((1 - self._tokens) / self._per_second, self._tick)
        return False

    def _tick(self) -> None:
        self._timer = None
        self._admit()
