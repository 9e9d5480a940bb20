"""Has room come since a plan was searched for, so that fewer might have to go?

A search may take seconds, and rehearsing and recording a plan as long as the API server likes.
Nodes and ended pods that come meanwhile make no plan invalid (``validity.py``), but its victims
might go for nothing. This only says that another search is worth its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice

from extender.gang.plan.validity import quick_problem
from extender.model.objects import Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot, differing

MOST_NODES = 256
"""How many changed nodes are looked at; more changes than that are the rule somewhere large."""


def room_came(
    pods: Mapping[str, Pod], before: Snapshot, now: Snapshot, holds: Iterable[Hold]
) -> str:
    """Return a node that takes one of these members now and did not before, "" for none.

    By what nodes and requests alone decide, without an eviction; terminating pods count as gone.
    ``pods``: members by uid; ``holds``: seats of other gangs.
    """
    if before is now:
        return ""
    changed = differing(before.nodes, now.nodes) | differing(before.bound, now.bound)
    names = list(islice(sorted(changed & now.nodes.keys()), MOST_NODES))
    held: defaultdict[str, list[Hold]] = defaultdict(list)
    for hold in holds if names else ():
        held[hold.node].append(hold)
    kinds = {(pod.shape, pod.requests): uid for uid, pod in pods.items()}
    for name in names:
        for uid in kinds.values():
            seat = {uid: name}
            if not quick_problem(seat, pods, now, _leaving(now, name), held[name]) and (
                quick_problem(seat, pods, before, _leaving(before, name), held[name])
            ):
                return name
    return ""


def _leaving(snapshot: Snapshot, name: str) -> set[str]:
    return {pod.uid for pod in snapshot.bound.get(name, ()) if pod.deleting}
