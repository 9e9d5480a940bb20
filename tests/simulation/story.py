"""What happened, in order of time: kept as tuples, told as lines when somebody asks."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any


class Story:
    """Entries of (time, who, what...)."""

    def __init__(self, time: Callable[[], float]) -> None:
        self.entries: list[tuple[Any, ...]] = []
        self._time = time

    def tell(self, who: str, *what: Any) -> None:
        """Add an entry."""
        self.entries.append((self._time(), who, *what))

    def digest(self) -> str:
        """Return a hash of all of it."""
        return hashlib.sha256(repr(self.entries).encode()).hexdigest()[:16]

    def lines(self) -> list[str]:
        """Return one line an entry."""
        return [
            f"{entry[0]:9.3f} {entry[1]:<10} " + " ".join(_text(part) for part in entry[2:])
            for entry in self.entries
        ]


def _text(part: Any) -> str:
    if isinstance(part, float):
        return f"{part:.3f}"
    if isinstance(part, list | tuple | set | frozenset):
        return "[" + ", ".join(map(_text, part)) + "]"
    return str(part)
