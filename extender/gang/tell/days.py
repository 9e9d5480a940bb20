"""How many decisions of each kind were made on each day: small enough to keep for a month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from extender.gang.tell.decisions import Decision, Outcome

MOST_DAYS = 31
SECONDS = 86_400


class Day(Struct, frozen=True):
    """One day (UTC)."""

    start: float
    """Its first second, seconds since the epoch."""
    counts: dict[Outcome, int]


class Days:
    """Counts decisions by day, in memory: nothing is known of the time before ``since``.

    What is told once is counted once: a refusal that only repeats the gang's last one is not.
    """

    def __init__(self, since: float) -> None:
        """``since``: wall clock from which on every decision is added."""
        self.since = since
        self._counts: dict[int, Counter[Outcome]] = {}

    def add(self, decision: Decision) -> None:
        """Count a decision on the day it was made."""
        day = int(decision.time // SECONDS)
        if day not in self._counts and len(self._counts) >= MOST_DAYS:
            oldest = min(self._counts)
            if day < oldest:  # A clock that was set back by more than a month.
                return
            del self._counts[oldest]
        self._counts.setdefault(day, Counter())[decision.outcome] += 1

    def until(self, now: float) -> Sequence[Day]:
        """Return the last MOST_DAYS days up to the one of ``now``, oldest first."""
        last = int(now // SECONDS)
        return [
            Day(float(day * SECONDS), dict(self._counts.get(day, {})))
            for day in range(last - MOST_DAYS + 1, last + 1)
        ]
