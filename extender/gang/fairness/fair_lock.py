"""A lock whose waiters are let in by turns, not in the order in which they came."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from extender.gang.fairness.admission import Admission
from extender.gang.plan.fair_turns import Turn


class Late(Exception):  # noqa: N818 - what has happened, not a fault of the caller
    """The turn did not come in time."""


class FairLock:
    """One at a time. Those that wait are sorted whenever the lock comes free."""

    def __init__(self, admission: Admission) -> None:
        self._admission = admission
        self._held = False
        self._urgent: list[asyncio.Future[None]] = []
        self._waiting: list[tuple[Turn, asyncio.Future[None]]] = []

    def waiters(self) -> list[Turn]:
        """Return whose turn has not come yet."""
        return [turn for turn, _ in self._waiting]

    @asynccontextmanager
    async def turn(
        self, make: Callable[[], Turn] | None, seconds: float | None = None
    ) -> AsyncIterator[None]:
        """Hold the lock for the length of a block.

        ``make`` says whose turn it is, and is called only where somebody else has the lock;
        None: before everybody else, for what is under way already. ``seconds``: how long to wait
        for the turn at most, None = without a limit. Raises Late after that.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._acquire(make)
        except TimeoutError:
            raise Late from None
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, make: Callable[[], Turn] | None) -> None:
        if not self._held:
            self._held = True
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if make is None:
            self._urgent.append(future)
        else:
            self._waiting.append((make(), future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._release()  # it was let in at the very moment
            else:
                self._urgent = [other for other in self._urgent if other is not future]
                self._waiting = [entry for entry in self._waiting if entry[1] is not future]
            raise

    def _release(self) -> None:
        """Let the next one in; the lock passes to it without coming free in between."""
        while self._urgent:
            future = self._urgent.pop(0)
            if not future.done():
                future.set_result(None)
                return
        while self._waiting:
            first = self._admission.order([turn for turn, _ in self._waiting])[0]
            at = next(i for i, (turn, _) in enumerate(self._waiting) if turn is first)
            _, future = self._waiting.pop(at)
            if not future.done():
                future.set_result(None)
                return
        self._held = False
