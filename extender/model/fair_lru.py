"""What is kept by namespace, bounded over all of them: whoever has most in it loses its oldest.

How many objects there are, and what is in them, is a tenant's to choose. One that floods a bounded
store therefore pushes out its own entries and nobody else's.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class _SharedValue(Struct, Generic[Value], frozen=True, gc=False):
    value: Value
    share: str
    size: int


class Shares(Generic[Key, Value]):
    """Values by key, the oldest first; ``most`` is the sum of all sizes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Key, _SharedValue[Value]] = OrderedDict()
        self._of: dict[str, OrderedDict[Key, None]] = {}
        """Share -> keys, the oldest first."""
        self._sizes: Counter[str] = Counter()
        self.size = 0
        """Of all that is kept."""

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def get(self, key: Key) -> Value | None:
        """Return what is kept under the key, None when nothing is."""
        kept = self._kept.get(key)
        return None if kept is None else kept.value

    def values(self) -> Iterator[Value]:
        """Yield all, the oldest first."""
        return (kept.value for kept in self._kept.values())

    def oldest(self) -> tuple[Key, Value] | None:
        """Return what was put before all others, None when nothing is kept."""
        found = next(iter(self._kept.items()), None)
        return None if found is None else (found[0], found[1].value)

    def take(self) -> Value | None:
        """Forget a value and return it, None when nothing is kept: shares have turns, each with its
        oldest."""
        share = next(iter(self._of), None)
        if share is None:
            return None
        keys = self._of[share] = self._of.pop(share)  # the others come before its next turn
        return self.pop(next(iter(keys)))

    def forget(self, over: Callable[[Value], bool]) -> None:
        """Forget the oldest ones for as long as they are over."""
        while (oldest := self.oldest()) is not None and over(oldest[1]):
            self.pop(oldest[0])

    def takes(self, share: str) -> bool:
        """Whether something more of size 1 has room without what the share itself has in here, or
        another that would be left with less."""
        if self.size < self._most:
            return True
        return self._sizes.get(share, 0) + 1 < max(self._sizes.values(), default=0)

    def put(self, key: Key, value: Value, share: str, size: int = 1) -> None:
        """Keep a value, as the newest; it stays however large it is."""
        self.pop(key)
        self._kept[key] = _SharedValue(value, share, size)
        self._of.setdefault(share, OrderedDict())[key] = None
        self._sizes[share] += size
        self.size += size
        while self.size > self._most and len(self._kept) > 1:
            others = (name for name, keys in self._of.items() if next(iter(keys)) != key)
            most = max(others, key=lambda name: self._sizes[name])
            self.pop(next(iter(self._of[most])))

    def pop(self, key: Key) -> Value | None:
        """Forget what is kept under the key and return it, None when nothing is."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return None
        keys = self._of[kept.share]
        del keys[key]
        self._sizes[kept.share] -= kept.size
        self.size -= kept.size
        if not keys:
            del self._of[kept.share]
            del self._sizes[kept.share]
        return kept.value
