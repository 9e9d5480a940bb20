"""Who is leaving for whom, and who comes back after that. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from extender.settings.cost_order import work_words

Obj = Mapping[str, Any]
MOST_OWNERS = 3
"""Named in a sentence."""
COUNTED = (
    "; a Job counts it as a failure (backoffLimit), unless its podFailurePolicy ignores the "
    "condition DisruptionTarget"
)
"""https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-failure-policy"""


def leaving(reservations: Iterable[Obj], evictions: Iterable[Obj]) -> dict[str, str]:
    """Return gang -> for which one its pods go now, by their keys as text.

    Told by victims of plans under way that are not gone, and by units that have begun to go.
    """
    found = {str(unit["unit"]): str(unit.get("preemptor", "")) for unit in evictions}
    for preemption in reservations:
        for victim in preemption["victimsLeft"]:
            if victim["gang"]:
                found.setdefault(victim["gang"], str(preemption["gang"]))
    return found


def unit_name(unit: str, victims: Iterable[Obj]) -> str:
    """Return what a unit that goes is called: its gang, or the name of the pod that goes alone."""
    for victim in victims:
        if victim["uid"] == unit:
            return f"{victim['namespace']}/{victim['name']}"
    return unit


def lost_words(victims: Iterable[Obj]) -> str:
    """Return what work was lost with victims, to follow a sentence; a server may not say."""
    lost = sum(victim.get("lost", 0) for victim in victims)
    return f"; {work_words(lost)} of work lost" if lost else ""


def after_eviction(victims: Sequence[Obj]) -> str:
    """Return what comes in the place of pods that were evicted; None for an owner is "unknown"."""
    owners = [victim.get("owner") for victim in victims]
    named = sorted({owner for owner in owners if owner})
    several = len(victims) > 1
    pods = "new pods, which wait" if several else "a new pod, which waits"
    lines = []
    if named:
        more = f" and {len(named) - MOST_OWNERS} more" if len(named) > MOST_OWNERS else ""
        line = (
            f"{', '.join(named[:MOST_OWNERS])}{more} {'make' if len(named) > 1 else 'makes'} "
            f"{pods} for room like any other"
        )
        lines.append(line + (COUNTED if any(name.startswith("Job/") for name in named) else ""))
    if None in owners:
        whose = "their owners, if they have any, make" if several else "its owner, if it has one, "
        lines.append(f"{whose}{'' if several else 'makes'} {pods} for room like any other")
    bare = owners.count("")
    if bare:
        which = f"{bare} of them have" if several and bare < len(owners) else "it has"
        which = "they have" if several and bare == len(owners) else which
        wish = "them again if they are wanted" if bare > 1 else "it again if it is wanted"
        are = "they are" if bare > 1 else "it is"
        lines.append(f"{which} no owner, so {are} not created again: create {wish}")
    return "; ".join(lines)
