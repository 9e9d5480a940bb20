"""Who wants to know of changes, and the generation that counts them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

import structlog
from msgspec import Struct

from extender.cache.stats import CacheStats
from extender.decode.from_json import DecodedObject

log = structlog.get_logger("cache")


class ChangeKind(StrEnum):
    """What has changed."""

    POD = "pod"
    NODE = "node"
    NAMESPACE = "namespace"
    BUDGET = "budget"
    PRIORITY_CLASS = "priority-class"
    GROUP = "group"
    # With neither an old record nor a new one:
    GROUP_SOURCES = "group-sources"
    """Other kinds of PodGroups are read than before, or other objects of them cannot be decoded."""
    ENDED_MEMBER = "ended-member"
    """A member of a gang is done, or its pod was deleted after."""


class Change(Struct, frozen=True, gc=False):
    """One applied change. ``old`` None: added. ``new`` None: gone."""

    kind: ChangeKind
    old: DecodedObject | None
    new: DecodedObject | None


Subscriber = Callable[[Change], None]


class Feed:
    """Counts changes, tells subscribers, wakes waiters."""

    def __init__(self, stats: CacheStats) -> None:
        self.generation = 0
        self._stats = stats
        self._subscribers: list[Subscriber] = []
        self._waiting: asyncio.Event | None = None

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call ``callback`` after each applied change, on the loop; return how to end that."""
        self._subscribers.append(callback)

        def unsubscribe() -> None:
            if callback in self._subscribers:
                self._subscribers.remove(callback)

        return unsubscribe

    def emit(self, kind: ChangeKind, old: DecodedObject | None, new: DecodedObject | None) -> None:
        """Count one change and tell everybody."""
        self.generation += 1
        if self._waiting is not None:
            self._waiting.set()
            self._waiting = None
        if not self._subscribers:
            return
        change = Change(kind, old, new)
        for callback in tuple(self._subscribers):
            try:
                callback(change)
            except Exception:
                # A subscriber's mistake must not stop the cache from following the cluster.
                self._stats.subscriber_errors += 1
                log.exception("subscriber failed", kind=str(kind))

    async def wait(self, generation: int, timeout: float) -> int:
        """Return the generation once it exceeds ``generation``, or after ``timeout`` seconds."""
        if self.generation <= generation:
            if self._waiting is None:
                self._waiting = asyncio.Event()
            try:
                async with asyncio.timeout(timeout):
                    await self._waiting.wait()
            except TimeoutError:
                pass
        return self.generation
