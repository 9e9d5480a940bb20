"""When a new picture is made: at most once a second, and only for somebody who looks."""

from __future__ import annotations

import asyncio

import structlog

from extender.console.capture import ConsoleSource
from extender.console.picture import Picture, PictureMaker
from extender.console.worker import Worker

FRESH_SECONDS = 1.0
"""A picture that is no older is shown as it is."""
log = structlog.get_logger("console")


class Board:
    """Keeps the newest picture. One event loop; pictures are made by ``worker``."""

    def __init__(self, source: ConsoleSource, worker: Worker) -> None:
        self._source = source
        self._worker = worker
        self.reader = PictureMaker(source.resolver)
        self.made = 0
        """How many pictures were made so far."""
        self._picture: Picture | None = None
        self._mark: object = None
        self._next = 0.0
        """Loop time before which no other picture is made."""
        self._making: asyncio.Task[Picture] | None = None

    @property
    def last(self) -> Picture | None:
        """The newest picture, None before the first."""
        return self._picture

    async def picture(self) -> Picture:
        """Return a picture of now, or of a moment ago; whoever asks meanwhile gets the same.

        Raises TooManyRenderings.
        """
        loop = asyncio.get_running_loop()
        if self._making is None:
            kept = self._picture
            if kept is not None and (loop.time() < self._next or self._source.mark() == self._mark):
                return kept
            self._making = loop.create_task(self._make(loop))
            self._making.add_done_callback(self._made)
        # A caller that leaves does not take the others' picture along.
        return await asyncio.shield(self._making)

    async def _make(self, loop: asyncio.AbstractEventLoop) -> Picture:
        mark = self._source.mark()
        capture = self._source.capture()
        self._next = loop.time() + FRESH_SECONDS
        picture = await self._worker.run(lambda: self.reader.read(capture))
        self._mark, self._picture = mark, picture
        self.made += 1
        return picture

    def _made(self, task: asyncio.Task[Picture]) -> None:
        self._making = None
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("the page's picture cannot be made", exc_info=problem)
