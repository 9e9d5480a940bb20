"""The scheduling queue: active, backing off, or parked until an event may help.

Source: pkg/scheduler/backend/queue of 1.36 and 1.37. A pod is parked with the
plugins that rejected it; "Extender" is woken by every pod and node event, the
others by what makes room. Times are of the event loop's clock, in seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

Event = Literal["pod-gone", "pod-bound", "pod-changed", "node", "own"]

EXTENDER = "Extender"
"""The name under which a rejection by an extender is remembered."""
_WAKES: dict[str, tuple[Event, ...]] = {
    EXTENDER: ("pod-gone", "pod-bound", "pod-changed", "node", "own"),
    "InterPodAffinity": ("pod-gone", "pod-bound", "pod-changed", "node"),
    "PodTopologySpread": ("pod-gone", "pod-bound", "pod-changed", "node"),
    "NodeResourcesFit": ("pod-gone", "node"),
    "NodePorts": ("pod-gone", "node"),
}
_BY_NODE_ONLY: tuple[Event, ...] = ("node",)
FIRST_BACKOFF, LAST_BACKOFF = 1.0, 10.0


class Entry(Struct):
    """A pod that wants a node."""

    uid: str
    priority: int
    since: float
    """When it first came; earlier goes first among equals."""
    order: int = 0
    attempts: int = 0
    rejectors: frozenset[str] = frozenset()
    ready: float = 0.0
    """When its back-off ends."""
    failed: bool = False
    """The last attempt ended in an error: its back-off is not cut short."""


class SchedulingQueue:
    """Who is tried next. Not safe for threads; ``scale`` shortens back-off in tests."""

    def __init__(self, clock: Callable[[], float], *, scale: float = 1.0) -> None:
        self._clock = clock
        self._scale = scale
        self._active: dict[str, Entry] = {}
        self._backoff: dict[str, Entry] = {}
        self._parked: dict[str, Entry] = {}
        self._in_flight: dict[str, list[tuple[Event, str]]] = {}
        self._arrived = asyncio.Event()
        self._count = 0

    def __contains__(self, uid: str) -> bool:
        return any(uid in place for place in (self._active, self._backoff, self._parked))

    def add(self, uid: str, priority: int, since: float) -> None:
        """Put a new pod into the active queue."""
        self._count += 1
        self._active[uid] = Entry(uid, priority, since, self._count)
        self._arrived.set()

    def remove(self, uid: str) -> None:
        """Forget a pod wherever it is."""
        for place in (self._active, self._backoff, self._parked):
            place.pop(uid, None)

    async def pop(self) -> Entry:
        """Wait for the next pod; from back-off early when nothing else is there."""
        while (entry := self._next()) is None:
            self._arrived.clear()
            wait = min((e.ready for e in self._backoff.values()), default=None)
            try:
                async with asyncio.timeout(None if wait is None else max(0, wait - self._clock())):
                    await self._arrived.wait()
            except TimeoutError:
                pass
        entry.attempts += 1
        self._in_flight[entry.uid] = []
        return entry

    def done(self, entry: Entry) -> None:
        """End an attempt that found a node."""
        self._in_flight.pop(entry.uid, None)

    def retry(self, entry: Entry) -> None:
        """End an attempt that broke down: the pod backs off and comes back by itself."""
        self._in_flight.pop(entry.uid, None)
        entry.failed, entry.rejectors = True, frozenset()
        self._back_off(entry)

    def park(self, entry: Entry, rejectors: frozenset[str]) -> None:
        """End an attempt that found no node; events during the attempt count."""
        entry.failed, entry.rejectors = False, rejectors
        entry.ready = self._clock() + self._pause(entry)
        missed = self._in_flight.pop(entry.uid, [])
        if any(_helps(entry, event, uid) for event, uid in missed):
            self._back_off(entry)
        else:
            self._parked[entry.uid] = entry

    def wake(self, event: Event, uid: str = "") -> None:
        """Bring back every parked pod that the event may help; ``uid`` is whose event it is."""
        for seen in self._in_flight.values():
            seen.append((event, uid))
        for entry in [e for e in self._parked.values() if _helps(e, event, uid)]:
            del self._parked[entry.uid]
            if entry.ready <= self._clock():
                self._active[entry.uid] = entry
            else:
                self._backoff[entry.uid] = entry
            self._arrived.set()

    def _back_off(self, entry: Entry) -> None:
        entry.ready = self._clock() + self._pause(entry)
        self._backoff[entry.uid] = entry
        self._arrived.set()

    def _pause(self, entry: Entry) -> float:
        doubled = FIRST_BACKOFF * 2.0 ** min(entry.attempts - 1, 10)
        return min(doubled, LAST_BACKOFF) * self._scale

    def _next(self) -> Entry | None:
        now = self._clock()
        for entry in [e for e in self._backoff.values() if e.ready <= now]:
            self._active[entry.uid] = self._backoff.pop(entry.uid)
        if self._active:
            first = min(self._active.values(), key=lambda e: (-e.priority, e.since, e.order))
            return self._active.pop(first.uid)
        early = [e for e in self._backoff.values() if not e.failed]
        if early:
            return self._backoff.pop(min(early, key=lambda e: e.ready).uid)
        return None


def _helps(entry: Entry, event: Event, uid: str) -> bool:
    if event == "own" and uid != entry.uid:
        return False
    return any(event in _WAKES.get(name, _BY_NODE_ONLY) for name in entry.rejectors)
