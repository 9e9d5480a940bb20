"""Where a pod of no gang may preempt: on nodes that kube-scheduler has named for it.

It names those on which the pod fits once others are gone, by all of its plugins, of which we know
a part. Other nodes are of use only where nobody has to go: room may have come there since the
question, or it was our word that kept the pod off.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from msgspec import Struct

from extender.gang.plan.question import Masks
from extender.model.gang import Gang
from extender.model.plan import Plan
from extender.model.snapshot import Snapshot

NOBODY: frozenset[str] = frozenset()


class Candidates(Struct, frozen=True):
    """The nodes of one question."""

    nodes: frozenset[str]
    asked: float
    """When the question came, monotonic."""

    def masks(
        self, single: Gang, snapshot: Snapshot, masks: Masks, free: AbstractSet[str] = NOBODY
    ) -> Masks:
        """Return ``masks`` with what leaves the pod no node but these, and those that are ``free``
        perhaps."""
        others = frozenset(snapshot.nodes) - self.nodes - free
        return {
            **masks,
            **{pod.uid: masks.get(pod.uid, NOBODY) | others for pod in single.members},
        }

    def allow(self, plan: Plan) -> bool:
        """Whether a plan that was searched for with nodes that are free perhaps takes nothing from
        anybody on these."""
        takes = plan.victims or plan.takes_over
        return not takes or all(seat.node in self.nodes for seat in plan.seats)
