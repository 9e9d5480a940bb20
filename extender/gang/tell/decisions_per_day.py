"""How many decisions of each kind were made on each day: small enough to keep for a month."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from extender.gang.tell.decisions import Decision, Outcome

MOST_DAYS = 31
SECONDS = 86_400
MOST_TEXT = 16 * 1024
"""Characters of what is kept; 31 days with every outcome have a third of it."""
MOST_COUNT = 10**9

DayCounts = dict[int, Counter[Outcome]]
"""Days since the epoch -> outcome -> decisions."""


class Day(Struct, frozen=True):
    """One day (UTC)."""

    start: float
    """Its first second, seconds since the epoch."""
    counts: dict[Outcome, int]


class Days:
    """Counts decisions by day: nothing is known of the time before ``since``.

    What is told once is counted once: a refusal that only repeats the gang's last one is not.

    Over a restart or another leader they live on as a text that somebody keeps: ``adopt`` what is
    kept, then ``take`` a text to be kept, then say ``kept`` or ``lost``.
    """

    def __init__(self, since: float) -> None:
        """``since``: wall clock from which on every decision is added."""
        self.since = since
        self.lasting = False
        """They are kept for the next life."""
        self._counts: DayCounts = {}
        self._own: DayCounts = {}
        """Of them, what nobody has kept yet."""
        self._taken: DayCounts = {}
        """What is being kept."""

    def add(self, decision: Decision) -> None:
        """Count a decision on the day it was made."""
        day = int(decision.time // SECONDS)
        for counts in (self._counts, self._own):
            _add(counts, day, {decision.outcome: 1})

    def until(self, now: float) -> Sequence[Day]:
        """Return the last MOST_DAYS days up to the one of ``now``, oldest first."""
        last = int(now // SECONDS)
        return [
            Day(float(day * SECONDS), dict(self._counts.get(day, {})))
            for day in range(last - MOST_DAYS + 1, last + 1)
        ]

    def adopt(self, text: str, now: float) -> None:
        """Go on with what was kept, and what nobody has kept yet. Garbage is passed over."""
        self._counts = {}
        for day, counts in _read(text, now):
            _add(self._counts, day, counts)
        for own in (self._own, self._taken):
            for day, counts in own.items():
                _add(self._counts, day, counts)
        self.since = min(self.since, _since(text, now))

    def take(self) -> str:
        """Return the text to be kept."""
        self.lost()
        self._taken, self._own = self._own, {}
        document = {
            "since": int(self.since),
            "days": {str(day): dict(counts) for day, counts in sorted(self._counts.items())},
        }
        return msgspec.json.encode(document).decode()

    def kept(self) -> None:
        """What was taken is kept."""
        self._taken = {}
        self.lasting = True

    def lost(self) -> None:
        """What was taken is not kept, or nobody knows."""
        taken, self._taken = self._taken, {}
        for day, counts in taken.items():
            _add(self._own, day, counts)


def _add(counts: DayCounts, day: int, more: Mapping[Outcome, int]) -> None:
    if day not in counts and len(counts) >= MOST_DAYS:
        oldest = min(counts)
        if day < oldest:  # A clock that was set back by more than a month.
            return
        del counts[oldest]
    counts.setdefault(day, Counter()).update(more)


def _document(text: str) -> dict[Any, Any]:
    try:
        found = msgspec.json.decode(text) if len(text) <= MOST_TEXT else None
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


def _since(text: str, now: float) -> float:
    since = _document(text).get("since")
    return float(since) if isinstance(since, int) and 0 < since <= now else now


def _read(text: str, now: float) -> Iterator[tuple[int, dict[Outcome, int]]]:
    """Yield the days of the last month that can be read."""
    last, days = int(now // SECONDS), _document(text).get("days")
    for name, given in days.items() if isinstance(days, dict) else ():
        if not (name.isascii() and name.isdigit() and len(name) <= 8 and isinstance(given, dict)):
            continue
        counts = {
            Outcome(outcome): count
            for outcome, count in given.items()
            if outcome in Outcome.__members__.values()
            and type(count) is int
            and 0 < count <= MOST_COUNT
        }
        if counts and last - MOST_DAYS < int(name) <= last:
            yield int(name), counts
