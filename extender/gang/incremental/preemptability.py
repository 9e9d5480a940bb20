"""Which bound pods may go, at what priority of the preemptor, and as part of what.

Promise 4 lives here: a pod of equal or higher priority, or one that something shields
(extender.gang.incremental.protection), does not go. What a pod's end needs is said as one number,
the priority that a preemptor must exceed; who stays for which reason is told in words, so that a
refusal can name who stands in the way.

A gang that goes whole is one unit as long as its pods go at one priority. Where they differ, the
unit is everybody of it who may go for the preemptor that asks, all of them together: one shielded
or more urgent pod stays by itself and does not shield the others. Such a unit counts as its
lowest pod, so that one urgent pod does not make a gang costly either.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence, Set
from math import inf
from typing import NamedTuple

from msgspec import Struct

from extender.fit.selector_index import SelectorIndex
from extender.gang.incremental.aside import REPORT, Aside
from extender.gang.incremental.gangs import Gangs
from extender.gang.incremental.protection import Protections, Shield, oldest_start
from extender.gang.incremental.victims import (
    ElasticCandidate,
    VictimUnit,
    elastic_of,
    leaves_in_time,
)
from extender.groups.yunikorn import is_placeholder
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.search.census import FREE, STAYS
from extender.settings.settings import Settings

NEVER = "preemptionPolicy of the gang is Never"
NOT_IN_TIME = "terminates, but not within the patience"
REPLACED = "a placeholder of YuniKorn, which a pod of its application replaces"
TOO_URGENT = "priority {} is not below {}"
_TOO_URGENT = re.compile(TOO_URGENT.format(r"(-?\d+)", r"-?\d+"))


def outranking(why: str) -> int | None:
    """Return the priority for which a pod stays, None when it stays for another reason."""
    found = _TOO_URGENT.fullmatch(why)
    return int(found[1]) if found else None


class GangPreemptability(Struct, frozen=True):
    """What may be done to one gang by a preemptor that is urgent enough."""

    gang: Gang
    number: int
    """Unique among the preemptability of one process."""
    since: float
    until: float
    """Holds for since <= now < until."""
    floor: int = FREE
    """No pod of it goes below this: what the group states, or a shield for the whole gang."""
    shield: Shield | None = None
    """The shield for the whole gang behind ``floor``."""
    shielded: str = ""
    """Name of the pod that has it."""
    whole: VictimUnit | None = None
    together: frozenset[str] = frozenset()
    """Uids of the pods in ``whole``."""
    budgeted: bool = False
    """Some pod in ``whole`` has a disruption budget: the others stay where that pod has to."""
    tiers: tuple[int, ...] = ()
    """Where pods of a gang that goes whole go at different priorities: these, ascending."""
    elastic: tuple[ElasticCandidate, ...] = ()


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
        self.protections = Protections(settings)
        self.aside = Aside()
        self._plan = settings.plan
        self._seats = settings.seats
        self._longest = settings.eviction.longest_grace_seconds
        self._gangs: Gangs | None = None
        self._guards = SelectorIndex()
        self._snapshot = Snapshot(generation=-1)
        self._kept: dict[GangKey, GangPreemptability] = {}
        self._tiered: set[GangKey] = set()
        """Gangs whose unit depends on who asks."""
        self._asked = STAYS
        self._last_number = -1
        self.by_number: dict[int, GangPreemptability] = {}

    def renew(
        self, gangs: Gangs, guards: SelectorIndex, snapshot: Snapshot, reguarded: Set[str]
    ) -> set[str]:
        """Take a new state of the gangs; return the nodes whose pods' preemptability may differ.

        ``guards``: which disruption budgets speak for a pod; ``reguarded``: the namespaces where
        they differ from the last. Pods that fewer or more of them match, pods that became
        unevictable or are so no more, and pods in namespaces with other labels or of classes that
        tolerate other preemptors, are the caller's to look up.
        """
        self._gangs = gangs
        self._guards = guards
        last, self._snapshot = self._snapshot, snapshot
        same = snapshot.namespaces is last.namespaces
        same = same and snapshot.priority_classes is last.priority_classes
        moved = {name for name, _ in snapshot.stayed.items() ^ last.stayed.items()}
        now = snapshot.now
        changed: set[str] = set()
        refused = set(last.unevictable.items()) ^ set(snapshot.unevictable.items())
        touched = {uid for uid, _ in refused}
        if snapshot.spared is not last.spared:
            touched |= snapshot.spared.keys() | last.spared.keys()
        for key, old in list(self._kept.items()):
            gang = gangs[key]
            if (
                same
                and gang is old.gang
                and key.namespace not in moved
                and key.namespace not in reguarded
                and old.since <= now < old.until
                and not (touched and any(pod.uid in touched for pod in gang.members))
            ):
                continue
            self._forget(key, changed)
            changed.update(pod.node for pod in gang.members if pod.node)
        return changed

    def face(self, asked: int) -> set[str]:
        """Judge gangs by what a preemptor of priority ``asked`` may do to them.

        Returns the nodes whose pods' preemptability differs from what was asked about last.
        """
        changed: set[str] = set()
        before, self._asked = self._asked, asked
        for key in list(self._tiered):
            tiers = self._kept[key].tiers
            if bisect_left(tiers, before) != bisect_left(tiers, asked):
                self._forget(key, changed)
        return changed

    def _forget(self, key: GangKey, changed: set[str]) -> None:
        old = self._kept.pop(key)
        self._tiered.discard(key)
        del self.by_number[old.number]
        changed.update(pod.node for pod in old.gang.members if pod.node)

    def of_gang(self, key: GangKey, now: float) -> GangPreemptability:
        """Return what may be done to the gang; ``renew`` must have been called."""
        found = self._kept.get(key)
        if found is None:
            assert self._gangs is not None
            self._last_number += 1
            gang = self._gangs[key]
            try:
                found = self._judge(gang, now)
            except Exception as error:  # a mistake of ours about this gang
                self.aside.put(gang.bound, error)
                found = GangPreemptability(gang, self._last_number, now, inf, STAYS)
            self._kept[key] = self.by_number[found.number] = found
            if found.tiers:
                self._tiered.add(key)
        return found

    def of_pod(
        self, pod: Pod, key: GangKey | None, now: float, budgets: int | None = None
    ) -> Leave:
        """Return at what priority a bound pod goes; ``budgets`` as for ``_shields``."""
        try:
            gang = None if key is None else self.of_gang(key, now)
            if self.aside.kept and self.aside.why(pod):
                return Leave(STAYS, inf, gang, whole=False)
            if pod.deleting:
                if self.protections.leaves(pod, now):
                    return self._leaving(pod, gang, now)
                return self._lingering(pod, gang)
            if gang is None:
                shields = self._shields(pod, budgets=budgets)
                if not shields:
                    return Leave(pod.priority, inf, None, whole=False)  # most pods
                priority, until = self._alone(pod, shields)
                return Leave(priority, until, None, whole=False)
            if gang.whole is not None and pod.uid in gang.together:
                return Leave(gang.whole.priority, gang.until, gang, whole=True)
            started = oldest_start(gang.gang) if gang.gang.goes_whole else None
            shields = self._shields(pod, started, budgets, gang.gang)
            priority, until = self._alone(pod, shields, gang.floor)
            return Leave(priority, min(until, gang.until), gang, whole=False)
        except Exception as error:  # a mistake of ours about this pod
            self.aside.put((pod,), error)
            return Leave(STAYS, inf, None, whole=False)

    def why_stays(self, pod: Pod, key: GangKey | None, preemptor: Gang, now: float) -> str:
        """Return in words why the pod does not go for this preemptor; "" when it goes."""
        try:
            return self.aside.why(pod) or self._why_stays(pod, key, preemptor, now)
        except Exception as error:  # a mistake of ours about this pod
            return REPORT.format(type(error).__name__)

    def _why_stays(self, pod: Pod, key: GangKey | None, preemptor: Gang, now: float) -> str:
        asked = preemptor.preemptor_priority
        if self.protections.leaves(pod, now):
            in_time = leaves_in_time(pod, now, self._plan, self._seats)
            return self._not_counted_on(pod) or ("" if in_time else NOT_IN_TIME)
        least, started = pod.priority, None
        verdict = None if key is None else self.of_gang(key, now)
        if verdict is not None:
            gang = verdict.gang
            if not gang.problems:
                least = max(least, gang.victim_priority)
            started = oldest_start(gang) if gang.goes_whole else None
        if least >= asked:
            return TOO_URGENT.format(least, asked)
        for shield in self._shields(pod, started, gang=None if verdict is None else verdict.gang):
            if asked < shield.below:
                return shield.why
        if verdict is not None and verdict.shield is not None and asked < verdict.shield.below:
            return (
                f"its gang {verdict.gang.key} is evicted completely or not at all, "
                f"and {verdict.shielded} stays: {verdict.shield.why}"
            )
        return "" if preemptor.preempts else NEVER

    def _leaving(self, pod: Pod, gang: GangPreemptability | None, now: float) -> Leave:
        moments = (
            pod.deleting - self._plan.patience_seconds,
            pod.deleting + self._seats.victim_slack_seconds,
        )
        until = min((moment for moment in moments if moment >= now), default=inf)
        counts = not self._not_counted_on(pod) and leaves_in_time(pod, now, self._plan, self._seats)
        return Leave(FREE if counts else STAYS, until, gang, whole=False)

    def _not_counted_on(self, pod: Pod) -> str:
        """Return why a terminating pod is not waited for, "" when that was not in vain yet."""
        if is_placeholder(pod) and not pod.disrupted:
            return REPLACED
        state = self._snapshot
        return state.unevictable.get(pod.uid) or state.stayed.get(pod.namespace) or ""

    def _lingering(self, pod: Pod, gang: GangPreemptability | None) -> Leave:
        """A pod that takes longer to end than it may as a victim goes as one by itself."""
        priority, until = self._alone(pod, self._shields(pod), FREE if gang is None else gang.floor)
        entitled = min(pod.grace, self._longest) + self._seats.victim_slack_seconds
        ends = pod.deleting - max(self._plan.patience_seconds, entitled)
        return Leave(
            priority, min(until, ends, inf if gang is None else gang.until), gang, whole=False
        )

    def _shields(
        self,
        pod: Pod,
        started: float | None = None,
        budgets: int | None = None,
        gang: Gang | None = None,
    ) -> Sequence[Shield]:
        """``budgets``: how many disruption budgets match the pod, where that is known."""
        if budgets is None:
            budgets = self._guards.count(pod.namespace, pod.labels)
        return self.protections.shields(
            pod, self._snapshot, budgets=budgets, started=started, gang=gang
        )

    def _alone(self, pod: Pod, shields: Sequence[Shield], floor: int = FREE) -> tuple[int, float]:
        """At what priority the pod by itself goes, and until when that holds at least."""
        priority, until = max(pod.priority, floor), inf
        if not shields:
            return priority, until
        for shield in shields:
            # A shield against preemptors below N is as good as a priority of N - 1.
            priority = max(priority, shield.below if shield.below >= STAYS else shield.below - 1)
            until = min(until, shield.until)
        return priority, until

    def _judge(self, victim: Gang, now: float) -> GangPreemptability:
        number = self._last_number
        if victim.problems:
            # What the gang would be is not known: single pods, each of its own priority.
            return GangPreemptability(victim, number, now, inf)
        bound, floor = victim.bound, victim.victim_priority
        if not victim.goes_whole:
            return GangPreemptability(victim, number, now, inf, floor, elastic=elastic_of(victim))
        started = oldest_start(victim)
        shields = [(pod, self._shields(pod, started, gang=victim)) for pod in bound]
        shield, shielded = None, ""
        for pod, found in shields:
            for each in found:
                if each.gang and (shield is None or each.below > shield.below):
                    shield, shielded = each, pod.name
        if shield is not None:
            floor = max(floor, shield.below if shield.below >= STAYS else shield.below - 1)
        leaves = {pod.uid: self._alone(pod, found, floor) for pod, found in shields}
        until = min(until for _, until in leaves.values())
        tiers = tuple(sorted({priority for priority, _ in leaves.values()}))
        least = tiers[0]
        base = GangPreemptability(victim, number, now, until, floor, shield, shielded)
        if least >= STAYS:
            return base
        most = max(least + 1, self._asked)
        goes = [pod for pod in bound if leaves[pod.uid][0] < most]
        broken_already = any(member.deleting and member.disrupted for member in victim.members)
        whole = VictimUnit(
            uid=str(victim.key),
            pods=tuple(sorted(goes, key=lambda pod: pod.uid)),
            priority=least,
            gang=victim.key,
            whole=True,
            breaks_gang=not broken_already,
        )
        return GangPreemptability(
            victim,
            number,
            now,
            until,
            floor,
            shield,
            shielded,
            whole,
            frozenset(pod.uid for pod in goes),
            budgeted=any(self._guards.count(pod.namespace, pod.labels) for pod in goes),
            tiers=tiers if len(tiers) > 1 else (),
        )
