"""What a list of nodes that kube-scheduler offers says about the nodes that are not in it.

kube-scheduler looks at nodes until it has found enough that pass: percentageOfNodesToScore of
all, by default 50 down to 5 percent, and never fewer than a hundred (numFeasibleNodesToFind in
pkg/scheduler/schedule_one.go; minFeasibleNodesToFind). So a list of fewer than a hundred names is
all there is, and so is any list in a cluster of a hundred nodes. A longer one may be a sample:
no evidence against a node that is not in it. (An extender that is asked before us and removes
nodes makes a sample look complete; ``check`` tells of it.)
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.gang.plan.question import Masks
from extender.model.objects import Pod

SMALLEST_SAMPLE = 100
"""Nodes that kube-scheduler looks for at least, whatever its configuration."""


def samples(nodes: int) -> bool:
    """Whether kube-scheduler may offer a part of that many nodes only."""
    return nodes > SMALLEST_SAMPLE


def complete(names: int, nodes: int) -> bool:
    """Whether a list of ``names``, out of ``nodes``, has every node that passes."""
    return names < SMALLEST_SAMPLE or not samples(nodes)


def beside_nominations(lists: Masks, members: Iterable[Pod]) -> Masks:
    """Return lists by member uid, with the nodes that other members are nominated to.

    A plan before has written that, and may not have been able to take it back: kube-scheduler keeps
    the room there, and the gang has it all the same.
    """
    nominated = [(pod.uid, pod.nominated) for pod in members if pod.nominated]
    if not nominated:
        return lists
    return {
        uid: names | {node for other, node in nominated if other != uid}
        for uid, names in lists.items()
    }
