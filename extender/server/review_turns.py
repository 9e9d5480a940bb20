"""Whose token is reviewed next: known callers first, strangers by turns.

Anybody who reaches a port can invent tokens, and each costs a request to the API server. So each
stranger has one review at a time, all of them together leave KEPT_FREE of the places to tokens
that were good before, and who waits too much is refused. A stranger is a network address, not a
connection: connections cost nothing.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

KEPT_FREE = 1
"""Places that first-seen tokens do not take."""
MOST_OF_ONE = 32
"""Reviews of one caller that wait."""
MOST_WAITING = 256
IPV6_NETWORK = 64
"""Bits that tell IPv6 callers apart: whoever has one address there has them all."""


class TooManyReviews(Exception):  # noqa: N818 - reads as the condition it is
    """Too many wait already."""


class ReviewTurns:
    """At most ``at_once`` at the same time. One event loop only."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._busy: dict[Hashable, bool] = {}
        """Callers whose turn it is, and whether they are known."""
        self._waiting: dict[bool, dict[Hashable, deque[asyncio.Future[None]]]] = {
            True: {},
            False: {},
        }
        """Known and others -> caller -> in order; callers in the order of their turns."""

    @property
    def idle(self) -> bool:
        """Whether nothing runs and nobody waits."""
        return not (self._busy or any(self._waiting.values()))

    @asynccontextmanager
    async def turn(self, caller: Hashable, *, known: bool) -> AsyncIterator[None]:
        """Hold a place for the length of a block. Raises TooManyReviews when too many wait."""
        if self._free(caller, known=known):
            self._busy[caller] = known
        else:
            await self._wait(caller, known=known)
        try:
            yield
        finally:
            del self._busy[caller]
            self._next()

    def _free(self, caller: Hashable, *, known: bool) -> bool:
        if caller in self._busy or len(self._busy) >= self._at_once:
            return False
        strangers = sum(not each for each in self._busy.values())
        return known or strangers < self._at_once - KEPT_FREE

    async def _wait(self, caller: Hashable, *, known: bool) -> None:
        lines = self._waiting[known]
        line = lines.get(caller, ())
        if len(line) >= MOST_OF_ONE:
            raise TooManyReviews
        if sum(map(len, lines.values())) >= MOST_WAITING:
            longest = max(lines.values(), key=len)
            if len(longest) <= len(line) + 1:
                raise TooManyReviews
            last = longest.pop()
            if not last.done():  # else its caller has just left
                last.set_exception(TooManyReviews())
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lines.setdefault(caller, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled() and future.exception() is None:
                del self._busy[caller]  # it was let in at the very moment
                self._next()
            raise
        finally:
            self._forget(caller, known=known, future=future)

    def _forget(self, caller: Hashable, *, known: bool, future: asyncio.Future[None]) -> None:
        line = self._waiting[known].get(caller)
        if line is not None and future in line:
            line.remove(future)
        if line is not None and not line:
            del self._waiting[known][caller]

    def _next(self) -> None:
        """Let in whoever can be, each caller once before the first has another turn."""
        for known, lines in self._waiting.items():
            for caller in list(lines):
                line = lines[caller]
                while line and line[0].done():
                    line.popleft()
                if not line or not self._free(caller, known=known):
                    continue
                self._busy[caller] = known
                line.popleft().set_result(None)
                del lines[caller]
                if line:
                    lines[caller] = line


def network_of(peer: str) -> str:
    """Return by what a caller at an address is told from others: it, or its network."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((int(address), IPV6_NETWORK), strict=False))
    return str(address)
