"""Bounded tables by which equal parts of many objects become one object.

150,000 pods of a few thousand templates have a few thousand distinct label sets,
resource lists and constraint sets. Looking these up by their JSON bytes saves both
the memory of the copies and the time to decode them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import lru_cache, wraps
from typing import Generic, TypeVar

from extender.model.memory_limits import LARGE

MOST_BYTES = 32 * 1024 * 1024
"""Of one table. What 5,000 nodes and 150,000 pods of real clusters share is a few MiB."""

LONG = 2
"""Long texts that are remembered."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """A dictionary that is emptied when full.

    Full of entries, or of bytes. Emptying costs one more decode per part and some sharing; it
    never costs correctness. Hostile input therefore cannot grow it without bound.
    """

    __slots__ = ("_bytes", "_limit", "_most_bytes", "_table", "get")

    def __init__(self, limit: int = 65536, most_bytes: int = MOST_BYTES) -> None:
        self._table: dict[Key, Value] = {}
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0
        self.get = self._table.get

    def __len__(self) -> int:
        return len(self._table)

    def clear(self) -> None:
        """Forget everything."""
        self._table.clear()
        self._bytes = 0

    def put(self, key: Key, value: Value, size: int) -> Value:
        """Remember and return ``value``; both together take about ``size`` bytes."""
        if len(self._table) >= self._limit or self._bytes + size > self._most_bytes:
            self.clear()
        self._table[key] = value
        self._bytes += size
        return value


class Recent(Generic[Key, Value]):
    """A dictionary in which the oldest makes room, by entries and by bytes.

    The newest is always kept, however large: it is asked for again and again while it is needed.
    """

    __slots__ = ("_limit", "_most_bytes", "_sizes", "_table", "get", "size")

    def __init__(self, limit: int, most_bytes: int = MOST_BYTES) -> None:
        self._table: dict[Key, Value] = {}
        self._sizes: deque[int] = deque()
        self._limit = limit
        self._most_bytes = most_bytes
        self.size = 0
        """Estimated bytes held."""
        self.get = self._table.get

    def __len__(self) -> int:
        return len(self._table)

    def clear(self) -> None:
        """Forget everything."""
        self._table.clear()
        self._sizes.clear()
        self.size = 0

    def put(self, key: Key, value: Value, size: int) -> Value:
        """Remember and return ``value``, which is new; both together take about ``size`` bytes."""
        while self._table and (
            len(self._table) >= self._limit or self.size + size > self._most_bytes
        ):
            del self._table[next(iter(self._table))]
            self.size -= self._sizes.popleft()
        self._table[key] = value
        self._sizes.append(size)
        self.size += size
        return value


def remembered(most: int) -> Callable[[Callable[[str], Value]], Callable[[str], Value]]:
    """Remember what a function says of the last ``most`` texts, and of no more than LONG long ones.

    An annotation may have 256 KiB, and its pod may be gone.
    """

    def decorate(function: Callable[[str], Value]) -> Callable[[str], Value]:
        short, long = lru_cache(most)(function), lru_cache(LONG)(function)

        @wraps(function)
        def known(text: str) -> Value:
            return short(text) if len(text) <= LARGE else long(text)

        return known

    return decorate


class Interner(Generic[Key]):
    """Gives back the first of equal values."""

    __slots__ = ("_bytes", "_limit", "_most_bytes", "_table")

    def __init__(self, limit: int = 65536, most_bytes: int = MOST_BYTES) -> None:
        self._table: dict[Key, Key] = {}
        self._limit = limit
        self._most_bytes = most_bytes
        self._bytes = 0

    @property
    def size(self) -> int:
        """Estimated bytes held."""
        return self._bytes

    def __call__(self, value: Key, size: int) -> Key:
        """Return the value equal to ``value`` that was seen first (since the last emptying).

        One of more than LARGE bytes is given back as it is: nobody else has the same.
        """
        if size > LARGE:
            return value
        found = self._table.get(value)
        if found is not None:
            return found
        if len(self._table) >= self._limit or self._bytes + size > self._most_bytes:
            self._table.clear()
            self._bytes = 0
        self._table[value] = value
        self._bytes += size
        return value
