"""What happened within the last hour, and the last thing that went wrong. Bounded."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from msgspec import Struct

from extender.gang.tell.decisions import Decision, Outcome
from extender.model.plan import Code
from extender.model.texts import cut

MINUTE = 60.0
MINUTES = 60
LONGEST = 512
TROUBLE = frozenset((Outcome.GAVE_UP, Outcome.BROKEN, Outcome.IN_PART))


class Trouble(Struct, frozen=True):
    """Something that went wrong."""

    time: float
    """Wall clock, seconds since the epoch."""
    what: str


class Lately:
    """Counts by the minute: an hour is right to the minute. Times are given, in seconds."""

    def __init__(self) -> None:
        self._minutes: deque[tuple[int, Counter[str]]] = deque(maxlen=MINUTES + 1)
        self.trouble: Trouble | None = None
        """The last one."""

    def evicted(self, result: str, now: float) -> None:
        """Count how an eviction ended."""
        minute = int(now // MINUTE)
        # A clock that was set back counts on in the newest minute.
        if not self._minutes or self._minutes[-1][0] < minute:
            self._minutes.append((minute, Counter()))
        self._minutes[-1][1][result] += 1

    def evictions(self, now: float) -> Mapping[str, int]:
        """Return how many ended which way within the hour before ``now``, by result."""
        last = int(now // MINUTE)
        total: Counter[str] = Counter()
        for minute, counts in self._minutes:
            if last - minute < MINUTES:
                total.update(counts)
        return dict(sorted(total.items()))

    def failed(self, what: str, error: object, now: float) -> None:
        """Note a write that did not work."""
        self.trouble = Trouble(now, cut(f"{what}: {error}", LONGEST))

    def decided(self, decision: Decision) -> None:
        """Note a decision that says that something went wrong."""
        if decision.outcome in TROUBLE or decision.code == Code.API:
            text = f"{decision.gang}: {decision.outcome}: {decision.message}"
            self.trouble = Trouble(decision.time, cut(text, LONGEST))
