"""Those who wait for a change, woken by plain calls of whoever made it."""

from __future__ import annotations

import asyncio


class Waiters:
    """A condition without a lock: one event loop only."""

    def __init__(self) -> None:
        self._futures: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Wake everybody who waits now."""
        for future in self._futures:
            if not future.done():
                future.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Return when woken, or after a time."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        try:
            await asyncio.wait((future,), timeout=seconds)
        finally:
            self._futures.discard(future)
