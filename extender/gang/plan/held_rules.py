"""What the pods of held seats forbid the members, beside the room they take.

A pod that waits for its seat, or that kube-scheduler has nominated to a node, is planned around
as if it were there: its host ports and required anti-affinity, the members' anti-affinity to it,
and affinity of members who would be the first of their kind without it. A seat that gives way
(extender.gang.plan.held_seats) is in the way as a victim is; any other closes the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.fit.blockers import Coming, blocked_nodes
from extender.fit.member_rules import led_away
from extender.fit.view import ClusterView
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot


def coming_pods(
    holds: Iterable[Hold], snapshot: Snapshot, classes: Sequence[tuple[Pod, ...]]
) -> Coming:
    """Return the pods of these seats that a rule may keep apart from members of the classes.

    () where there is no such rule, which is so of most questions. Seats on nodes that are gone,
    or of pods that do not wait any more, count for nothing.
    """
    shapes = [group[0].shape for group in classes]
    every = any(shape.affinity or shape.anti_affinity for shape in shapes)
    ports = any(shape.host_ports for shape in shapes)
    kinds: dict[tuple[int, int, str], tuple[Pod, list[tuple[str, str]]]] = {}
    for hold in holds:
        pod = snapshot.pending.get(hold.uid)
        if pod is None or hold.node not in snapshot.nodes:
            continue
        shape = pod.shape
        if every or shape.anti_affinity or (ports and shape.host_ports):
            kind = (id(shape), id(pod.labels), pod.namespace)
            kinds.setdefault(kind, (pod, []))[1].append((pod.uid, hold.node))
    return tuple(kinds.values())


def blocked_beside(
    group: tuple[Pod, ...],
    gang: Gang,
    view: ClusterView,
    coming: Coming,
    leading: Sequence[Pod],
    *,
    opens: bool,
) -> dict[str, tuple[str, ...]]:
    """Return node -> uids of those that have to go, or not to come, for members of a class.

    ``leading`` and ``opens`` as for led_away.
    """
    found = blocked_nodes(group[0], view, coming)
    led = led_away(group[0], view, coming, gang.pending, leading, opens=opens)
    for name, uids in led.items():
        found[name] = tuple(sorted({*uids, *found.get(name, ())}))
    return found


def blocking_pods(
    blocked: Sequence[Mapping[str, tuple[str, ...]]], coming: Coming
) -> frozenset[str]:
    """Return the uids of pods to come that are in the way somewhere."""
    if not coming:
        return frozenset()
    in_the_way = {uid for found in blocked for uids in found.values() for uid in uids}
    return frozenset(in_the_way.intersection(uid for _, places in coming for uid, _ in places))
