"""What the planner is asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Hold, Victim
from extender.model.snapshot import Snapshot

Masks = Mapping[str, frozenset[str]]
"""Member uid -> node names."""


class GangQuestion(Struct, frozen=True):
    """Which seats and which victims for this gang, on this snapshot?"""

    gang: Gang
    snapshot: Snapshot
    holds: Iterable[Hold] = ()
    """Untaken seats of every gang; its own are ignored."""
    masks: Masks | None = None
    """Nodes that are refused for a member's class."""
    offered: Masks | None = None
    """Every node that kube-scheduler accepts for a member now: a node where the pod fits by our
    own rules and that is not among them is not used for its class (volumes, devices, or a pod
    bound a moment ago stand against it)."""
    quick: bool = False
    """Others wait meanwhile: beside the question only such changes are tried as cost no more than
    it does (extender.gang.plan.changes)."""


class SeatsQuestion(Struct, frozen=True):
    """Can these seats be taken, on this snapshot?"""

    gang: Gang
    seats: Mapping[str, str]
    """Uid of a member -> its node."""
    snapshot: Snapshot
    going: Sequence[Victim] = ()
    """Pods that are gone by then."""
    holds: Sequence[Hold] = ()
    """Untaken seats of every gang: those of others count as taken."""
    beside: Sequence[Victim | Pod] = ()
    """Pods that count as gone too, and are not evicted for these seats."""


def both(masks: Masks, more: Masks) -> Masks:
    """Return what either keeps a member from."""
    return {
        uid: masks.get(uid, frozenset()) | more.get(uid, frozenset()) for uid in {*masks, *more}
    }
