"""How often starts are worked out: each takes several searches on the whole cluster."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from math import inf

from msgspec import Struct

from extender.gang.runtime.clocks import Clocks
from extender.model.objects import GangKey

AGAIN_SECONDS = 2.0
"""A gang's start is not worked out again before."""
LONGEST_AGAIN_SECONDS = 30.0
FAILED_SECONDS = 300.0
"""A gang for which this fails is not tried again before: it would fail again."""
ROUND_SECONDS = 1.0
"""After so long a round begins nothing new, and no earlier start is looked for: a round lasts so
long and two questions to the planner at most."""
SHARE = 10
"""New starts are worked out a tenth of the time at most, whoever waits for one; those that do not
hold any more, another tenth."""


class _Tried(Struct, frozen=True):
    again: float
    """Monotonic time before which it is not tried again."""
    pause: float
    why: str
    at: float
    """When that was; of a gang that is paused, until when."""
    ended: int
    """How many pods had ended then: each may make a booking possible."""


class BookingPace:
    """When each gang is tried again, and why it was not booked."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._tried: dict[GangKey, _Tried] = {}
        self._ended = 0
        self._round_began = -inf
        self._next = {True: -inf, False: -inf}

    def begin(self) -> None:
        """A round begins."""
        self._round_began = self._clocks.monotonic()

    def late(self) -> bool:
        """Whether the round has lasted long enough."""
        return self._clocks.monotonic() - self._round_began >= ROUND_SECONDS

    def pod_ended(self) -> None:
        """Somebody's room has come free."""
        self._ended += 1

    def due(self, key: GangKey, *, new: bool) -> bool:
        """Whether the gang's start may be worked out now; ``new``: it has no booking yet."""
        return self._clocks.monotonic() >= max(self._next[new], self._again(key))

    def busy(self, *, new: bool) -> bool:
        """Whether no start at all may be worked out now."""
        return self.late() or self._clocks.monotonic() < self._next[new]

    @contextmanager
    def working(self, *, new: bool) -> Iterator[None]:
        """While a start is worked out: the next one has to wait in proportion."""
        began = self._clocks.monotonic()
        try:
            yield
        finally:
            now = self._clocks.monotonic()
            self._next[new] = now + SHARE * (now - began)

    def _again(self, key: GangKey) -> float:
        tried = self._tried.get(key)
        if tried is None:
            return -inf
        soon = tried.ended != self._ended
        return min(tried.again, tried.at + AGAIN_SECONDS) if soon else tried.again

    def made(self, key: GangKey) -> None:
        """A start was found."""
        now = self._clocks.monotonic()
        self._tried[key] = _Tried(now + AGAIN_SECONDS, AGAIN_SECONDS, "", now, self._ended)

    def not_made(self, key: GangKey, why: str) -> None:
        """There is none: it is tried again later and later."""
        tried = self._tried.get(key)
        pause = AGAIN_SECONDS if tried is None else min(2 * tried.pause, LONGEST_AGAIN_SECONDS)
        self._note(key, pause, why)

    def in_vain(self, key: GangKey, why: str) -> None:
        """A booking came to nothing."""
        self._note(key, LONGEST_AGAIN_SECONDS, why)

    def _note(self, key: GangKey, pause: float, why: str) -> None:
        now = self._clocks.monotonic()
        self._tried[key] = _Tried(now + pause, pause, why, now, self._ended)

    def pause(self, key: GangKey, why: str) -> None:
        """Let the gang go without a booking for a while, whoever ends meanwhile."""
        until = self._clocks.monotonic() + FAILED_SECONDS
        self._tried[key] = _Tried(until, LONGEST_AGAIN_SECONDS, why, until, self._ended)

    def paused(self, key: GangKey) -> bool:
        """Whether it is let go without one."""
        tried = self._tried.get(key)
        return tried is not None and tried.at > self._clocks.monotonic()

    def keep(self, keys: Container[GangKey]) -> None:
        """Forget all others, but for who is paused."""
        self._tried = {
            key: tried for key, tried in self._tried.items() if key in keys or self.paused(key)
        }

    def reasons(self) -> dict[GangKey, str]:
        """Return why gangs have not been booked."""
        return {key: tried.why for key, tried in self._tried.items() if tried.why}
