"""Members that are bound to a node which is not known: they do not count for the quorum.

Such a node is gone, or it has not registered yet, or its watch is late. Counted as seated such a
member would let its gang evict others for a quorum that the gang does not reach
(kubernetes#140306). Counted as lacking it would let others be evicted for one more seat than is
needed. So a gang that does not run without these members waits (``Gang.complete``). That ends by
itself: the node comes, or kube-controller-manager's pod garbage collector deletes the pod, some
40 s after its node at the soonest (podgc, quarantineTime).
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.model.objects import Pod
from extender.model.snapshot import Snapshot


def lost_members(members: Iterable[Pod], snapshot: Snapshot) -> frozenset[str]:
    """Return the uids of members that are bound to a node which is not known."""
    nodes = snapshot.nodes
    return frozenset(
        pod.uid for pod in members if pod.node and pod.node not in nodes and not pod.deleting
    )
