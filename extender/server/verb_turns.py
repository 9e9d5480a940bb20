"""How many calls are worked on before everything else gets its turn.

A question with 5,000 names keeps the interpreter for a millisecond or two. With 200 callers at
once, all of them in one round of the event loop, a watch event or a probe would wait for half a
second in every round it needs, and a new connection needs several.
"""

from __future__ import annotations

import asyncio
from collections import deque

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
