"""PersistentVolumeClaims that members name: what seats say of them."""

from __future__ import annotations

from collections import Counter

from extender.model.gang import Gang
from extender.model.objects import VOLUME_CLAIM
from extender.model.plan import Plan

NamedClaim = tuple[str, str]
"""Namespace and name of a PersistentVolumeClaim."""


def claims_together(plan: Plan, gang: Gang) -> dict[NamedClaim, int]:
    """Return the claims that several seated members name -> how many members do."""
    shapes = {pod.uid: pod.shape for pod in gang.pending if pod.shape.unmodelled}
    found = Counter(
        (seat.namespace, name)
        for seat in plan.seats
        if seat.uid in shapes
        for kind, _, name in (each.partition(" ") for each in shapes[seat.uid].unmodelled)
        if kind == VOLUME_CLAIM and name
    )
    return {claim: count for claim, count in sorted(found.items()) if count > 1}
