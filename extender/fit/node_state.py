"""One node and the pods on it, with their sums."""

from __future__ import annotations

from collections.abc import Iterator

from extender.model.objects import HostPort, Node, Pod


class MovedPods:
    """Pods by uid: those of a node, less some, and some more.

    A plan moves one or two of a node's many pods; copying all of them for that would
    touch every record in memory.
    """

    __slots__ = ("_base", "_come", "_gone")

    def __init__(self, base: dict[str, Pod]) -> None:
        self._base = base
        """Never changed."""
        self._gone: set[str] = set()
        self._come: dict[str, Pod] = {}

    def copy(self) -> MovedPods:
        """Return an independent copy."""
        twin = MovedPods(self._base)
        twin._gone = set(self._gone)
        twin._come = dict(self._come)
        return twin

    def __len__(self) -> int:
        """How many are there now."""
        return len(self._base) - len(self._gone) + len(self._come)

    def __contains__(self, uid: str) -> bool:
        """Whether the pod is there now."""
        return uid in self._come or (uid in self._base and uid not in self._gone)

    def get(self, uid: str) -> Pod | None:
        """Return the pod, None when it is not there now."""
        found = self._come.get(uid)
        if found is None and uid not in self._gone:
            found = self._base.get(uid)
        return found

    def values(self) -> Iterator[Pod]:
        """Yield all that are there now."""
        for uid, pod in self._base.items():
            if uid not in self._gone:
                yield pod
        yield from self._come.values()

    def __setitem__(self, uid: str, pod: Pod) -> None:
        """Put a pod there that is not."""
        self._come[uid] = pod

    def __delitem__(self, uid: str) -> None:
        """Take a pod away that is there."""
        if uid in self._come:
            del self._come[uid]
        else:
            self._gone.add(uid)


class NodeState:
    """A node's pods by uid, what they use in sum, and who has ports or anti-affinity."""

    __slots__ = ("allocatable", "guards", "node", "pods", "ports", "source", "used")

    def __init__(self, node: Node, source: tuple[Pod, ...]) -> None:
        self.node = node
        self.source = source
        """The snapshot's tuple of pods this state was built from."""
        self.allocatable: dict[str, int] = dict(node.allocatable)
        self.pods: dict[str, Pod] | MovedPods = {}
        self.used: dict[str, int] = {}
        self.ports: dict[str, Pod] = {}
        """Pods that take host ports."""
        self.guards: dict[str, Pod] = {}
        """Pods with required anti-affinity."""
        for pod in source:
            self.add(pod)

    def clone(self) -> NodeState:
        """Return an independent copy."""
        twin = NodeState.__new__(NodeState)
        twin.node = self.node
        twin.source = self.source
        twin.allocatable = self.allocatable  # never changed
        pods = self.pods
        twin.pods = pods.copy() if isinstance(pods, MovedPods) else MovedPods(pods)
        twin.used = dict(self.used)
        twin.ports = dict(self.ports)
        twin.guards = dict(self.guards)
        return twin

    def add(self, pod: Pod) -> None:
        """Put a pod on the node that is not there yet."""
        self.pods[pod.uid] = pod
        used = self.used
        for name, amount in pod.requests:
            used[name] = used.get(name, 0) + amount
        if pod.shape.host_ports:
            self.ports[pod.uid] = pod
        if pod.shape.anti_affinity:
            self.guards[pod.uid] = pod

    def remove(self, pod: Pod) -> None:
        """Take a pod off the node that is there."""
        del self.pods[pod.uid]
        used = self.used
        for name, amount in pod.requests:
            used[name] -= amount
        if self.ports:
            self.ports.pop(pod.uid, None)
        if self.guards:
            self.guards.pop(pod.uid, None)

    def taken_ports(self) -> Iterator[HostPort]:
        """Yield the host ports in use."""
        for pod in self.ports.values():
            yield from pod.shape.host_ports
