"""How long to wait after a failure.

As in client-go's reflector (tools/cache/reflector.go): 0.8 s doubling to 30 s, each stretched
by up to its own length, from the start again after 2 min calm. There a watch that has shown
anything, or lived for a second, is opened again at once and costs no pause at all. Here so does
one that lived for some seconds; a shorter one sets the pauses back to the first, so that no
server is asked more than about once a second, whatever it does.

There a version that is too old is one failure more, after which the whole state is read up to a
minute later. Here it sets the pauses back, once until a watch is open again: a server that says so
is well, and most likely it was away before, which is what the pauses had grown by.
"""

from __future__ import annotations

from collections.abc import Callable

FIRST = 0.8
FACTOR = 2.0
LONGEST = 30.0
JITTER = 1.0
CALM = 120.0
BRIEF = 1.0
"""A watch that was open for less says nothing for the server."""
STABLE = 5.0
"""After a watch that was open for this long the first new try is made at once."""


class Backoff:
    """Successive delays; ``random`` gives numbers in [0, 1), ``monotonic`` seconds."""

    def __init__(self, monotonic: Callable[[], float], random: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._random = random
        self._next = FIRST
        self._last: float | None = None
        self._set_back = False
        """A version was too old, and no watch was open since."""

    def delay(self) -> float:
        """Return the seconds to wait before the next try."""
        now = self._monotonic()
        if self._last is not None and now - self._last > CALM:
            self._next = min(self._next, FIRST)
        self._last = now
        base = self._next
        self._next = min(LONGEST, base * FACTOR) or FIRST
        return base * (1.0 + JITTER * self._random())

    def was_open(self, seconds: float) -> None:
        """Take note that what now ends was open, and heard from, for so long."""
        self._set_back &= seconds < BRIEF
        if seconds >= STABLE:
            self._next = 0.0
        elif seconds >= BRIEF:
            self._next = min(self._next, FIRST)

    def too_old(self) -> None:
        """Take note that the server is well, but has no more what a watch would go on from."""
        if not self._set_back:
            self._set_back = True
            self._next = min(self._next, FIRST)
