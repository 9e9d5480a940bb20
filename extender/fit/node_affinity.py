"""NodeAffinity: spec.nodeSelector and required node affinity, both must hold.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity. Terms are ORed;
no terms, or only empty ones, match no node.
"""

from __future__ import annotations

from extender.fit.selectors import describe_requirement, node_term_matches
from extender.model.objects import Node, NodeSelectorTerm, PodShape
from extender.model.texts import some


def matches(shape: PodShape, node: Node) -> bool:
    """Tell whether the node meets the pod's node selector and required node affinity."""
    labels = node.labels
    for key, value in shape.node_selector:
        if labels.get(key) != value:
            return False
    if shape.node_terms is None:
        return True
    return any(node_term_matches(term, node) for term in shape.node_terms)


def _describe(term: NodeSelectorTerm) -> str:
    every = (*term.labels, *term.fields)
    return (
        some([describe_requirement(r) for r in every[:3]], of=len(every), by=" and ") or "nothing"
    )


def why_not(shape: PodShape, node: Node) -> str | None:
    """Return which selector the node does not meet, None when it meets all."""
    if matches(shape, node):
        return None
    for key, value in shape.node_selector:
        have = node.labels.get(key)
        if have != value:
            state = "the label is missing" if have is None else f"it is {have}"
            return f"NodeAffinity: the node selector wants {key}={value}, {state}"
    every = shape.node_terms or ()
    terms = some([_describe(term) for term in every[:3]], of=len(every), by=" or ")
    return f"NodeAffinity: the required affinity wants {terms or 'nothing'}"
