"""Which bound pods may go for one preemptor, and as part of what.

Promise 4 lives here: a pod of equal or higher priority, a protected pod, or a
gang that holds one of these never goes. A pod that stays does so for a reason
in words, so that a refusal can name who stands in the way.
"""

from __future__ import annotations

from math import inf

from msgspec import Struct

from extender.gang.gangs import Gangs
from extender.gang.victims import Candidate, ElasticCandidate, leaves_in_time, protected
from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, Pod
from extender.model.settings import Settings

FREE = -(1 << 40)
"""Stands for the priority of room that costs no eviction: pods that terminate already."""
NEVER = "preemptionPolicy of the gang is Never"

Verdict = int | str
"""The priority at which the pod goes, or why it stays."""


class GangVerdict(Struct, frozen=True):
    """What the preemptor may do to one gang."""

    gang: Gang
    since: float
    until: float
    """Holds for since <= now < until."""
    stays: str = ""
    """Why the whole gang stays."""
    stayer: str = ""
    """Uid of the pod that makes it stay, when it is one pod."""
    stayer_name: str = ""
    whole: Candidate | None = None
    elastic: ElasticCandidate | None = None


class Verdicts:
    """Verdicts for one priority; what gangs rest on is looked at again when it changes."""

    def __init__(self, priority: int, preempts: bool, settings: Settings) -> None:
        self._priority = priority
        self._preempts = preempts
        self._plan = settings.plan
        self._seats = settings.seats
        self._gangs: Gangs | None = None
        self._kept: dict[GangKey, GangVerdict] = {}

    def renew(self, gangs: Gangs, now: float) -> set[str]:
        """Take a new state of the gangs; return the nodes whose pods' verdicts may differ."""
        self._gangs = gangs
        changed: set[str] = set()
        for key, old in list(self._kept.items()):
            gang = gangs[key]
            if gang is old.gang and old.since <= now < old.until:
                continue
            changed.update(pod.node for pod in (*old.gang.bound, *gang.bound))
            del self._kept[key]
        return changed

    def of_gang(self, key: GangKey, now: float) -> GangVerdict:
        """Return what may be done to the gang; ``renew`` must have been called."""
        found = self._kept.get(key)
        if found is None:
            assert self._gangs is not None
            found = self._kept[key] = self._judge(self._gangs[key], now)
        return found

    def of_pod(self, pod: Pod, key: GangKey | None, now: float) -> tuple[Verdict, float]:
        """Return the verdict on a bound pod, and until when (excluded) it holds at least."""
        if pod.deleting:
            return self._leaving(pod, now)
        if key is None:
            found, until = self._alone(pod, pod.priority, now)
        else:
            gang = self.of_gang(key, now)
            until = gang.until
            if gang.stays:
                return (gang.stays if pod.uid == gang.stayer else self._together(gang)), until
            if gang.whole is not None:
                found = gang.whole.priority
            else:
                most = max(pod.priority, gang.gang.victim_priority)
                found, own = self._alone(pod, most, now)
                until = min(until, own)
        if not self._preempts and isinstance(found, int):
            return NEVER, until
        return found, until

    def _together(self, verdict: GangVerdict) -> str:
        if not verdict.stayer:
            return verdict.stays
        return (
            f"its gang {verdict.gang.key} goes whole or stays, and "
            f"{verdict.stayer_name} stays: {verdict.stays}"
        )

    def _leaving(self, pod: Pod, now: float) -> tuple[Verdict, float]:
        moments = (
            pod.deleting - self._plan.patience_seconds,
            pod.deleting + self._seats.victim_slack_seconds,
        )
        until = min((moment for moment in moments if moment >= now), default=inf)
        if leaves_in_time(pod, now, self._plan, self._seats):
            return FREE, until
        return "terminates, but not within the patience", until

    def _alone(self, pod: Pod, priority: int, now: float) -> tuple[Verdict, float]:
        if priority >= self._priority:
            return f"priority {priority} is not below {self._priority}", inf
        why = protected(pod, self._plan, now)
        if why is None:
            return priority, inf
        # The reason tells the pod's age where that is what protects it.
        return why, now if self._plan.min_runtime_seconds else inf

    def _judge(self, victim: Gang, now: float) -> GangVerdict:
        if victim.problems:
            why = f"its gang {victim.key} has a problem: {victim.problems[0]}"
            return GangVerdict(victim, now, inf, stays=why)
        bound = victim.bound
        if victim.unit != UNIT_ALL:
            surplus = len(bound) - victim.min_count
            # A gang below its quorum is broken already: taking more of it breaks nothing.
            elastic = (
                ElasticCandidate(victim.key, surplus, victim.victim_priority)
                if surplus >= 0
                else None
            )
            return GangVerdict(victim, now, inf, elastic=elastic)
        for pod in bound:
            stays, until = self._alone(pod, max(pod.priority, victim.victim_priority), now)
            if isinstance(stays, str):
                return GangVerdict(victim, now, until, stays, pod.uid, pod.name)
        broken_already = any(member.deleting and member.disrupted for member in victim.members)
        whole = Candidate(
            uid=str(victim.key),
            pods=tuple(sorted(bound, key=lambda pod: pod.uid)),
            priority=max((victim.victim_priority, *(pod.priority for pod in bound))),
            gang=victim.key,
            whole=True,
            breaks_gang=not broken_already,
        )
        return GangVerdict(victim, now, inf, whole=whole)
