"""Warning events to owners: at most one a minute an object, and beside it one that is loud.

An event is a write to the API server that a tenant can cause by what it creates; told again and
again it costs more than what it tells of. What was withheld is counted, and the next one that is
told says what is true then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Decision
from extender.gang.tell.gang_status import status_after
from extender.model.fair_lru import Shares
from extender.model.plan import Code

PAUSE_SECONDS = 60.0
SAID_SECONDS = 3000.0
"""The same words are not said again to the same object for so long: events live for an hour."""
MOST_OBJECTS = 16_384
"""Objects remembered as told. Beyond it those of the namespace that has most of them make room for
others' and no more of its own are warned, until the minute of some is over."""

LOUD = frozenset({"GangBroken", "PreemptionIncomplete"})
"""An eviction that stopped half-way is told once. It must not be lost because its gang was refused
a moment ago, or because many others were."""

REASONS: Mapping[str, str] = {
    Code.CONFLICT: "GangNeedsRepair",
    Code.INFEASIBLE: "GangDoesNotFit",
    Code.UNSEEN: "GangDoesNotFit",
    Code.INCOMPLETE: "GangIncomplete",
    Code.BUDGET: "NamespaceEvictionsUsed",
    Code.PENALTY: "GangGaveUp",
}
"""Code of a refusal that an owner should see -> reason of the event."""


class _Said(Struct, frozen=True, gc=False):
    words: int
    """Their hash."""
    at: float


class OwnerWarnings:
    """Who was warned lately, and how often somebody was or was not."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._told: Shares[str, float] = Shares(MOST_OBJECTS)
        """Uid -> when it was told."""
        self._told_loud: Shares[str, float] = Shares(MOST_OBJECTS)
        self._said: Shares[tuple[str, str], _Said] = Shares(MOST_OBJECTS)
        """Object and reason -> what was said last."""
        self.told: Counter[str] = Counter()
        """Reason -> Warning events sent."""
        self.withheld: Counter[str] = Counter()
        """Reason -> Warning events not sent, because the object had one a moment ago."""

    def due(self, uid: str, namespace: str, reason: str, note: str = "") -> bool:
        """Whether an object may get a Warning event now; counts it either way."""
        now = self._clocks.monotonic()
        self._expire(now)
        said = self._said.get((uid, reason)) if note else None
        if said is not None and said.words == hash(note):
            self.withheld[reason] += 1
            return False
        told = self._told_loud if reason in LOUD else self._told
        if uid in told or uid in self._told_loud or not told.takes(namespace):
            self.withheld[reason] += 1
            return False
        told.put(uid, now, namespace)
        if note:
            self._said.put((uid, reason), _Said(hash(note), now), namespace)
        self.told[reason] += 1
        return True

    def said(self, uid: str, reason: str) -> bool:
        """Whether an object was told of a reason, in whatever words, while that can be read."""
        self._expire(self._clocks.monotonic())
        return (uid, reason) in self._said

    def _expire(self, now: float) -> None:
        for told in (self._told, self._told_loud):
            told.forget(lambda at: at + PAUSE_SECONDS <= now)
        self._said.forget(lambda said: said.at + SAID_SECONDS <= now)


def words_of(decision: Decision) -> tuple[str, str] | None:
    """Return reason and text of the event about a refusal; None where no owner need know."""
    reason = REASONS.get(decision.code)
    return None if reason is None else (reason, status_after(decision).text)
