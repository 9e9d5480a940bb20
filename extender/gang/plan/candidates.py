"""Where a pod of no gang may preempt: on nodes that kube-scheduler has named for it.

It names those on which the pod fits once others are gone, by all of its plugins, of which we know
a part. Other nodes are of use only where nobody has to go: room may have come there since the
question, or it was our word that kept the pod off.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

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
    since: frozenset[str] = NOBODY
    """Nodes that it has offered since then: there the pod fits with nobody gone."""

    def offered(self, names: Iterable[str]) -> Candidates:
        """Return these with what kube-scheduler offers by now."""
        return replace(self, since=self.since.union(names))

    def masks(
        self, single: Gang, snapshot: Snapshot, masks: Masks, free: AbstractSet[str] = NOBODY
    ) -> Masks:
        """Return ``masks`` with what leaves the pod no node but these, and those that are ``free``
        perhaps."""
        others = frozenset(snapshot.nodes) - self.nodes - self.since - free
        return {
            **masks,
            **{pod.uid: masks.get(pod.uid, NOBODY) | others for pod in single.members},
        }

    def allow(self, plan: Plan) -> bool:
        """Whether a plan that was searched for with nodes that are free perhaps takes nothing from
        anybody on these."""
        takes = plan.victims or plan.takes_over
        return not takes or all(seat.node in self.nodes | self.since for seat in plan.seats)
