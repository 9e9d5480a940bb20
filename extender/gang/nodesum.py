"""One node of one snapshot: what its pods hold, and to which gangs they belong."""

from __future__ import annotations

from collections.abc import Callable

from extender.model.objects import GangKey, Node, Pod

MemberKey = Callable[[Pod], GangKey | None]


class NodeSum:
    """Sums of one node, made once for a node and its pod tuple."""

    __slots__ = ("allocatable", "node", "pods", "source", "used")

    def __init__(self, node: Node, source: tuple[Pod, ...], member_key: MemberKey) -> None:
        self.node = node
        self.source = source
        self.allocatable = dict(node.allocatable)
        self.pods = [(pod, member_key(pod)) for pod in source]
        used: dict[str, int] = {}
        for pod in source:
            for name, amount in pod.requests:
                used[name] = used.get(name, 0) + amount
        self.used = used

    def free(self, resource: str) -> int:
        """Return allocatable minus requests of all bound pods; may be negative."""
        return self.allocatable.get(resource, 0) - self.used.get(resource, 0)
