"""Members that claim devices: what may be evicted for them while only kube-scheduler knows devices.

ResourceSlices and claims are not read here. A member claims devices by a ResourceClaim, or on a
node without a device plugin by a resource that a DeviceClass names
(extender.model.extended_resources). kube-scheduler names nodes for each member by itself
(filter, and the candidates of preempt): that a node's devices are enough for one such member, with
nothing evicted for them. It says nothing of two members at once. So a plan that evicts seats one
such member on a node, and none that share a ResourceClaim. A plan that evicts nothing may seat them
anywhere: kube-scheduler allocates, and a seat follows its list of nodes. Where it takes the place
of one that evicted it keeps them apart on the nodes that pods went from, as far as there is such a
plan. A pod of another gang that a seat is held for counts as such a member, and on nodes that pods
went from so does a member that sits there.

Source: DynamicResources of kube-scheduler 1.37. A dry run of preemption frees no device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from msgspec.structs import replace

from extender.gang.plan.held_seats import gangs_giving_way, held_for_others
from extender.gang.plan.question import GangQuestion
from extender.model.extended_resources import asked_of_devices, takes_devices
from extender.model.gang import Gang
from extender.model.memory_limits import OVERSIZE
from extender.model.objects import CLAIM, GangKey
from extender.model.plan import Code, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import counted

NOT_KNOWN = "devices are allocated by kube-scheduler and are not known here"


def seats_devices(plan: Plan, gang: Gang, snapshot: Snapshot) -> bool:
    """Whether devices are allocated for a member where the plan seats it."""
    return any(True for _ in _allocating(plan, gang, snapshot))


def devices_meet(plan: Plan, question: GangQuestion, nodes: frozenset[str] | None = None) -> bool:
    """Whether devices are allocated for a member of the plan beside another pod of which it is not
    known whether they are enough for both, on one of ``nodes`` (None: on any)."""
    on = Counter(_allocating(plan, question.gang, question.snapshot))
    beside = _nodes_of_others(question, plan.takes_over)
    return any(
        (count > 1 or node in beside) and (nodes is None or node in nodes)
        for node, count in on.items()
    )


def beside_devices(
    question: GangQuestion, *, all_held: bool, nodes: frozenset[str] | None = None
) -> GangQuestion:
    """Return the question with masks for the members for which devices are allocated: without the
    nodes where devices are for others; ``all_held``: also for those whose seats may be taken over.
    Only those of ``nodes``, unless that is None."""
    beside = _nodes_of_others(question, () if all_held else gangs_giving_way(question))
    beside = beside if nodes is None else beside & nodes
    masks, found = dict(question.masks or {}), question.snapshot.nodes
    for pod in question.gang.pending if beside else ():
        if kinds := pod.shape.devices:
            kept = frozenset(n for n in beside if n in found and asked_of_devices(kinds, found[n]))
            masks[pod.uid] = masks.get(pod.uid, frozenset()) | kept
    return replace(question, masks=masks)


def _nodes_of_others(question: GangQuestion, taken: Collection[GangKey]) -> frozenset[str]:
    """Return the nodes where devices are allocated for a pod that kube-scheduler has not counted:
    for one of another gang but ``taken`` that a seat is held for; and on nodes that pods went from
    for the gang, for a member that sits there, which may have what was freed."""
    snapshot = question.snapshot
    others = list(held_for_others(question, taken))
    others += [(pod, pod.node) for pod in question.gang.bound if pod.node in snapshot.evicted_from]
    return frozenset(
        name
        for pod, name in others
        if (node := snapshot.nodes.get(name)) is not None and takes_devices(pod, node)
    )


def _allocating(plan: Plan, gang: Gang, snapshot: Snapshot) -> Iterator[str]:
    """Yield the node of each seat where devices are allocated for its member."""
    claimed = {pod.uid: pod.shape.devices for pod in gang.pending if pod.shape.unmodelled}
    for seat in plan.seats if claimed else ():
        if asked_of_devices(claimed.get(seat.uid, ()), snapshot.nodes[seat.node]):
            yield seat.node


def where_counted(question: GangQuestion) -> dict[str, frozenset[str]] | None:
    """Return the question's masks with the nodes where devices are allocated for a member; None
    where that is all of them."""
    nodes, masks = question.snapshot.nodes, dict(question.masks or {})
    allocating: dict[tuple[str, ...], frozenset[str]] = {}
    for pod in question.gang.pending:
        kinds = pod.shape.devices
        if not kinds:
            continue
        if kinds not in allocating:
            found = (name for name, node in nodes.items() if asked_of_devices(kinds, node))
            allocating[kinds] = frozenset(found)
            if len(allocating[kinds]) == len(nodes):
                return None
        masks[pod.uid] = masks.get(pod.uid, frozenset()) | allocating[kinds]
    return masks


def unconfirmed(gang: Gang, snapshot: Snapshot) -> Refusal | None:
    """Return why no pod is evicted for the gang, None where its members claim devices apart."""
    shared = Counter(
        kind
        for pod in gang.pending
        for kind in pod.shape.devices
        if kind.partition(" ")[0] == CLAIM
    )
    several = sorted(kind for kind, members in shared.items() if members > 1)
    if several:
        name = several[0].partition(" ")[2]
        why = f"{counted(shared[several[0]], 'member')} share ResourceClaim {name or '(unnamed)'}"
    elif any(pod.shape.devices and OVERSIZE in pod.shape.unmodelled for pod in gang.pending):
        why = "a member has more claims than are read"
    else:
        return None
    return Refusal(
        gang=gang.key,
        code=Code.INFEASIBLE,
        message=f"does not fit without evictions, and no pod is evicted: {why}; {NOT_KNOWN}, "
        "so it is not certain that all members would start",
        generation=snapshot.generation,
    )


def told_of_devices(found: Plan | Refusal, gang: Gang) -> Plan | Refusal:
    """Return a refusal with what is not known; a plan as it is."""
    if isinstance(found, Plan) or NOT_KNOWN in found.message:
        return found
    kinds = sorted({kind for pod in gang.pending for kind in pod.shape.devices})
    return replace(
        found,
        message="does not fit with at most one member that claims devices on a node: "
        f"{NOT_KNOWN} ({kinds[0]}), so no other plan may evict pods; {found.message}",
    )
