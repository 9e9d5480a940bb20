"""TaintToleration: taints with effect NoSchedule or NoExecute need a toleration.

Source: k8s.io/api/core/v1/toleration.go. The comparison operators Lt and Gt
(KEP-5471) are alpha and off by default; like any unknown operator they
tolerate nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.model.objects import Node, PodShape, Taint, Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether one toleration covers one taint.

    An empty effect covers every effect, an empty key every key (API validation
    allows that only with Exists); an empty operator means Equal.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def untolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first taint that keeps the pod away, None when there is none."""
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(tolerates(t, taint) for t in tolerations):
            return taint
    return None


def why_not(shape: PodShape, node: Node) -> str | None:
    """Return why the node's taints keep the pod away, None when they do not."""
    taint = untolerated(node.taints, shape.tolerations)
    if taint is None:
        return None
    value = f"={taint.value}" if taint.value else ""
    return f"TaintToleration: taint {taint.key}{value}:{taint.effect} is not tolerated"
