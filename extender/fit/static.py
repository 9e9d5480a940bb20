"""What one pod and one node alone decide, whoever else is there.

NodeName, NodeUnschedulable, TaintToleration, NodeAffinity, the request against
the whole node, and the topology labels that required affinity and spread need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from extender.decode.interning import Recent
from extender.fit import (
    inter_pod_affinity,
    node_affinity,
    node_name,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    taint_toleration,
)
from extender.model.memory_limits import weigh
from extender.model.objects import Node, Pod, PodShape, Requests, Taint
from extender.model.texts import cut

_MAX_CLASSES = 64
_MAX_SIGNATURES = 20_000
_MOST_KEYS = 32
"""Label keys that are looked up node by node; of more, a node's own labels are."""


def static_allowed(pod: Pod, node: Node) -> str | None:
    """Return why the pod can never be on this node as it is now, None when it can."""
    return node_name.why_not(pod, node) or _judge(pod, node)


def _judge(pod: Pod, node: Node) -> str | None:
    """Everything but NodeName."""
    shape = pod.shape
    return (
        node_unschedulable.why_not(shape, node)
        or taint_toleration.why_not(shape, node)
        or node_affinity.why_not(shape, node)
        or _missing_topology(shape, node)
        or node_resources_fit.why_not(pod.requests, dict(node.allocatable))
    )


def _missing_topology(shape: PodShape, node: Node) -> str | None:
    labels = node.labels
    for constraint in shape.spread:
        if constraint.topology_key not in labels:
            return pod_topology_spread.missing_key(constraint)
    for term in shape.affinity:
        if term.topology_key not in labels:
            return inter_pod_affinity.missing_key(term)
    return None


_Signature = tuple[bool, tuple[Taint, ...], Requests, tuple[object, ...]]


class PodClass:
    """What ``static_allowed`` answers, but for NodeName, for all pods of one shape and request.

    Nodes are told apart by what such a pod can see of them (the labels its
    rules read, taints, cordon, allocatable), so a rack of equal nodes is judged once.
    """

    __slots__ = ("_by_id", "_by_signature", "_example", "_keys", "_many", "_named", "_texts")

    def __init__(self, pod: Pod) -> None:
        shape = pod.shape
        terms = shape.node_terms or ()
        self._example = pod
        self._keys = tuple(
            sorted(
                {key for key, _ in shape.node_selector}
                | {r.key for term in terms for r in term.labels}
                | {term.topology_key for term in shape.affinity}
                | {constraint.topology_key for constraint in shape.spread}
            )
        )
        self._many = frozenset(self._keys) if len(self._keys) > _MOST_KEYS else None
        self._named = any(term.fields for term in terms)
        self._texts: dict[str, str] = {}
        self._by_signature: dict[_Signature, str | None] = {}
        # The same Node record comes back in snapshot after snapshot. Holding the
        # record beside its answer keeps its id from being used for another one.
        self._by_id: dict[int, tuple[Node, str | None]] = {}

    def why_not(self, node: Node) -> str | None:
        """Return why no pod of the class can be on the node, None when one can."""
        known = self._by_id.get(id(node))
        if known is not None:
            return known[1]
        if self._named:
            answer = self._said(_judge(self._example, node))
        else:
            labels = node.labels
            signature = (
                node.unschedulable,
                node.taints,
                node.allocatable,
                self._labels_of(labels),
            )
            try:
                answer = self._by_signature[signature]
            except KeyError:
                answer = self._said(_judge(self._example, node))
                if len(self._by_signature) >= _MAX_SIGNATURES:
                    self._by_signature.clear()
                self._by_signature[signature] = answer
        if len(self._by_id) >= _MAX_SIGNATURES:
            self._by_id.clear()
        self._by_id[id(node)] = (node, answer)
        return answer

    def _labels_of(self, labels: Mapping[str, str]) -> tuple[object, ...]:
        """Return what of a node's labels the class may see: a node has few, whatever is asked."""
        if self._many is None:
            return tuple([labels.get(key) for key in self._keys])
        return tuple(sorted(item for item in labels.items() if item[0] in self._many))

    def _said(self, why: str | None) -> str | None:
        """Return a reason cut, and equal ones as one string: they are kept for every node."""
        if why is None:
            return None
        if len(self._texts) >= _MAX_SIGNATURES:
            self._texts.clear()
        text = cut(why)
        return self._texts.setdefault(text, text)

    def mask(self, nodes: Sequence[Node], kinds: Sequence[int] | None = None) -> bytes:
        """Return one byte a node, 1 where the class is allowed. ``kinds``: node_kinds(nodes)."""
        if self._named:
            return bytes([self.why_not(node) is None for node in nodes])
        seen: dict[object, bool] = {}
        keys, labels_of = self._keys, self._labels_of
        answer = bytearray(len(nodes))
        for i, kind in enumerate(node_kinds(nodes) if kinds is None else kinds):
            known: object = kind
            if keys:
                known = (kind, labels_of(nodes[i].labels))
            allowed = seen.get(known)
            if allowed is None:
                allowed = seen[known] = self.why_not(nodes[i]) is None
            answer[i] = allowed
        return bytes(answer)


def node_kinds(nodes: Sequence[Node]) -> tuple[int, ...]:
    """Number the nodes by all that pods can see of them but labels: cordon, taints, size.

    Good for every class of pods as long as the records stay the same.
    """
    numbers: dict[object, int] = {}
    return tuple(
        [
            numbers.setdefault((node.unschedulable, node.taints, node.allocatable), len(numbers))
            for node in nodes
        ]
    )


_classes: Recent[tuple[PodShape, Requests], PodClass] = Recent(_MAX_CLASSES)


def pod_class(pod: Pod) -> PodClass:
    """Return the shared class of this pod; the oldest makes room where they are many or large."""
    key = (pod.shape, pod.requests)
    found = _classes.get(key)
    if found is None:
        found = _classes.put(key, PodClass(pod), weigh(key))
    return found


def static_mask(pod: Pod, nodes: Sequence[Node], kinds: Sequence[int] | None = None) -> bytes:
    """Return one byte a node, 1 where ``static_allowed`` has nothing against the pod.

    ``kinds`` is node_kinds(nodes), for a caller who asks about many pods.
    """
    mask = pod_class(pod).mask(nodes, kinds)
    if pod.node:
        return bytes(ok and node.name == pod.node for ok, node in zip(mask, nodes, strict=True))
    return mask
