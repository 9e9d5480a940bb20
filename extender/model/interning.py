"""Bounded tables by which equal parts of many objects become one object.

150,000 pods of a few thousand templates have a few thousand distinct label sets,
resource lists and constraint sets. Looking these up by their JSON bytes saves both
the memory of the copies and the time to decode them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Memo(Generic[Key, Value]):
    """A dictionary that is emptied when full.

    Emptying costs one more decode per part and some sharing; it never costs
    correctness. Hostile input therefore cannot grow it without bound.
    """

    __slots__ = ("_limit", "_table", "get")

    def __init__(self, limit: int = 65536) -> None:
        self._table: dict[Key, Value] = {}
        self._limit = limit
        self.get = self._table.get

    def __len__(self) -> int:
        return len(self._table)

    def put(self, key: Key, value: Value) -> Value:
        """Remember and return ``value``."""
        if len(self._table) >= self._limit:
            self._table.clear()
        self._table[key] = value
        return value


class Interner(Generic[Key]):
    """Gives back the first of equal values."""

    __slots__ = ("_limit", "_table")

    def __init__(self, limit: int = 65536) -> None:
        self._table: dict[Key, Key] = {}
        self._limit = limit

    def __call__(self, value: Key) -> Key:
        """Return the value equal to ``value`` that was seen first (since the last emptying)."""
        if len(self._table) >= self._limit:
            self._table.clear()
        return self._table.setdefault(value, value)
