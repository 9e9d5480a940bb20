"""Since when the process has run without a gap: what it is told right after one may be old news.

A process that was stopped (SIGSTOP, a frozen machine) finds its watches ended when it goes on, and
not when they ended. Until then it heard nothing: what it holds is as old as the gap's beginning.
"""

from __future__ import annotations

import asyncio

from extender.cache.backoff import BRIEF
from extender.cache.clock import Clock

BEAT = 0.25
"""Seconds between two beats."""
GAP = 0.6
"""A pause between two beats that is longer is a gap: a loop that is busy is late by less."""


class Pulse:
    """Beats on the event loop that reads the watches."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._gap = (self._last, self._last - BRIEF)
        """The last gap: the last beat before it, and the first one after it."""

    def known_at(self) -> float:
        """Return until when all that had come was read: now, unless there was a gap just now."""
        now = self._clock.monotonic()
        if now - self._last > GAP:
            return self._last
        began, ended = self._gap
        return began if now - ended < BRIEF else now

    def beat(self) -> None:
        """Note that the loop runs."""
        now = self._clock.monotonic()
        if now - self._last > GAP:
            self._gap = (self._last, now)
        self._last = now

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self.beat()
            await asyncio.sleep(BEAT)
