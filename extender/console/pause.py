"""Long work beside an event loop: lets other threads have the interpreter, again and again.

CPython changes threads when one asks for it, after the switch interval; a thread that offers it by
itself keeps an answer that waits on the event loop from waiting even that long.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
EACH = 64
"""Items between two offers; one is some microseconds of work."""


def breathing(items: Iterable[Item]) -> Iterator[Item]:
    """Yield the items, offering the interpreter to other threads on the way."""
    for count, item in enumerate(items, start=1):
        yield item
        if count % EACH == 0:
            time.sleep(0)
