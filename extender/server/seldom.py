"""At most one word a minute about the same thing."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from cachetools import TTLCache

SECONDS = 60.0
MAX_KEPT = 1024
"""Beyond so many different things in a minute the oldest are told of again."""


class Seldom:
    """Says when something may be told again; ``timer`` gives seconds."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._told: TTLCache[Hashable, bool] = TTLCache(MAX_KEPT, SECONDS, timer)

    def due(self, what: Hashable) -> bool:
        """Whether it was not told for a minute; counts as told from now on."""
        if what in self._told:
            return False
        self._told[what] = True
        return True
