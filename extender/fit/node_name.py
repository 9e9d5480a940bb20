"""NodeName: a pod that names its node (spec.nodeName) fits only there."""

from __future__ import annotations

from extender.model.objects import Node, Pod


def why_not(pod: Pod, node: Node) -> str | None:
    """Return why the pod's own node name rules this node out, None when it does not."""
    if pod.node and pod.node != node.name:
        return f"NodeName: the pod names node {pod.node}"
    return None
