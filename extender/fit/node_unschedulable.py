"""NodeUnschedulable: a cordoned node takes only pods that tolerate its taint."""

from __future__ import annotations

from extender.fit.taint_toleration import untolerated
from extender.model.objects import Node, PodShape, Taint

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


def why_not(shape: PodShape, node: Node) -> str | None:
    """Return why spec.unschedulable keeps the pod away, None when it does not."""
    if node.unschedulable and untolerated((UNSCHEDULABLE,), shape.tolerations):
        return "NodeUnschedulable: the node is cordoned"
    return None
