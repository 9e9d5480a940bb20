"""PodTopologySpread with whenUnsatisfiable DoNotSchedule.

Source: pkg/scheduler/framework/plugins/podtopologyspread. For each constraint:
matching pods in the node's domain, plus one if the pod matches itself, minus
the least of any eligible domain (0 when there are fewer domains than
minDomains) must not exceed maxSkew.

Pods that terminate or live in other namespaces do not count, and a selector
without requirements counts no pod at all. A node takes part only when it has
the topology keys of ALL the pod's constraints, and passes the pod's node
affinity and taints where the constraint honours them.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.fit import node_affinity
from extender.fit.selectors import describe_selector, matches
from extender.fit.taint_toleration import untolerated
from extender.model.objects import Node, Pod, PodShape, SpreadConstraint


def has_all_keys(shape: PodShape, node: Node) -> bool:
    """Tell whether the node has the topology key of every constraint."""
    return all(constraint.topology_key in node.labels for constraint in shape.spread)


def takes_part(constraint: SpreadConstraint, shape: PodShape, node: Node) -> bool:
    """Tell whether a node with all keys is counted for this constraint."""
    if constraint.honor_node_affinity and not node_affinity.matches(shape, node):
        return False
    return not (constraint.honor_taints and untolerated(node.taints, shape.tolerations))


def counts_for(constraint: SpreadConstraint, namespace: str, pod: Pod) -> bool:
    """Tell whether an existing pod is counted by a constraint of a pod in ``namespace``."""
    selector = constraint.selector
    if selector is None or not selector.requirements:
        return False
    return not pod.deleting and pod.namespace == namespace and matches(selector, pod.labels)


class _Level:
    """One constraint's counts per eligible domain."""

    __slots__ = ("constraint", "counts", "least")

    def __init__(self, constraint: SpreadConstraint) -> None:
        self.constraint = constraint
        self.counts: dict[str, int] = {}
        """Topology value -> matching pods; every eligible domain has an entry."""
        self.least: int | None = None

    def minimum(self) -> int:
        """The global minimum, 0 when there are fewer domains than minDomains."""
        if self.least is None:
            counts = self.counts
            enough = len(counts) >= max(1, self.constraint.min_domains)
            self.least = min(counts.values()) if enough else 0
        return self.least


class SpreadCounts:
    """The counts behind every constraint of one pod shape in one namespace."""

    __slots__ = ("eligible", "levels", "namespace", "shape")

    def __init__(self, namespace: str, shape: PodShape) -> None:
        self.namespace = namespace
        self.shape = shape
        self.levels = tuple(_Level(constraint) for constraint in shape.spread)
        self.eligible: dict[str, tuple[int, ...]] = {}
        """Node name -> indices of the constraints that count it."""

    def clone(self) -> SpreadCounts:
        """Return an independent copy."""
        twin = SpreadCounts(self.namespace, self.shape)
        for mine, theirs in zip(self.levels, twin.levels, strict=True):
            theirs.counts = dict(mine.counts)
            theirs.least = mine.least
        twin.eligible = self.eligible
        return twin

    def fill(self, placed: Iterable[tuple[Node, Iterable[Pod]]]) -> None:
        """Take every node in, with the pods on it."""
        for node, pods in placed:
            if not has_all_keys(self.shape, node):
                continue
            indices = tuple(
                i
                for i, level in enumerate(self.levels)
                if takes_part(level.constraint, self.shape, node)
            )
            if not indices:
                continue
            self.eligible[node.name] = indices
            for i in indices:
                level = self.levels[i]
                value = node.labels[level.constraint.topology_key]
                level.counts.setdefault(value, 0)
            for pod in pods:
                if pod.namespace == self.namespace:
                    self.update(pod, node, 1)

    def update(self, pod: Pod, node: Node, delta: int) -> None:
        """Count a pod that came to the node (+1) or left it (-1)."""
        for i in self.eligible.get(node.name, ()):
            level = self.levels[i]
            if counts_for(level.constraint, self.namespace, pod):
                level.counts[node.labels[level.constraint.topology_key]] += delta
                level.least = None

    def why_not(self, pod: Pod, node: Node) -> str | None:
        """Return which constraint the pod would break on the node, None when it breaks none.

        The node must have every topology key: ``static_allowed`` says so.
        """
        for level in self.levels:
            constraint = level.constraint
            value = node.labels[constraint.topology_key]
            own = matches(constraint.selector, pod.labels)
            here, least = level.counts.get(value, 0), level.minimum()
            if here + own - least > constraint.max_skew:
                who = describe_selector(constraint.selector)
                return (
                    f"PodTopologySpread: {constraint.topology_key}={value} would have "
                    f"{here + own} of {who}, {here + own - least} more than the emptiest "
                    f"(maxSkew {constraint.max_skew})"
                )
        return None


def missing_key(constraint: SpreadConstraint) -> str:
    """Say that the node lacks the constraint's topology label."""
    return f"PodTopologySpread: the node has no label {constraint.topology_key}"
