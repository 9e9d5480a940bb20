"""Decisions as they are made: a ring that every reader goes through at its own pace."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from extender.gang.tell.decisions import Decision
from extender.grpc_api.waiters import Waiters

KEPT = 512


class DecisionFeed:
    """The last decisions, numbered from 1. Goes on over the terms of a replica."""

    def __init__(self, size: int = KEPT) -> None:
        self._ring: deque[Decision] = deque(maxlen=size)
        self.waiters = Waiters()
        self.count = 0
        """The number of the newest decision."""

    def add(self, decision: Decision) -> None:
        """Keep a decision and wake those who wait for one."""
        self._ring.append(decision)
        self.count += 1
        self.waiters.wake()

    def after(self, seen: int) -> tuple[Decision | None, int]:
        """Return the oldest decision kept above that number (None: there is none) and its number.

        Decisions in between are lost to this reader.
        """
        if seen >= self.count:
            return None, seen
        number = max(seen + 1, self.count - len(self._ring) + 1)
        return self._ring[number - 1 - (self.count - len(self._ring))], number

    def __iter__(self) -> Iterator[Decision]:
        """Iterate over those kept, newest first."""
        return iter(list(reversed(self._ring)))

    def start(self, backlog: int, gang: str) -> int:
        """Return the number after which ``backlog`` decisions (about that gang) are kept."""
        if not backlog:
            return self.count
        oldest = self.count - len(self._ring) + 1
        about = (
            self.count - place
            for place, each in enumerate(reversed(self._ring))
            if not gang or each.gang == gang
        )
        numbers = list(islice(about, backlog))
        return (numbers[-1] if numbers else max(oldest, self.count + 1)) - 1
