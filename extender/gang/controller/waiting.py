"""When a gang may be planned again, and what it was last told.

Searching is cheap but not free, and kube-scheduler asks once a member: a
refusal is given again while nothing changed, and for a moment even when
something did. A plan that failed makes the gang's next one wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from heapq import nsmallest
from typing import Any

from cachetools import TTLCache
from msgspec import Struct

from extender.gang.plan.fair_turns import Turn, place_of, retry_pause
from extender.gang.runtime.clocks import Clocks
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Refusal
from extender.model.texts import counted


class PendingGangs:
    """Gang keys with at least one tried, unbound, ungated member, kept per pod event.

    The controller loop looks here several times a second; walking over all pending pods for it
    would cost more the busier the cluster is.
    """

    def __init__(
        self, member_key: Callable[[Pod], GangKey | None], schedulers: tuple[str, ...]
    ) -> None:
        self._member_key = member_key
        self._schedulers = schedulers
        self._uids: dict[GangKey, set[str]] = {}
        self._key_of: dict[str, GangKey] = {}

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event."""
        pod = new if new is not None else old
        if pod is None:
            return
        key = self._member_key(pod) if pod is new and self._seeks(pod) else None
        before = self._key_of.get(pod.uid)
        if key == before:
            return
        if before is not None:
            del self._key_of[pod.uid]
            self._uids[before].discard(pod.uid)
            if not self._uids[before]:
                del self._uids[before]
        if key is not None:
            self._uids.setdefault(key, set()).add(pod.uid)
            self._key_of[pod.uid] = key

    def keys(self) -> list[GangKey]:
        """Return the gangs, in no order."""
        return list(self._uids)

    def _seeks(self, pod: Pod) -> bool:
        ours = not self._schedulers or pod.shape.scheduler in self._schedulers
        waits = not pod.node and not pod.gated and not pod.deleting and not pod.finished
        return pod.tried and waits and ours


def can_be_planned(gang: Gang) -> bool:
    """Whether it lacks seats and no members."""
    return bool(gang.starts_whole and gang.missing and gang.complete)


MAX_PENALTY = 60.0
MAX_TIMES = 6
"""After so many plans given up the penalty grows no more: 2 s doubled so often are beyond it."""
MEMORY_SECONDS = 600.0
MAX_GANGS = 65536
TIMED = (
    Code.SETTLING,
    Code.PENALTY,
    Code.API,
    Code.UNSEEN,
    Code.SUSPENDED,
    Code.TURN,
    Code.BUDGET,
    Code.SCALE_UP,
)
"""Refusals that time alone may lift."""
SEARCH_SHARE = 10
"""A refusal that took t seconds to find stands for SEARCH_SHARE x t at least, so that
at most a tenth of the time goes into asking again what was answered already."""


Version = tuple[int, int, int]
"""Snapshot generation, book version, version of what cannot be evicted."""


class _Answered(Struct, frozen=True):
    refusal: Refusal
    version: Version
    until: float
    lifts: float
    """When who is protected for a while may be evicted: it does not stand longer by itself."""
    turn: Turn | None
    """The gang's place among those that wait; None where it was not resolved."""
    took: float
    """Seconds that it took to find."""


class _Penalty(Struct):
    until: float
    times: int


class Waiting:
    """Per gang: the last refusal, the penalty for failed plans, when it last grew."""

    def __init__(
        self,
        clocks: Clocks,
        retry_seconds: float,
        settle_seconds: float,
        longest_retry: float,
        leaves_in_time: Callable[[Pod, float], bool],
    ) -> None:
        """``leaves_in_time(pod, now)`` tells of a terminating pod, at a wall clock time."""
        self._clocks = clocks
        self._leaves_in_time = leaves_in_time
        self._retry_seconds = retry_seconds
        self._longest_retry = longest_retry
        self._settle_seconds = settle_seconds
        self._rolled_back: Counter[GangKey] = Counter()
        """How many plans of a gang have bound members that are about to be deleted."""
        self._refused: TTLCache[GangKey, _Answered] = self._table()
        self._penalties: TTLCache[GangKey, _Penalty] = self._table()
        self._grown: TTLCache[GangKey, float] = self._table()
        self._sizes: TTLCache[GangKey, int] = self._table()
        """How many members a gang of unknown size had when none of them was leaving."""

    def _table(self) -> TTLCache[GangKey, Any]:
        """Nothing here matters for longer than a while; gangs come and go for ever."""
        return TTLCache(maxsize=MAX_GANGS, ttl=MEMORY_SECONDS, timer=self._clocks.monotonic)

    def rollback_began(self, key: GangKey) -> None:
        """Bound members of a plan of the gang are about to be deleted (seats.rollback)."""
        self._rolled_back[key] += 1

    def rollback_ended(self, key: GangKey) -> None:
        """They are deleted, or stay after all; no entry is left of a gang that is done with."""
        self._rolled_back -= Counter([key])

    def rolled_back(self, key: GangKey) -> bool:
        """Whether bound members of the gang are about to be deleted: none of them counts as its
        own."""
        return self._rolled_back[key] > 0

    def kept(self, key: GangKey, version: Version) -> Refusal | None:
        """Return the last refusal if it still stands.

        A refusal that only
        time can lift does not outlive its pause.
        """
        kept = self._refused.get(key)
        if kept is None:
            return None
        timed = kept.refusal.code in TIMED
        now = self._clocks.monotonic()
        if now < kept.until or (kept.version == version and not timed and now < kept.lifts):
            return kept.refusal
        return None

    def last(self, key: GangKey) -> Refusal | None:
        """Return the last refusal, whether it still stands or not."""
        kept = self._refused.get(key)
        return None if kept is None else kept.refusal

    def ahead(self, turn: Turn, version: Version, most: int, seconds: float) -> list[GangKey]:
        """Return gangs that were refused for want of room on another state, or before more pods
        could be evicted or a node came, and come before ``turn``: the more urgent first, then the
        oldest; ``most`` at most, and none whose last search took longer than ``seconds``."""
        now = self._clocks.monotonic()
        found = [
            (place, key)
            for key, kept in self._refused.items()
            if kept.turn is not None
            and kept.refusal.code in (Code.INFEASIBLE, Code.SCALE_UP)
            and (kept.version != version or now >= kept.lifts)
            and kept.took < seconds
            and (place := place_of(kept.turn)) < place_of(turn)
        ]
        return [key for _, key in nsmallest(most, found)]

    def refuse(
        self,
        refusal: Refusal,
        version: Version,
        seconds: float,
        wall: float,
        turn: Turn | None = None,
    ) -> None:
        """Keep a refusal that took ``seconds`` to find, at the wall clock time ``wall``."""
        pause = retry_pause(seconds, self._retry_seconds, self._longest_retry, SEARCH_SHARE)
        now = self._clocks.monotonic()
        self._refused[refusal.gang] = _Answered(
            refusal, version, now + pause, now + max(0.0, refusal.until - wall), turn, seconds
        )

    def must_wait(self, gang: Gang, wall: float) -> Refusal | None:
        """Return why the gang is not planned yet: a penalty, or members still arriving."""
        now = self._clocks.monotonic()
        penalty = self._penalties.get(gang.key)
        if penalty is not None and now < penalty.until:
            # No seconds that are left: a message that changes is told again and again.
            pause = min(MAX_PENALTY, 2.0**penalty.times)
            return Refusal(
                gang=gang.key,
                code=Code.PENALTY,
                message=f"its last plan was given up; the next one is made {pause:g} s after that",
            )
        if not gang.settles or gang.problems:
            return None
        why = "some of it have succeeded" if gang.size_known else "its size is stated nowhere"
        staying = sum(not pod.deleting for pod in gang.present)
        leaving = sum(self._leaves_in_time(pod, wall) for pod in gang.present if pod.deleting)
        if not leaving:
            self._sizes[gang.key] = staying
        elif staying < self._sizes.get(gang.key, staying + leaving):
            # Its owner makes each anew once it is gone: who is there by now is half a gang.
            return Refusal(
                gang=gang.key,
                code=Code.SETTLING,
                message=f"{why}; some of its members terminate, and "
                "their replacements are waited for",
            )
        quiet = now - self._grown.get(gang.key, float("-inf"))
        if quiet >= self._settle_seconds:
            return None
        return Refusal(
            gang=gang.key,
            code=Code.SETTLING,
            message=f"{why}: "
            f"{counted(len(gang.present), 'member', 'exists', 'exist')}, and "
            f"{self._settle_seconds:g} s without a new one are waited for",
        )

    def grown(self, key: GangKey) -> None:
        """Note that a member was seen for the first time: what was refused was another gang."""
        self._refused.pop(key, None)
        self._grown[key] = self._clocks.monotonic()

    def repaired(self, key: GangKey) -> None:
        """Forget the refusal: it was for a definition that is another one now."""
        self._refused.pop(key, None)

    def planned(self, key: GangKey) -> None:
        """Forget the refusal: the gang has a plan."""
        self._refused.pop(key, None)

    def failed(self, key: GangKey) -> None:
        """Make the gang wait: 2 s, doubling up to a minute."""
        before = self._penalties.get(key)
        times = 1 if before is None else min(before.times + 1, MAX_TIMES)
        pause = min(MAX_PENALTY, 2.0**times)
        self._penalties[key] = _Penalty(until=self._clocks.monotonic() + pause, times=times)

    def succeeded(self, key: GangKey) -> None:
        """Lift the penalty."""
        self._penalties.pop(key, None)
