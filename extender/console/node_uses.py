"""What is used on each node, summed anew only where something changed. Not on the event loop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from msgspec import Struct

from extender.console.pause import breathing
from extender.model.extended_resources import counted
from extender.model.objects import Node, Pod
from extender.model.snapshot import Snapshot

SHOWN_FIRST = ("cpu", "memory", "ephemeral-storage", "pods")
GROUP_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
)
GROUP_WORDS = ("rack", "block", "row", "pool", "zone")
"""Last words of label keys by which nodes may be grouped too."""
MOST_GROUPINGS = 12


class NodeUse(Struct, frozen=True, gc=False):
    """One node."""

    name: str
    total: tuple[tuple[str, int], ...]
    used: dict[str, int]
    pods: int
    leaving: int
    """Pods on it that terminate."""
    closed: bool
    """Cordoned, or tainted against everybody."""
    labels: dict[str, str]

    def share(self, resource: str) -> float | None:
        """Return used / allocatable, None where the node has none of it."""
        for name, total in self.total:
            if name == resource and total > 0:
                return self.used.get(resource, 0) / total
        return None


class NodeReader:
    """Keeps the sums. One thread only."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Node, tuple[Pod, ...], NodeUse]] = {}

    def read(self, snapshot: Snapshot) -> tuple[NodeUse, ...]:
        """Return every node, by name."""
        before = self._kept
        kept: dict[str, tuple[Node, tuple[Pod, ...], NodeUse]] = {}
        for name, node in breathing(snapshot.nodes.items()):
            pods = snapshot.bound.get(name, ())
            known = before.get(name)
            if known is None or known[0] is not node or known[1] is not pods:
                known = (node, pods, _summed(node, pods))
            kept[name] = known
        self._kept = kept
        return tuple(kept[name][2] for name in sorted(kept))


def _summed(node: Node, pods: tuple[Pod, ...]) -> NodeUse:
    used: dict[str, int] = {}
    for pod in pods:
        for resource, amount in pod.requests:
            used[resource] = used.get(resource, 0) + amount
    return NodeUse(
        name=node.name,
        total=counted(node.allocatable),
        used=used,
        pods=len(pods),
        leaving=sum(1 for pod in pods if pod.deleting),
        closed=node.unschedulable,
        labels=node.labels,
    )


def resources_of(nodes: tuple[NodeUse, ...]) -> tuple[str, ...]:
    """Return the resources that nodes have, the one that matters most first.

    That is the extended resource (a device) which most nodes have; else CPU.
    """
    counts: Counter[str] = Counter()
    for node in breathing(nodes):
        counts.update(name for name, total in node.total if total > 0)
    devices = sorted(
        (name for name in counts if "/" in name), key=lambda name: (-counts[name], name)
    )
    return (*devices, *(name for name in SHOWN_FIRST if name in counts))


def groupings_of(nodes: tuple[NodeUse, ...]) -> tuple[str, ...]:
    """Return the label keys by which a person may want nodes grouped."""
    values: dict[str, set[str]] = {}
    for node in breathing(nodes):
        for key, value in node.labels.items():
            if key in GROUP_LABELS or key.rpartition("/")[2].lower().endswith(GROUP_WORDS):
                values.setdefault(key, set()).add(value)
    sensible = [key for key, found in values.items() if len(found) <= max(64, len(nodes) // 8)]
    ranked = sorted(
        sensible,
        key=lambda key: (
            GROUP_LABELS.index(key) if key in GROUP_LABELS else 1,
            len(values[key]) == 1,
            key,
        ),
    )
    return tuple(ranked[:MOST_GROUPINGS])


def grouped(nodes: tuple[NodeUse, ...], label: str) -> Mapping[str, tuple[NodeUse, ...]]:
    """Return value of the label -> its nodes by name; "" has those without it."""
    found: dict[str, list[NodeUse]] = {}
    for node in nodes:
        found.setdefault(node.labels.get(label, ""), []).append(node)
    return {value: tuple(found[value]) for value in sorted(found, key=lambda v: (not v, v))}
