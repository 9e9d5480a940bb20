"""A pod of no gang as a gang of one, for the one plan that it needs."""

from __future__ import annotations

from extender.model.gang import UNIT_ALL, Gang
from extender.model.objects import GangKey, Pod

SINGLE = "pod"
"""Dialect name of a plan for one pod of no gang."""


def single_gang(pod: Pod) -> Gang:
    """Return a gang of one for a pod of no gang."""
    return Gang(
        key=GangKey(SINGLE, pod.namespace, pod.name),
        members=(pod,),
        min_count=1,
        unit=UNIT_ALL,
        preemptor_priority=pod.priority,
        victim_priority=pod.priority,
        preempts=pod.preempts,
    )
