"""What all listeners share: bytes of bodies held, turns of verbs, and who is at work.

A question with 5,000 names keeps the interpreter for a millisecond or two. With 200 callers at
once, all of them in one round of the event loop, a watch event or a probe would wait for half a
second in every round it needs, and a new connection needs several.
"""

from __future__ import annotations

import asyncio
from collections import deque

from extender.settings.settings import ServerSettings

SMALL = 4 * 1024 * 1024
"""Bodies up to this size may use all of the budget, bigger ones three quarters of it: a few huge
ones must not keep kube-scheduler's own out (5,000 node names are 0.2 MiB)."""


class BudgetSpent(Exception):  # noqa: N818 - reads as the condition it is
    """There is no room for more of a body now."""


class ByteBudget:
    """Bytes that may be held; one event loop only."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def take(self, more: int, size: int) -> None:
        """Hold ``more`` bytes of a body that has ``size`` with them. Raises BudgetSpent."""
        if not self._fits(more, size):
            raise BudgetSpent
        self.held += more

    async def room(self, size: int) -> None:
        """Hold ``size`` bytes as soon as there is room for them, in the order of asking."""
        if not self._waiting and self._fits(size, size):
            self.held += size
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self.give(0)
            else:
                self.give(size)
            raise

    def give(self, size: int) -> None:
        """Hold so many bytes no longer."""
        self.held -= size
        while self._waiting:
            wanted, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(wanted, wanted):
                    return
                self.held += wanted
                turn.set_result(None)
            self._waiting.popleft()

    def _fits(self, more: int, size: int) -> bool:
        limit = self.limit if size <= SMALL else self.limit * 3 // 4
        return self.held + more <= limit


EACH_ROUND = 4


class VerbTurns:
    """Lets so many through in each round of the event loop, in the order they came."""

    def __init__(self, each: int = EACH_ROUND) -> None:
        self._each = each
        self._left = each
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._counting = False

    async def take(self) -> None:
        """Return when it is the caller's turn; at once while few want one."""
        loop = asyncio.get_running_loop()
        if not self._counting:
            self._counting = True
            loop.call_soon(self._next_round, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next_round(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = self._each
        while self._left and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # its caller may have gone away
                turn.set_result(None)
                self._left -= 1
        self._counting = bool(self._waiting)
        if self._counting:
            loop.call_soon(self._next_round, loop)


class Load:
    """One a process."""

    def __init__(self, settings: ServerSettings) -> None:
        self.budget = ByteBudget(settings.max_bytes_in_flight)
        self.turns = VerbTurns()
        self.working = 0
        """Requests that are being answered."""
