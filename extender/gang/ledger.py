"""Per-node sums that survive from one snapshot to the next.

A snapshot shares every node and every node's pod tuple with the snapshot before
it unless they changed, so identity tells what must be summed again. The result
never depends on what was kept: an empty ledger gives the same answers.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.model.objects import GangKey, Node, Pod
from extender.model.snapshot import Snapshot

MemberKey = Callable[[Pod], GangKey | None]


class NodeSum:
    """One node: what its pods hold, and to which gangs they belong."""

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


class Ledger:
    """NodeSums by node name, brought up to date per snapshot."""

    def __init__(self, member_key: MemberKey) -> None:
        self._member_key = member_key
        self._sums: dict[str, NodeSum] = {}

    def of(self, snapshot: Snapshot) -> dict[str, NodeSum]:
        """Return the sums of every node in the snapshot, by name."""
        old, new = self._sums, {}
        bound = snapshot.bound
        for name, node in snapshot.nodes.items():
            source = bound.get(name, ())
            kept = old.get(name)
            if kept is None or kept.source is not source or kept.node is not node:
                kept = NodeSum(node, source, self._member_key)
            new[name] = kept
        self._sums = new
        return new
