"""One node and the pods on it, with their sums."""

from __future__ import annotations

from collections.abc import Iterator

from extender.model.objects import HostPort, Node, Pod


class NodeState:
    """A node's pods by uid, what they use in sum, and who has ports or anti-affinity."""

    __slots__ = ("allocatable", "guards", "node", "pods", "ports", "source", "used")

    def __init__(self, node: Node, source: tuple[Pod, ...]) -> None:
        self.node = node
        self.source = source
        """The snapshot's tuple of pods this state was built from."""
        self.allocatable: dict[str, int] = dict(node.allocatable)
        self.pods: dict[str, Pod] = {}
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
        twin.pods = dict(self.pods)
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
        self.ports.pop(pod.uid, None)
        self.guards.pop(pod.uid, None)

    def taken_ports(self) -> Iterator[HostPort]:
        """Yield the host ports in use."""
        for pod in self.ports.values():
            yield from pod.shape.host_ports
