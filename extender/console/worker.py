"""The one thread that pages are made on, and how much of the processor it may have.

Verbs are answered by the same interpreter. However many people look, and however they ask, the
thread gets a quarter of one core, after a first burst; who asks for more waits, and who would have
to wait too long is sent away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from extender.model.texts import counted

Result = TypeVar("Result")
SHARE = 0.25
BURST_SECONDS = 2.0
"""Seconds of work that may be done at once after a rest."""
MOST_WAITING = 24


class TooManyRenderings(Exception):  # noqa: N818 - reads as the condition it is
    """So many wait already that another one is sent away."""


class CpuAllowance:
    """Seconds of work in hand: they come back with time, at SHARE a second."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._left = BURST_SECONDS
        self._at = now()

    def _filled(self) -> float:
        now = self._now()
        self._left = min(BURST_SECONDS, self._left + (now - self._at) * SHARE)
        self._at = now
        return self._left

    def spend(self, seconds: float) -> None:
        """Take what was used; it may be more than there was."""
        self._filled()
        self._left -= seconds

    def wait(self) -> float:
        """Return for how many seconds nothing may be begun, 0 when it may."""
        left = self._filled()
        return 0.0 if left > 0 else -left / SHARE + 0.001


class Worker:
    """Runs one thing at a time. One event loop."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="console")
        self._turn = asyncio.Semaphore(1)
        self._waiting = 0
        self.pace = CpuAllowance(now)
        self.closed = False

    async def run(self, work: Callable[[], Result]) -> Result:
        """Return what ``work`` returns, in its turn. Raises TooManyRenderings."""
        if self._waiting >= MOST_WAITING or self.closed:
            raise TooManyRenderings(
                f"{counted(self._waiting, 'page', 'is', 'are')} waited for already"
            )
        self._waiting += 1
        try:
            async with self._turn:
                # Nobody else spends meanwhile: after the pause there is something in hand.
                await asyncio.sleep(self.pace.wait())
                if self.closed:
                    raise TooManyRenderings("the process stops")
                running = self._pool.submit(_timed, work)
                try:
                    result, seconds = await asyncio.wrap_future(running)
                except asyncio.CancelledError:
                    if self.closed and running.cancelled():  # not begun yet, and nobody has left
                        raise TooManyRenderings("the process stops") from None
                    raise
                self.pace.spend(seconds)
                return result
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """Take nothing more; what runs is not waited for."""
        self.closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    began = time.thread_time()
    result = work()
    return result, time.thread_time() - began
