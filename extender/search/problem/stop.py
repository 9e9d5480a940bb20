"""When a search ends early: its branches, its deadline, and a flag that another thread sets.

One Stop is made for each question and asked by every loop of every solver. Those in
Python ask it themselves; the compiled ones are given what it rests on (core/clock.pxd).
"""

from __future__ import annotations

from array import array
from math import inf
from time import monotonic
from typing import Protocol

from extender.search.problem.types import Limits

PAST = 1e-9
"""A moment that passed when the clock began."""


class Flag(Protocol):
    """A byte in shared memory that another thread may set: array('b', [0])."""

    def __getitem__(self, index: int, /) -> int:
        """At index 0: not 0 to stop with the best answer there is, or a first one; above 1
        to stop at once, with or without."""


class Countdown:
    """A flag that says "go on" so many times and then stops the search: the same moment of
    the same search on every machine, wherever it lies."""

    def __init__(self, asks: int) -> None:
        self.asks = array("q", [asks])
        """(1,) what is left of them; compiled loops count here too."""

    def __getitem__(self, index: int, /) -> int:
        """As Flag."""
        self.asks[0] -= 1
        return 1 if self.asks[0] < 0 else 0


class OutOfTime(Exception):  # noqa: N818  # no error: the search is over
    """The deadline has passed, or the flag is set."""


class Stop:
    """What is left of a search's time and branches."""

    def __init__(
        self,
        limits: Limits | None = None,
        deadline: float | None = None,
        cancel: Flag | None = None,
    ) -> None:
        self.limit = (limits or Limits()).branch_nodes
        self.used = 0
        self.deadline = deadline or 0.0
        """A time.monotonic value; 0 for none."""
        self.cancel = cancel
        self.wide = False
        """Something was left out because there were more ways than are looked at."""

    @property
    def hurried(self) -> bool:
        """Whether it ends sooner or later whatever the search finds: a deadline, a countdown."""
        return self.deadline > 0 or isinstance(self.cancel, Countdown)

    @property
    def left(self) -> int:
        """Branches that may still be looked at."""
        return max(0, self.limit - self.used)

    @property
    def seconds(self) -> float:
        """Until the deadline, where there is one."""
        return self.deadline - monotonic() if self.deadline > 0 else inf

    def over(self) -> bool:
        """Whether the time is up or the flag is set."""
        if self.cancel is not None and self.cancel[0]:
            return True
        return self.deadline > 0 and monotonic() >= self.deadline

    def check(self) -> None:
        """Raise OutOfTime when it is over."""
        if self.over():
            raise OutOfTime

    def check_first(self) -> None:
        """Raise OutOfTime when not even a first answer is waited for any more."""
        if self.cancel is not None and self.cancel[0] > 1:
            raise OutOfTime

    def spend(self) -> bool:
        """Take one branch; False when none is left or the search is over."""
        if self.used >= self.limit or self.over():
            return False
        self.used += 1
        return True

    def why(self) -> str:
        """What ended the search, in words; "" when nothing did."""
        if self.cancel is not None and self.cancel[0]:
            return "it was cancelled"
        if self.over():
            return "its time was up"
        if self.used >= self.limit:
            return "its work was used up"
        return "there are more ways to seat its members than are looked at" if self.wide else ""


def at_once(limits: Limits | None, cancel: Flag | None) -> Stop:
    """A Stop whose time is up, for what asks no clock: the flag at 2 alone ends it."""
    return Stop(limits, PAST, None if isinstance(cancel, Countdown) else cancel)


def sooner(deadline: float, seconds: float) -> float:
    """The deadline, or so many seconds from now where that is sooner."""
    return min(deadline, monotonic() + seconds)


def part_of(deadline: float | None, share: float) -> float | None:
    """The moment at which a share of the time until the deadline is over."""
    if not deadline:
        return deadline
    now = monotonic()
    return now + max(0.0, deadline - now) * share
