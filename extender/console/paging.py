"""Long lists, a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")


class Page(Struct, Generic[Item], frozen=True):
    """Some items out of many. Pages count from 1."""

    items: Sequence[Item]
    number: int
    pages: int
    total: int
    first: int
    """Position of the first item among all, from 1; 0 when there is none."""

    @property
    def last(self) -> int:
        """Position of the last item."""
        return self.first + len(self.items) - 1 if self.items else 0


def page_of(items: Sequence[Item], number: int, size: int) -> Page[Item]:
    """Return one page; beyond the last one, the last."""
    pages = max(1, -(-len(items) // size))
    number = min(number, pages)
    start = (number - 1) * size
    shown = items[start : start + size]
    return Page(shown, number, pages, len(items), start + 1 if shown else 0)
