"""Victim units of a problem, from what the census gathered and who stands in the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.victims import ElasticCandidate, VictimUnit
from extender.groups.composite import unit_key
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.search.census import FREE, Gathered, Releases


class Units(Struct, frozen=True):
    """Candidates and leaving pods, each with what it releases, by uid."""

    candidates: tuple[tuple[VictimUnit, Releases], ...] = ()
    leaving: tuple[tuple[Pod, Releases], ...] = ()
    """Pods that terminate in time anyway."""
    elastic: tuple[ElasticCandidate, ...] = ()
    """Gangs, or their parts, of which candidates are single pods."""


def units_of(
    gathered: Gathered,
    in_the_way: Iterable[tuple[Pod, GangKey | None]],
    planning: PlanningCache,
    most: int,
) -> Units:
    """Return the units; pods in the way are some even if their room is not needed.

    ``most`` is the highest priority at which pods may go.
    """
    preemptability, now = planning.preemptability, planning.now
    whole: dict[int, Releases] = dict(gathered.whole)
    candidates: list[tuple[VictimUnit, Releases]] = list(gathered.alone)
    leaving: list[tuple[Pod, Releases]] = list(gathered.leaving)
    alone = {candidate.uid for candidate, _ in candidates} if in_the_way else set()
    leaves = {pod.uid for pod, _ in leaving} if in_the_way else set()
    for pod, key in in_the_way:
        priority, _, gang, together = preemptability.of_pod(pod, key, now)
        if priority > most or pod.uid in alone or pod.uid in leaves:
            continue
        if priority == FREE:
            leaving.append((pod, ()))
        elif together and gang is not None:
            whole.setdefault(gang.number, ())
        else:
            left = None if pod.deleting else key
            unit = VictimUnit(uid=pod.uid, pods=(pod,), priority=priority, gang=left)
            candidates.append((unit, ()))
    keys = {unit.gang for unit, _ in candidates if unit.gang is not None}
    for number, releases in whole.items():
        everybody = preemptability.by_number[number].whole
        assert everybody is not None
        candidates.append((everybody, releases))
    elastic = (each for key in sorted(keys) for each in preemptability.of_gang(key, now).elastic)
    return Units(
        tuple(sorted(candidates, key=_uid)),
        tuple(sorted(leaving, key=_uid)),
        tuple(elastic),
    )


def _uid(entry: tuple[VictimUnit | Pod, Releases]) -> str:
    return entry[0].uid


def without(units: Units, own: frozenset[str]) -> Units:
    """Return the units but for those of which a pod is in ``own``.

    Members that go with another group than they start with are not known by their gang's number.
    """
    kept = [each for each in units.candidates if not any(p.uid in own for p in each[0].pods)]
    return units if len(kept) == len(units.candidates) else replace(units, candidates=tuple(kept))


def within(
    units: Units, patience: float, longest_grace: int, now: float
) -> tuple[Units, tuple[Pod, ...]]:
    """Return the units that are gone after ``patience`` seconds, and the pods that are not.

    A victim takes its grace period, ``longest_grace`` at most; a unit as long as its last pod.
    """
    slow = [
        pod
        for unit, _ in units.candidates
        for pod in unit.pods
        if min(pod.grace, longest_grace) > patience
    ]
    late = [pod for pod, _ in units.leaving if pod.deleting - now > patience]
    if not slow and not late:
        return units, ()
    gone = frozenset(pod.uid for pod in (*slow, *late))
    leaving = tuple([each for each in units.leaving if each[0].uid not in gone])
    return replace(without(units, gone), leaving=leaving), (*slow, *late)


def ways(
    blocked: Iterable[Mapping[str, tuple[str, ...]]],
    own: GangKey,
    snapshot: Snapshot,
    planning: PlanningCache,
) -> list[tuple[Pod, GangKey | None]]:
    """Return all pods in the way of some class on some node; of the own gang those that leave."""
    uids = {uid for found in blocked for uids in found.values() for uid in uids}
    if not uids:
        return []
    found = [
        (pod, key, unit_key(key, pod))
        for name in planning.names
        for pod in snapshot.bound.get(name, ())
        if pod.uid in uids
        for key in (planning.member_key(pod),)
    ]
    return [(pod, unit) for pod, key, unit in found if key != own or pod.deleting]
