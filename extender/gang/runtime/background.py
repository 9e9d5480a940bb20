"""Work that goes on beside everything else: not too much at a time, and not failing unseen."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import structlog

from extender.model.errors import NotReady

log = structlog.get_logger("gang")

Item = TypeVar("Item")


class Background:
    """Tasks nobody waits for. A failure is logged and ends only the task itself."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` from the event loop's next turn on; after ``close`` not at all."""
        if self._closed:
            work.close()
            return
        self.begin(work).add_done_callback(self._reap)

    def begin(self, work: Coroutine[Any, Any, Item]) -> asyncio.Task[Item]:
        """Run ``work``, whose failure is the caller's to tell. Raises NotReady after ``close``."""
        if self._closed:
            work.close()
            raise NotReady("the leadership term of this call is over")
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _reap(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("background work failed", exc_info=task.exception())

    async def close(self) -> None:
        """Cancel what still runs, begin nothing more, and wait until it has stopped."""
        self._closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def each(
    items: Sequence[Item], at_a_time: int, work: Callable[[Item], Awaitable[None]]
) -> None:
    """Do ``work`` for every item, in order, without a task for each.

    After the first that fails no other is begun; those under way end, then its error is raised.
    """
    left = iter(items)
    failures: list[Exception] = []

    async def some() -> None:
        for item in left:
            try:
                await work(item)
            except Exception as error:
                failures.append(error)
            if failures:
                return

    await asyncio.gather(*(some() for _ in range(min(at_a_time, len(items)))))
    if failures:
        raise failures[0]
