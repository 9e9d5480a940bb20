"""Members with volumes: what may be evicted for them while only kube-scheduler knows volumes.

Claims, volumes and attach limits are not read here. kube-scheduler names nodes for each member by
itself. In filter it accepts the node as it is: no pod that goes from there makes a volume fit less.
As a candidate in preempt it accepts the node without the victims that it names. Those of them
that have volumes may hold what the member lacks: the last attachment of a driver
(NodeVolumeLimits), a claim of one pod or an exclusive disk (VolumeRestrictions). So all of these
have to go for a member on such a node, whichever pods go for room
(extender.gang.scheduler_view.node_lists keeps them, Snapshot.in_the_way hands them on).

Of two members on a node kube-scheduler says nothing. So a plan that evicts seats one member with
volumes of its own on a node, beside any number of members whose claims that one names too. A plan
that evicts nothing may seat them anywhere: a seat follows kube-scheduler's list of nodes. But where
it takes the place of one that evicted, it keeps them apart on the nodes that pods went from, as far
as there is such a plan: kube-scheduler has accepted these for one member, with the pods gone. A
member that sits there is such a one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from extender.gang.plan.held_seats import gangs_giving_way, held_for_others
from extender.gang.plan.question import GangQuestion
from extender.model.gang import Gang
from extender.model.memory_limits import OVERSIZE
from extender.model.objects import EXCLUSIVE_DISK, VOLUME_CLAIM, GangKey, Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import EMPTY, Snapshot

NamedClaim = tuple[str, str]
"""Namespace and name of a PersistentVolumeClaim."""
Volumes = tuple[str, ...]
"""As PodShape.volumes."""
UNNAMED = frozenset((VOLUME_CLAIM, EXCLUSIVE_DISK, OVERSIZE))
NOT_KNOWN = "which volumes fit on a node together is not known here"


def claims_together(plan: Plan, gang: Gang) -> dict[NamedClaim, int]:
    """Return the claims that several seated members name -> how many members do."""
    volumes = {pod.uid: pod.shape.volumes for pod in gang.pending if pod.shape.unmodelled}
    found = Counter(
        (seat.namespace, name)
        for seat in plan.seats
        for kind, _, name in (each.partition(" ") for each in volumes.get(seat.uid, ()))
        if kind == VOLUME_CLAIM and name
    )
    return {claim: count for claim, count in sorted(found.items()) if count > 1}


def with_own(pods: Iterable[Pod]) -> frozenset[Volumes]:
    """Return the volumes of those pods that have one which not every pod with volumes names."""
    kinds = {pod.shape.volumes for pod in pods if pod.shape.unmodelled} - {()}
    shared = frozenset.intersection(*map(frozenset, kinds)) - UNNAMED if kinds else frozenset()
    return frozenset(kind for kind in kinds if not shared.issuperset(kind))


def volumes_meet(plan: Plan, question: GangQuestion, nodes: frozenset[str] | None = None) -> bool:
    """Whether the plan seats members with volumes together of which that is not known, on one of
    ``nodes`` (None: on any)."""
    gang = question.gang
    volumes = {pod.uid: pod.shape.volumes for pod in gang.pending if pod.shape.unmodelled}
    own = with_own(gang.pending)
    seated = [
        (seat.node, volumes[seat.uid])
        for seat in plan.seats
        if volumes.get(seat.uid) and (nodes is None or seat.node in nodes)
    ]
    on = Counter(node for node, kind in seated if kind in own)
    held = _nodes_held(question, plan.takes_over)
    kinds, taken = _nodes_taken(question)
    return any(count > 1 for count in on.values()) or any(
        node in held or (node in taken and kind in kinds) for node, kind in seated
    )


def beside_volumes(
    question: GangQuestion, *, all_held: bool, nodes: frozenset[str] | None = None
) -> dict[str, frozenset[str]]:
    """Return the question's masks with the nodes that others with volumes are to come to, for the
    members with volumes; ``all_held``: also those whose seats may be taken over. Only those of
    ``nodes``, unless that is None. And with those where members sit that volumes were freed for."""
    giving = () if all_held else gangs_giving_way(question)
    masks, held = dict(question.masks or {}), _nodes_held(question, giving)
    held = held if nodes is None else held & nodes
    kinds, taken = _nodes_taken(question)
    for pod in question.gang.pending if held or taken else ():
        if pod.shape.volumes:
            kept = held | taken if pod.shape.volumes in kinds else held
            masks[pod.uid] = masks.get(pod.uid, frozenset()) | kept
    return masks


def _nodes_taken(question: GangQuestion) -> tuple[frozenset[Volumes], frozenset[str]]:
    """Return the nodes that pods went from for the gang where a member sits with volumes of its
    own, which may be all that was freed there; and the volumes of members that are kept away."""
    gang, nodes = question.gang, question.snapshot.evicted_from
    sitting = [pod for pod in gang.bound if pod.node in nodes and pod.shape.volumes]
    kinds = with_own([*gang.pending, *sitting])
    return kinds, frozenset(pod.node for pod in sitting if pod.shape.volumes in kinds)


def _nodes_held(question: GangQuestion, taken: Collection[GangKey]) -> frozenset[str]:
    """Return the nodes of seats held for other gangs' pods with volumes, but ``taken``."""
    return frozenset(node for pod, node in held_for_others(question, taken) if pod.shape.volumes)


def told_of_volumes(found: Plan | Refusal) -> Plan | Refusal:
    """Return a refusal with what is not known; a plan as it is."""
    if isinstance(found, Plan):
        return found
    return replace(
        found,
        message="does not fit with at most one member that has volumes of its own on a node: "
        f"{NOT_KNOWN}, so no other plan may evict pods; {found.message}",
    )


def must_go(
    group: tuple[Pod, ...], blocked: dict[str, tuple[str, ...]], snapshot: Snapshot
) -> dict[str, tuple[str, ...]]:
    """Return node -> uids of those that have to go for members of a class, ``blocked`` with those
    that do for their volumes."""
    told: Mapping[str, tuple[str, ...]] = snapshot.in_the_way.get(group[0].uid, EMPTY)
    for node, uids in told.items():
        if not uids:
            continue  # they have gone
        blocked[node] = tuple(sorted({*uids, *blocked.get(node, ())}))
    return blocked
