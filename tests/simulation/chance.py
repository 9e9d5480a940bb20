"""Everything that is left to chance, drawn from one seed.

Each draw belongs to a named stream, so that leaving one happening out of a simulation
changes nothing about what the other streams draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar
from zlib import crc32

Item = TypeVar("Item")
_MASK = (1 << 64) - 1


def mixed(value: int) -> int:
    """Return 64 bits that depend on every bit of ``value`` (splitmix64)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class Chance:
    """Draws by stream name."""

    def __init__(self, seed: int) -> None:
        self._seed = mixed(seed)
        self._streams: dict[str, int] = {}

    def draw(self, stream: str) -> float:
        """Return the stream's next number in [0, 1)."""
        state = self._streams.get(stream)
        if state is None:
            state = self._seed ^ (crc32(stream.encode()) * 0x9E3779B97F4A7C15 & _MASK)
        state = self._streams[stream] = (state + 0x9E3779B97F4A7C15) & _MASK
        # As mixed(), spelt out: a simulation draws several hundred times.
        value = (state + 0x9E3779B97F4A7C15) & _MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
        return (value ^ (value >> 31)) / 18446744073709551616.0

    def between(self, stream: str, low: float, high: float) -> float:
        """Return a number in [low, high)."""
        return low + (high - low) * self.draw(stream)

    def number(self, stream: str, low: int, high: int) -> int:
        """Return an integer in [low, high]."""
        return low + int(self.draw(stream) * (high - low + 1))

    def hit(self, stream: str, share: float) -> bool:
        """Return True in ``share`` of the cases."""
        return self.draw(stream) < share

    def pick(self, stream: str, items: Sequence[Item]) -> Item:
        """Return one of the items."""
        return items[int(self.draw(stream) * len(items))]
