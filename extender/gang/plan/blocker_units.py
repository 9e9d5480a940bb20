"""Pods in the way of a class on a node, as units in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.gang.incremental.victims import VictimUnit
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.search.problem import Blocker


def blockers_of(
    blocked: Sequence[Mapping[str, tuple[str, ...]]],
    names: Sequence[str],
    subjects: Sequence[VictimUnit | Pod | GangKey],
    allowed: list[bytearray],
    taken_over: Mapping[GangKey, Sequence[Hold]],
) -> tuple[Blocker, ...]:
    """Turn pods in the way into units in the way; a pod that stays closes the node.

    A pod whose seat may be taken over is one that goes: ``taken_over``, by gang.
    """
    if not any(blocked):
        return ()
    index = {name: at for at, name in enumerate(names)}
    unit_of: dict[str, int] = {}
    for i, subject in enumerate(subjects):
        if isinstance(subject, VictimUnit):
            unit_of.update((pod.uid, i) for pod in subject.pods)
        elif isinstance(subject, Pod):
            unit_of[subject.uid] = i
        else:
            unit_of.update((hold.uid, i) for hold in taken_over[subject])
    blockers: list[Blocker] = []
    for cls, found in enumerate(blocked):
        for name in sorted(found.keys() & index.keys()):
            node = index[name]
            ways = {unit_of.get(uid, -1) for uid in found[name]}
            if -1 in ways:
                allowed[cls][node] = 0
            elif allowed[cls][node]:
                blockers.append(Blocker(cls, node, tuple(sorted(ways))))
    return tuple(blockers)
