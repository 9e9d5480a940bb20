"""Why no node accepts a pod even when it is empty: resources, and the rules that refuse. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from extender.decode.quantity import format_resource
from extender.fit.node_resources_fit import PODS
from extender.fit.static import pod_class
from extender.model.objects import Node, Pod
from extender.model.texts import counted, some

MOST_RULES = 3
SIZE = "NodeResourcesFit"


class NoNode(Struct, frozen=True):
    """What refuses a pod on every node."""

    missing: tuple[str, ...]
    """Resources that it asks for and no node offers."""
    reasons: tuple[str, ...]
    """For a person: those, amounts that no node has, and the rules that refuse most nodes."""


NO_AFFINITY = NoNode(
    (),
    (
        "InterPodAffinity: its required affinity is met on no node that accepts it by labels, "
        "taints and size",
    ),
)


def no_node(pod: Pod, nodes: Mapping[str, Node]) -> NoNode | None:
    """Return why no node accepts the pod even when it is empty, None where one does."""
    judge = pod_class(pod)
    rules: Counter[str] = Counter()
    for node in nodes.values():
        why = judge.why_not(node)
        if why is None:
            return None
        rules[why] += 1
    sizes = [dict(size) for size in {node.allocatable for node in nodes.values()}]
    missing, small = [], []
    for name, amount in pod.requests if sizes else ():
        most = max(size.get(name, 0) for size in sizes)
        if name != PODS and most == 0 < amount:
            missing.append(name)
        elif most < amount:
            small.append(
                f"no node has {format_resource(name, amount)} (the largest: "
                f"{format_resource(name, most)})"
            )
    reasons = [f"no node offers {' or '.join(missing)}"] if missing else []
    reasons += small
    others = [(why, count) for why, count in rules.most_common() if not why.startswith(SIZE)]
    said = [f"{counted(count, 'node')}: {why}" for why, count in others]
    reasons += [some(said, MOST_RULES, by="; ")] if said else []
    if not reasons and nodes:
        reasons = ["no node has enough of all that it asks for"]
    return NoNode(tuple(missing), tuple(reasons))


def told(groups: Sequence[tuple[str, NoNode]]) -> str:
    """Return the reasons of several kinds of pods, each by its name."""
    return some([f"{name}: {'; '.join(each.reasons)}" for name, each in groups], by="; ")
