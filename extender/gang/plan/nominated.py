"""Room that kube-scheduler keeps for pods it has nominated to a node.

Its filter counts a nominated pod as if it were on the node already for every pod that
is no more urgent (RunFilterPluginsWithNominatedPods). A seat there would be refused. It
compares the priorities of the two pods: that of a member's group is nothing to it.
"""

from __future__ import annotations

from collections.abc import Collection

from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot

NOMINATED = "nominated"
"""In place of a dialect: such a seat belongs to kube-scheduler, to no gang of ours."""


def nominated_seats(gang: Gang, snapshot: Snapshot, held: Collection[str]) -> list[Hold]:
    """Return the seats of nominated pods that some of the gang's members do not get past.

    Where members differ the least urgent one decides for all: room is kept for a node, not for
    a kind of member. The seats are firm, no plan takes them over. ``held`` are uids with a seat
    of ours: that seat counts, wherever they are nominated.
    """
    least = min([gang.preemptor_priority, *(pod.priority for pod in gang.pending)])
    nominated = [
        pod
        for pod in snapshot.pending.values()
        if pod.nominated in snapshot.nodes
        and pod.priority >= least
        and not pod.deleting
        and pod.uid not in held
    ]
    own = {pod.uid for pod in gang.members} if nominated else set()
    return [
        Hold(
            gang=GangKey(NOMINATED, pod.namespace, pod.name),
            priority=pod.priority,
            uid=pod.uid,
            node=pod.nominated,
            requests=pod.requests,
            firm=True,
        )
        for pod in nominated
        if pod.uid not in own
    ]


def victims_leave(pod: Pod, node: str, snapshot: Snapshot) -> bool:
    """Whether less urgent pods that were preempted leave ``node``, to which ``pod`` is nominated.

    kube-scheduler does not try to preempt for it until they are gone (PodEligibleToPreemptOthers in
    pkg/scheduler/framework/plugins/defaultpreemption).
    """
    there = snapshot.bound.get(node, ())
    return any(each.deleting and each.preempted and each.priority < pod.priority for each in there)
