"""Members that are bound to a node which no longer exists: they do not count for the quorum.

Until kube-controller-manager's pod garbage collector deletes it, some 40 s after its node at the
soonest (podgc, quarantineTime), such a pod looks as it did when it ran. Counted as seated it would
let its gang evict others for a quorum that the gang does not reach (kubernetes#140306).

Nodes and pods come by separate watches, so that a node is not known proves nothing by itself. The
kubelet that started the pod had registered its node before. Nothing is planned while a watch has
been silent for cache.staleSeconds: what is not known so long after that start is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.model.objects import Pod
from extender.model.snapshot import Snapshot

LOST_SECONDS = 120.0
"""So long ago the pod must have started: twelve times the usual cache.staleSeconds, and a kubelet's
clock may be off by a minute."""


def lost_members(members: Iterable[Pod], snapshot: Snapshot) -> frozenset[str]:
    """Return the uids of members that ran on a node which is surely gone."""
    nodes, least = snapshot.nodes, snapshot.now - LOST_SECONDS
    return frozenset(
        pod.uid
        for pod in members
        if pod.node and pod.node not in nodes and 0 < pod.started <= least and not pod.deleting
    )
