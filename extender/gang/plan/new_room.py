"""Has room come since a plan was searched for, so that fewer might have to go?

A search may take seconds, and rehearsing and recording a plan as long as the API server likes.
Nodes and ended pods that come meanwhile make no plan invalid (``validity.py``), but its victims
might go for nothing. This only says that another search is worth its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import islice

from extender.gang.plan.validity import quick_problem
from extender.model.objects import Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot, differing

MOST_NODES = 256
"""How many changed nodes are looked at; more changes than that are the rule somewhere large."""


def room_came(
    pods: Mapping[str, Pod],
    before: Snapshot,
    now: Snapshot,
    holds_before: Iterable[Hold],
    holds: Iterable[Hold],
    waits: AbstractSet[str] = frozenset(),
) -> str:
    """Return a node that takes one of these members now and did not before, "" for none.

    By what nodes and requests alone decide, without an eviction. Pods that the plan waits for
    (``waits``) count as gone, and those that terminate since; it had a reason not to wait for
    others, until they are gone. ``pods``: members by uid; ``holds_before``, ``holds``: seats of
    other gangs then and now.
    """
    held_before, held = _by_node(holds_before), _by_node(holds)
    if before is now and held_before == held:
        return ""
    changed = differing(before.nodes, now.nodes) | differing(before.bound, now.bound)
    changed |= {name for name, those in held_before.items() if those != held.get(name)}
    names = list(islice(sorted(changed & now.nodes.keys()), MOST_NODES))
    kinds = {(pod.shape, pod.requests): uid for uid, pod in pods.items()}
    for name in names:
        there = {pod.uid for pod in before.bound.get(name, ()) if pod.deleting}
        going = {pod.uid for pod in now.bound.get(name, ()) if pod.deleting} - there | waits
        for uid in kinds.values():
            seat = {uid: name}
            if not quick_problem(seat, pods, now, going, held.get(name, ())) and (
                quick_problem(seat, pods, before, waits, held_before.get(name, ()))
            ):
                return name
    return ""


def _by_node(holds: Iterable[Hold]) -> dict[str, list[Hold]]:
    found: defaultdict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        found[hold.node].append(hold)
    return dict(found)
