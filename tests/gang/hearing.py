"""A listener that remembers what it hears."""

from __future__ import annotations

from collections.abc import Callable

from extender.gang.tell.decisions import Decision
from extender.gang.tell.listener import Listener, Removal
from extender.kube.api_errors import ApiError
from extender.model.plan import Victim


class Hearing(Listener):
    """What became of evictions and writes; decisions go to a feed."""

    def __init__(self, feed: Callable[[Decision], object] = lambda decision: None) -> None:
        self.feed = feed
        self.ended: list[str] = []
        self.lost = 0
        self.failures: list[str] = []

    def decided(self, decision: Decision) -> None:
        self.feed(decision)

    def evicted(self, ended: Removal, victim: Victim | None = None) -> None:
        self.ended.append(ended)
        self.lost += victim.lost if victim is not None else 0

    def failed(self, what: str, error: ApiError) -> None:
        self.failures.append(what)
