"""The last things told, bounded in number and in bytes, with a share for each namespace."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

from msgspec import Struct

Item = TypeVar("Item")


class _Kept(Struct, Generic[Item], gc=False):
    item: Item
    share: str
    size: int


class Ring(Generic[Item]):
    """Keeps the newest; to make room, whoever has most in it loses its oldest.

    One namespace that floods it therefore pushes out its own entries and no others'.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._kept: OrderedDict[int, _Kept[Item]] = OrderedDict()
        self._of: dict[str, OrderedDict[int, None]] = {}
        self._sizes: Counter[str] = Counter()
        self.size = 0
        """Bytes, as estimated by who added."""

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, number: int, item: Item, share: str, size: int) -> int:
        """Keep an item under a number that grows; return how many had to go for it."""
        self._kept[number] = _Kept(item, share, size)
        self._of.setdefault(share, OrderedDict())[number] = None
        self._sizes[share] += size
        self.size += size
        gone = 0
        while len(self._kept) > max(1, self._most):
            self._drop(max(self._others(number), key=lambda name: len(self._of[name])))
            gone += 1
        while len(self._kept) > 1 and self.size > self._most_bytes:
            self._drop(max(self._others(number), key=lambda name: self._sizes[name]))
            gone += 1
        return gone

    def _others(self, newest: int) -> Iterator[str]:
        """Yield the shares that have more than what was just added."""
        return (name for name, numbers in self._of.items() if next(iter(numbers)) != newest)

    def newest_first(self) -> Iterator[tuple[int, Item]]:
        """Yield (number, item)."""
        for number in reversed(self._kept):
            yield number, self._kept[number].item

    def _drop(self, share: str) -> None:
        number, _ = self._of[share].popitem(last=False)
        kept = self._kept.pop(number)
        self.size -= kept.size
        self._sizes[share] -= kept.size
        if not self._of[share]:
            del self._of[share]
            del self._sizes[share]
