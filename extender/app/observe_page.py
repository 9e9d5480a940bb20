"""What the page at /ui/ is given in observe mode: nothing of it can act."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from copy import copy
from heapq import nlargest

from extender.cache.cache import Cache
from extender.check import documents
from extender.console.capture import Capture, ConsoleSource, Observed
from extender.gang.tell.decisions_per_day import Days
from extender.model.gang import Gang
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.observe.file import LedgerFile, Report
from extender.observe.observer import Observer
from extender.settings.settings import Settings

MOST_WAITING = 200
"""Gangs that wait, shown beside those of the week."""


def observe_page(
    cache: Cache,
    observer: Observer,
    file: LedgerFile,
    settings: Settings,
    days: Days,
    cold: Callable[[], list[str]],
) -> ConsoleSource:
    """Return what the console asks. ``cold``: why what is shown may be wrong."""
    view = _ObservingView(cache, observer, file, settings, days, cold)
    return ConsoleSource(
        settings=settings,
        resolver=observer.resolver,
        mark=view.mark,
        capture=view.capture,
        stale=lambda: "; ".join(cold()) or None,
        question=view.question,
        masks=view.masks,
        read_manifest=lambda text, name: [
            each.value for each in documents.parse(text, name, aliases=False)
        ],
    )


class _ObservingView:
    def __init__(
        self,
        cache: Cache,
        observer: Observer,
        file: LedgerFile,
        settings: Settings,
        days: Days,
        cold: Callable[[], list[str]],
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._file = file
        self._settings = settings
        self._days = days
        self._cold = cold

    def mark(self) -> object:
        observer = self._observer
        return (
            self._cache.generation,
            observer.decisions.number,
            observer.ledger.version,
            tuple(self._cold()),
        )

    def capture(self) -> Capture:
        wall, decisions = time.time(), self._observer.decisions
        return Capture(
            time=wall,
            snapshot=self._cache.snapshot(),
            decisions=tuple(decisions),
            days=tuple(self._days.until(wall)),
            counted_since=self._days.since,
            replayable=frozenset(decisions.generations()),
            problems=tuple(self._cold()),
            schedulers=self._observer.schedulers(),
            observed=self._observed(),
        )

    def _observed(self) -> Observed:
        now = self._file.report()
        told = nlargest(
            MOST_WAITING,
            (case.told for case in self._observer.cases),
            key=lambda told: told.weight,
        )
        return Observed(
            report=Report(now.format, now.written, [w.copied() for w in now.weeks], now.since),
            waiting=tuple(map(copy, told)),
            kept=bool(self._settings.observe.file),
        )

    def question(self) -> tuple[Snapshot, tuple[Hold, ...]]:
        return self._cache.snapshot(), ()

    def masks(self, gang: Gang, snapshot: Snapshot) -> Mapping[str, frozenset[str]]:
        return self._observer.masks(gang, snapshot)
