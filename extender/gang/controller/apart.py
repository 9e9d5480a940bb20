"""One gang after another: what fails for one is told and keeps nobody else from their turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog
from cachetools import TTLCache

from extender.gang.runtime.clocks import Clocks
from extender.gang.status.notices import Notices
from extender.model.errors import NotReady
from extender.model.objects import GangKey, Pod

log = structlog.get_logger("gang")

TOLD_SECONDS = 3600.0
MOST_TOLD = 1024
NOT_JUDGED = "PodNotJudged"
Found = TypeVar("Found")


class Apart:
    """Runs steps of a round gang by gang. One event loop only."""

    def __init__(self, notices: Notices, clocks: Clocks) -> None:
        self._notices = notices
        self._told: TTLCache[tuple[GangKey, str], bool] = TTLCache(
            MOST_TOLD, TOLD_SECONDS, clocks.monotonic
        )

    def each(self, keys: Iterable[GangKey], step: Callable[[GangKey], Found | None]) -> list[Found]:
        """Return what a step finds for each gang; nothing of one for which it fails."""
        found: list[Found] = []
        for key in keys:
            try:
                one = step(key)
            except NotReady:
                raise
            except Exception as error:
                self.failed(key, error)
                continue
            if one is not None:
                found.append(one)
        return found

    def failed(self, key: GangKey, error: Exception) -> None:
        """Tell, once an hour, that a gang had no turn."""
        kind = type(error).__name__
        if (key, kind) not in self._told:
            self._told[key, kind] = True
            log.error("a gang could not be planned", gang=str(key), exc_info=error)

    def tell(self, aside: Iterable[tuple[Pod, str]]) -> None:
        """Warn the owners of pods that the planner has set aside."""
        for pod, why in aside:
            log.error("a pod is left where it is", pod=pod.key, why=why)
            note = f"This pod is not evicted, and plans are made without it: it {why}"
            self._notices.warned(pod, NOT_JUDGED, note)
