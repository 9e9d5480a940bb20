"""How long to wait after a failure.

Values as in client-go's reflector (tools/cache/reflector.go): 0.8 s doubling to
30 s, each stretched by up to its own length, from the start again after 2 min calm.
"""

from __future__ import annotations

from collections.abc import Callable

FIRST = 0.8
FACTOR = 2.0
LONGEST = 30.0
JITTER = 1.0
CALM = 120.0


class Backoff:
    """Successive delays; ``random`` gives numbers in [0, 1), ``monotonic`` seconds."""

    def __init__(self, monotonic: Callable[[], float], random: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._random = random
        self._next = FIRST
        self._last: float | None = None

    def delay(self) -> float:
        """Return the seconds to wait before the next try."""
        now = self._monotonic()
        if self._last is not None and now - self._last > CALM:
            self._next = FIRST
        self._last = now
        base = self._next
        self._next = min(LONGEST, base * FACTOR)
        return base * (1.0 + JITTER * self._random())
