"""How many bytes of bodies are held at the same time."""

from __future__ import annotations

import asyncio
from collections import deque

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
