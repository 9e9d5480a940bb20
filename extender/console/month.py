"""The last month as a strip: a bar a day of what was decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from extender.console import words
from extender.console.capture import Capture
from extender.gang.tell.decisions import Outcome
from extender.gang.tell.decisions_per_day import SECONDS


class Bar(Struct, frozen=True):
    """One day of the month."""

    start: float
    known: bool
    """False: it was over before anything was counted."""
    counts: Mapping[Outcome, int]
    """Outcome -> decisions."""
    bands: Mapping[str, int]
    """Tone -> decisions."""


def month(capture: Capture) -> list[Bar]:
    """Return the last days as bars, oldest first."""
    found = []
    for day in capture.days:
        bands: Counter[str] = Counter()
        for outcome, count in day.counts.items():
            bands[words.tone(outcome)] += count
        known = day.start + SECONDS > capture.counted_since
        found.append(Bar(day.start, known=known, counts=day.counts, bands=bands))
    return found
