"""Time as the cache sees it; tests put their own in."""

from __future__ import annotations

import asyncio
import time


class Clock:
    """The real thing. ``monotonic`` measures, ``wall`` is only written down."""

    def monotonic(self) -> float:
        """Return seconds from an arbitrary start, never going back."""
        return time.monotonic()

    def wall(self) -> float:
        """Return seconds since the epoch; may jump."""
        return time.time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)
