"""How long a verb waits for its own answer; the work goes on when the verb does not wait any more.

kube-scheduler tries one pod after the other, and gives an extender up after its httpTimeout: the
pod then had an attempt for nothing, and others waited for it. What a search takes is limited by
plan.seconds; before and after it the cluster is taken in, a problem put together and an answer
tried out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any

from extender.gang.fairness.fair_lock import Late
from extender.gang.runtime.background import Background, log
from extender.gang.runtime.clocks import Clocks
from extender.model.errors import NotReady

SEARCHES = 1.2
"""A verb waits so many times plan.seconds in all; ``check`` wants httpTimeout to be longer."""


class VerbPatience:
    """Work by its key: verbs that ask for the same wait for the same. One event loop only."""

    def __init__(self, background: Background, clocks: Clocks, plan_seconds: float) -> None:
        self._clocks = clocks
        self._background = background
        self._seconds = SEARCHES * plan_seconds
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}

    def now(self) -> float:
        """Return the monotonic time that verbs are asked at."""
        return self._clocks.monotonic()

    def left(self, asked: float) -> float:
        """Return for how many seconds a verb may wait that was asked at ``asked``, monotonic."""
        return max(0.0, asked + self._seconds - self._clocks.monotonic())

    async def outcome(
        self, key: Hashable, work: Callable[[], Coroutine[Any, Any, Any]], asked: float
    ) -> Any:
        """Return what ``work`` comes to, begun unless work of this key is under way.

        Raises Late when the verb may not wait any longer, and what the work raises.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = self._background.begin(work())
            task.add_done_callback(lambda task: self._under_way.pop(key))
        done, _ = await asyncio.wait({task}, timeout=self.left(asked))
        if not done:
            task.add_done_callback(_tell)
            raise Late
        if task.cancelled():
            raise NotReady("the leadership term of this call is over")
        return task.result()


def _tell(task: asyncio.Task[Any]) -> None:
    """Log a failure that no verb waited for."""
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, NotReady):
        log.error("planning failed after its verb was answered", exc_info=error)
