"""Pages as they were last made: everybody who looks at one gets the same bytes.

A page is made again only for another picture; with the same bytes it has the same tag, and whoever
has it already is told so.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from extender.console.worker import Worker

MOST = 64
MOST_BYTES = 16 * 1024 * 1024


class Rendering(Struct, frozen=True):
    """Bytes of a page, and a tag that stands for them."""

    version: int
    body: bytes
    tag: bytes


def rendering(version: int, body: bytes) -> Rendering:
    """Return the bytes with their tag."""
    return Rendering(version, body, b'"%s"' % hashlib.sha256(body).hexdigest()[:24].encode())


class Renderings:
    """Keeps them, by page and query, the last used ones. One event loop."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._kept: OrderedDict[str, Rendering] = OrderedDict()
        self._size = 0
        self._making: dict[tuple[str, int], asyncio.Task[Rendering]] = {}
        self.made = 0
        """How many pages were made so far."""

    async def get(self, page: str, version: int, make: Callable[[], bytes]) -> Rendering:
        """Return a page of that version, made now if it was not. Raises what ``make`` raises."""
        kept = self._kept.get(page)
        if kept is not None and kept.version == version:
            self._kept.move_to_end(page)
            return kept
        task = self._making.get((page, version))
        if task is None:
            task = asyncio.create_task(self._make(page, version, make))
            self._making[page, version] = task
            task.add_done_callback(lambda done: self._over((page, version), done))
        return await asyncio.shield(task)

    async def _make(self, page: str, version: int, make: Callable[[], bytes]) -> Rendering:
        found = await self._worker.run(lambda: rendering(version, make()))
        self.made += 1
        self._keep(page, found)
        return found

    def _over(self, key: tuple[str, int], task: asyncio.Task[Rendering]) -> None:
        self._making.pop(key, None)
        if not task.cancelled():
            task.exception()  # whoever waits for it is told

    def _keep(self, page: str, found: Rendering) -> None:
        old = self._kept.pop(page, None)
        self._size += len(found.body) - (len(old.body) if old is not None else 0)
        self._kept[page] = found
        while len(self._kept) > MOST or (self._size > MOST_BYTES and len(self._kept) > 1):
            _, gone = self._kept.popitem(last=False)
            self._size -= len(gone.body)
