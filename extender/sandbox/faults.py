"""Hard times on demand: errors, slow answers, lost connections, stalled and expired watches."""

from __future__ import annotations

import asyncio
import re
from typing import Literal

from msgspec import Struct


class Fault(Struct):
    """What happens to the next ``times`` requests that match.

    ``path`` is a regular expression searched in the path with its query.
    ``drop`` cuts the connection: before the request is done, or, with ``after``,
    when it is done but not yet answered. A fault with neither ``status`` nor
    ``drop`` only delays: for ``delay`` seconds, or until ``released`` is set.
    """

    times: int
    method: str = ""
    path: str = ""
    status: int = 0
    reason: str = "InternalError"
    retry_after: int | None = None
    drop: Literal["", "before", "after"] = ""
    delay: float = 0.0
    released: asyncio.Event | None = None
    hits: int = 0

    def matches(self, method: str, path: str) -> bool:
        """Whether this request is to suffer."""
        return (
            self.hits < self.times
            and self.method in ("", method)
            and re.search(self.path, path) is not None
        )


class Faults:
    """The faults of one API server. Times are in seconds."""

    def __init__(self) -> None:
        self.refuse_watch_list = False
        """Answer sendInitialEvents as a server without WatchList does."""
        self._planned: list[Fault] = []
        self._flowing = asyncio.Event()
        self._serving = asyncio.Event()
        self._flowing.set()
        self._serving.set()

    def plan(self, fault: Fault) -> Fault:
        """Add a fault; its ``hits`` tells later how often it struck."""
        self._planned.append(fault)
        return fault

    def clear(self) -> None:
        """Go back to fair weather."""
        self._planned.clear()
        self.refuse_watch_list = False
        self.resume()
        self.flow()

    def take(self, method: str, path: str) -> Fault | None:
        """Return the first planned fault that matches and count it."""
        for fault in self._planned:
            if fault.matches(method, path):
                fault.hits += 1
                return fault
        return None

    def stall(self) -> None:
        """Let open watches say nothing, not even bookmarks, without closing them."""
        self._flowing.clear()

    def flow(self) -> None:
        """End a stall; what was held back is sent."""
        self._flowing.set()

    def pause(self) -> None:
        """Accept requests but answer none."""
        self._serving.clear()

    def resume(self) -> None:
        """Answer again, also what waited."""
        self._serving.set()

    async def until_flowing(self) -> None:
        """Wait for the end of a stall."""
        await self._flowing.wait()

    async def until_serving(self) -> None:
        """Wait for the end of a pause."""
        await self._serving.wait()
