"""Whether seats hold in whatever order kube-scheduler binds the members. Pure.

Room, host ports and anti-affinity hold in every order if they hold once all sit. Required affinity
and topology spread may not: who comes first may leave the others without a node. So the orders are
gone through, as far as they differ, until one of them leaves somebody out.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.fit.member_rules import kind_of, label_keys
from extender.fit.view import ClusterView
from extender.model.objects import Pod

MOST_ASKED = 1_500
"""Seats that are tried in all orders together. What is not found by then is not looked for,"""
MOST_GROUPS = 64
"""nor are orders of more groups of members, those of one kind on one node being alike."""

Failed = list[tuple[Pod, str, str]]
"""Members without their seats, the node of each, and the rule that it breaks there."""


def left_out(after: ClusterView, seats: Sequence[tuple[Pod, str]]) -> Failed:
    """Return the members whom some order of binding leaves out; [] where every order seats all.

    In ``after`` the seats are free, and they can be taken in one order at least.
    """
    waiting = [seat for seat in seats if seat[0].shape.affinity or seat[0].shape.spread]
    if not waiting or _in_any_order(after, seats, waiting):
        return []
    start = after.mark()
    try:
        return _searched(after, seats)
    finally:
        after.rollback(start)


def _in_any_order(
    after: ClusterView, seats: Sequence[tuple[Pod, str]], waiting: Sequence[tuple[Pod, str]]
) -> bool:
    """Whether it is sure without going through the orders.

    Required affinity that pods meet which are there is met in every order. One spread constraint
    holds in every order if each member fits as the last one.
    """
    spreads = {(pod.namespace, pod.shape.spread) for pod, _ in waiting if pod.shape.spread}
    if sum(len(constraints) for _, constraints in spreads) > 1:
        return False
    if any(_needs_members(after, pod, node) for pod, node in waiting):
        return False
    if not spreads:
        return True
    start = after.mark()
    for pod, node in seats:
        after.add(pod, node)
    held = all(after.why_not(pod, node) is None for pod, node in waiting)
    after.rollback(start)
    return held


def _needs_members(after: ClusterView, pod: Pod, node: str) -> bool:
    """Whether required affinity of the pod is not met on its node by pods that are there."""
    terms, labels = pod.shape.affinity, after.nodes[node].labels
    counts = after.term_counts(terms).counts if terms else {}
    return any(
        counts.get((term.topology_key, labels.get(term.topology_key, "")), 0) <= 0 for term in terms
    )


class _Reached:
    """Who sits after part of an order, and what was tried from there."""

    __slots__ = ("failed", "mark", "moved", "seated", "tried")

    def __init__(self, seated: tuple[int, ...], mark: int) -> None:
        self.seated = seated
        """Members of each group."""
        self.mark = mark
        """Of the view without the member that came last."""
        self.tried = 0
        """Groups of which one more was tried."""
        self.moved = False
        self.failed: Failed = []


def _searched(view: ClusterView, seats: Sequence[tuple[Pod, str]]) -> Failed:
    """As ``left_out``, order by order. Moves ``view``."""
    keys = label_keys(pod.shape for pod, _ in seats)
    alike: dict[object, list[tuple[Pod, str]]] = {}
    for pod, node in seats:
        alike.setdefault((kind_of(pod, keys), node), []).append((pod, node))
    groups = list(alike.values())
    if len(groups) > MOST_GROUPS:
        return []
    path = [_Reached((0,) * len(groups), view.mark())]
    seen = {path[0].seated}
    asked = 0
    while path and asked < MOST_ASKED:
        here = path[-1]
        at = here.tried
        if at == len(groups):
            if here.failed and not here.moved:
                return here.failed
            view.rollback(here.mark)
            path.pop()
            continue
        here.tried += 1
        waiting = groups[at][here.seated[at] :]
        if not waiting:
            continue
        asked += 1
        mark = view.mark()
        why = view.seat(*waiting[0])
        if why is not None:
            here.failed += [(*seat, why) for seat in waiting]
            continue
        here.moved = True
        more = (*here.seated[:at], here.seated[at] + 1, *here.seated[at + 1 :])
        if more in seen:
            view.rollback(mark)
            continue
        seen.add(more)
        path.append(_Reached(more, mark))
    return []
