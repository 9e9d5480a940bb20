"""A cluster source that shows what a test says."""

from __future__ import annotations

from collections.abc import Callable

from extender.model.snapshot import Snapshot


class Showing:
    """Never stale, read once."""

    synced = True
    generation = 0

    def __init__(self, show: Callable[[], Snapshot]) -> None:
        self.snapshot = show

    def stale_for(self) -> float:
        """Return that it is current."""
        return 0.0
