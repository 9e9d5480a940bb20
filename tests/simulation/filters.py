"""kube-scheduler's in-tree filters, as far as the pods of a simulation can tell nodes apart.

They ask for CPU and tolerate nothing, and some let no other pod onto their node. So a cordon, the
number of pods, CPU and such pods are all there is to judge. The sandbox's scheduler asks
extender.fit about every filter there is; test_filters.py compares the two.
"""

from __future__ import annotations

from extender.decode.from_json import decode_pod
from extender.model.objects import Pod, Requests
from extender.sandbox.api_status import Obj
from extender.sandbox.cluster import ClusterState

CORDONED = "NodeUnschedulable: node(s) were unschedulable"
NO_SLOT = "NodeResourcesFit: Too many pods"
NO_CPU = "NodeResourcesFit: Insufficient cpu"
ALONE = "InterPodAffinity: a pod there does not let others onto its node"


class Decoded:
    """Reads pods, each version of one once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Obj, Pod]] = {}

    def __call__(self, obj: Obj) -> Pod:
        """Return the pod; the storage never changes an object in place."""
        uid = obj["metadata"]["uid"]
        known = self._known.get(uid)
        if known is None or known[0] is not obj:
            known = self._known[uid] = (obj, decode_pod(obj))
        return known[1]


class CpuState(ClusterState):
    """What the scheduler knows, looked at with these few filters."""

    def view(self, pod: Pod, *, without: frozenset[str] = frozenset()) -> CpuView:
        """See ClusterState."""
        return CpuView(self, pod, without)


class CpuView:
    """The nodes as one pod is judged against them, less the pods ``without``."""

    def __init__(self, state: CpuState, pod: Pod, without: frozenset[str]) -> None:
        self._state = state
        self._pod = pod
        self._without = without
        self._used: dict[str, tuple[int, int]] | None = None
        self._alone: set[str] = set()
        """Nodes with a pod that lets no other onto them."""

    def used(self, name: str) -> tuple[int, int]:
        """Return milli-CPU and number of a node's pods.

        Pods nominated to it count when they are at least as urgent
        (RunFilterPluginsWithNominatedPods).
        """
        used = self._used
        if used is None:
            used = self._used = self._count()
        return used.get(name, (0, 0))

    def _count(self) -> dict[str, tuple[int, int]]:
        """Count all nodes at once; a view is looked at before anything changes."""
        used: dict[str, tuple[int, int]] = {}
        pod, state, without = self._pod, self._state, self._without
        assumed = state.assumed
        for other in state.pods.values():
            uid = other.uid
            node = other.node or assumed.get(uid, "")
            if not node and other.priority >= pod.priority and uid != pod.uid:
                node = other.nominated
            if node and uid not in without:
                milli, count = used.get(node, (0, 0))
                used[node] = (milli + cpu(other.requests), count + 1)
                if other.shape.anti_affinity and uid != pod.uid:
                    self._alone.add(node)
        return used

    def why_not(self, pod: Pod, name: str) -> str | None:
        """Return the first filter that keeps the pod off the node, None when none does."""
        node = self._state.nodes[name]
        if node.unschedulable:
            return CORDONED
        milli, count = self.used(name)
        sizes = dict(node.allocatable)
        if count >= sizes.get("pods", 0):
            return NO_SLOT
        wants = cpu(pod.requests)
        if wants > 0 and wants > sizes.get("cpu", 0) - milli:
            return NO_CPU
        return ALONE if name in self._alone else None

    def never(self, pod: Pod, name: str) -> bool:
        """Return whether no eviction can let the pod onto the node."""
        node = self._state.nodes[name]
        return node.unschedulable or cpu(pod.requests) > cpu(node.allocatable)

    def score(self, name: str) -> int:
        """Return 0..100, the least used node first."""
        total = cpu(self._state.nodes[name].allocatable) or 1
        return 100 * (total - self.used(name)[0]) // total


def cpu(amounts: Requests) -> int:
    """Return the milli-CPU among amounts."""
    for name, amount in amounts:
        if name == "cpu":
            return amount
    return 0
