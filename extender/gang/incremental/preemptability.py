"""Which bound pods may go, at what priority of the preemptor, and as part of what.

Promise 4 lives here: a pod of equal or higher priority, a protected pod, or a
gang that holds one of these never goes. What a pod's end needs is the same for
every preemptor but for the priority it must have; who stays for which reason is
told in words, so that a refusal can name who stands in the way.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import NamedTuple

from msgspec import Struct

from extender.fit.selector_index import SelectorIndex
from extender.gang.incremental.gangs import Gangs
from extender.gang.incremental.victims import Candidate, ElasticCandidate, leaves_in_time, protected
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.settings import Settings
from extender.model.snapshot import EMPTY
from extender.search.census import FREE, STAYS

NEVER = "preemptionPolicy of the gang is Never"
NOT_IN_TIME = "terminates, but not within the patience"


class GangPreemptability(Struct, frozen=True):
    """What may be done to one gang by a preemptor that is urgent enough."""

    gang: Gang
    number: int
    """Unique among the preemptability of one process."""
    since: float
    until: float
    """Holds for since <= now < until."""
    stays: str = ""
    """Why the whole gang stays, whoever asks."""
    stayer: str = ""
    """Uid of the pod that makes it stay, when it is one pod."""
    stayer_name: str = ""
    whole: Candidate | None = None
    elastic: ElasticCandidate | None = None


class Leave(NamedTuple):
    """At what priority a pod goes."""

    priority: int
    """FREE: its room comes by itself. STAYS: it never goes."""
    until: float
    """It holds until then (excluded) at least."""
    gang: GangPreemptability | None
    whole: bool
    """It goes with its gang only."""


class Preemptability:
    """Preemptability; what gangs rest on is looked at again when it changes."""

    def __init__(self, settings: Settings) -> None:
        self._plan = settings.plan
        self._seats = settings.seats
        self._gangs: Gangs | None = None
        self._guards = SelectorIndex()
        self._kept: dict[GangKey, GangPreemptability] = {}
        self._last_number = -1
        self._unevictable: Mapping[str, str] = EMPTY
        self.by_number: dict[int, GangPreemptability] = {}

    def renew(
        self,
        gangs: Gangs,
        guards: SelectorIndex,
        now: float,
        unevictable: Mapping[str, str] = EMPTY,
    ) -> set[str]:
        """Take a new state of the gangs; return the nodes whose pods' preemptability may differ.

        ``guards``: which disruption budgets speak for a pod. Pods that became ``unevictable``
        or are so no more are the caller's to look up.
        """
        self._gangs = gangs
        same, self._guards = guards is self._guards, guards
        changed: set[str] = set()
        refused = set(self._unevictable.items()) ^ set(unevictable.items())
        touched = {uid for uid, _ in refused}
        self._unevictable = unevictable
        for key, old in list(self._kept.items()):
            gang = gangs[key]
            if (
                same
                and gang is old.gang
                and old.since <= now < old.until
                and not (touched and any(pod.uid in touched for pod in gang.members))
            ):
                continue
            changed.update(pod.node for pod in (*old.gang.members, *gang.members) if pod.node)
            del self._kept[key]
            del self.by_number[old.number]
        return changed

    def of_gang(self, key: GangKey, now: float) -> GangPreemptability:
        """Return what may be done to the gang; ``renew`` must have been called."""
        found = self._kept.get(key)
        if found is None:
            assert self._gangs is not None
            self._last_number += 1
            found = self._judge(self._gangs[key], now)
            self._kept[key] = self.by_number[found.number] = found
        return found

    def of_pod(self, pod: Pod, key: GangKey | None, now: float) -> Leave:
        """Return at what priority a bound pod goes."""
        gang = None if key is None else self.of_gang(key, now)
        if pod.deleting:
            return self._leaving(pod, gang, now)
        if gang is None:
            why, until = self._protected(pod, now)
            return Leave(STAYS if why else pod.priority, until, None, False)
        if gang.stays:
            return Leave(STAYS, gang.until, gang, False)
        if gang.whole is not None:
            return Leave(gang.whole.priority, gang.until, gang, True)
        why, until = self._protected(pod, now)
        most = STAYS if why else max(pod.priority, gang.gang.victim_priority)
        return Leave(most, min(until, gang.until), gang, False)

    def why_stays(self, pod: Pod, key: GangKey | None, preemptor: Gang, now: float) -> str:
        """Return in words why the pod does not go for this preemptor; "" when it goes."""
        asked = preemptor.preemptor_priority
        if pod.deleting:
            return "" if leaves_in_time(pod, now, self._plan, self._seats) else NOT_IN_TIME
        least = pod.priority
        if key is not None:
            verdict = self.of_gang(key, now)
            if verdict.stays:
                if verdict.stayer in ("", pod.uid):
                    return verdict.stays
                return _together(verdict, verdict.stayer_name, verdict.stays)
            least = max(least, verdict.gang.victim_priority)
            if verdict.whole is not None and verdict.whole.priority >= asked > least:
                higher = max(verdict.whole.pods, key=lambda member: member.priority)
                return _together(verdict, higher.name, _too_high(higher.priority, asked))
        if least >= asked:
            return _too_high(least, asked)
        why, _ = self._protected(pod, now)
        return why or ("" if preemptor.preempts else NEVER)

    def _leaving(self, pod: Pod, gang: GangPreemptability | None, now: float) -> Leave:
        moments = (
            pod.deleting - self._plan.patience_seconds,
            pod.deleting + self._seats.victim_slack_seconds,
        )
        until = min((moment for moment in moments if moment >= now), default=inf)
        in_time = leaves_in_time(pod, now, self._plan, self._seats)
        return Leave(FREE if in_time else STAYS, until, gang, False)

    def _protected(self, pod: Pod, now: float) -> tuple[str, float]:
        """Why the pod stays, "" when it need not, and until when that holds at least."""
        refused = self._unevictable.get(pod.uid)
        if refused is not None:
            return f"its eviction was refused: {refused}", inf
        why = protected(pod, self._plan, now)
        if self._plan.pdb_policy == "respect":
            budgets = len(self._guards.matching(pod.namespace, pod.labels))
            if budgets > 1:
                return f"{budgets} disruption budgets match it: the Eviction API refuses it", inf
        if why is None:
            return "", inf
        if protected(pod, self._plan, inf) is None:
            return why, pod.started + self._plan.min_runtime_seconds
        return why, inf

    def _judge(self, victim: Gang, now: float) -> GangPreemptability:
        number = self._last_number
        if victim.problems:
            why = f"its gang {victim.key} has a problem: {victim.problems[0]}"
            return GangPreemptability(victim, number, now, inf, stays=why)
        bound = victim.bound
        if not victim.goes_whole:
            surplus = len(bound) - victim.min_count
            # A gang below its quorum is broken already: taking more of it breaks nothing,
            # and its members lose nothing together.
            elastic = (
                ElasticCandidate(victim.key, surplus, victim.victim_priority)
                if surplus >= 0
                else None
            )
            return GangPreemptability(victim, number, now, inf, elastic=elastic)
        for pod in bound:
            stays, until = self._protected(pod, now)
            if stays:
                # What stays for its youth tells its age, so it is judged anew each time.
                until = inf if until == inf else now
                return GangPreemptability(victim, number, now, until, stays, pod.uid, pod.name)
        broken_already = any(member.deleting and member.disrupted for member in victim.members)
        whole = Candidate(
            uid=str(victim.key),
            pods=tuple(sorted(bound, key=lambda pod: pod.uid)),
            priority=max((victim.victim_priority, *(pod.priority for pod in bound))),
            gang=victim.key,
            whole=True,
            breaks_gang=not broken_already,
        )
        return GangPreemptability(victim, number, now, inf, whole=whole)


def _together(verdict: GangPreemptability, name: str, why: str) -> str:
    return f"its gang {verdict.gang.key} goes whole or stays, and {name} stays: {why}"


def _too_high(priority: int, asked: int) -> str:
    return f"priority {priority} is not below {asked}"
