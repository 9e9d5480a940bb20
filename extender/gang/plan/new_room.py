"""Has room come since a plan was searched for, so that fewer might have to go?

A search may take seconds, and rehearsing and recording a plan as long as the API server likes.
Nodes and ended pods that come meanwhile make no plan invalid (``validity.py``), but its victims
might go for nothing. This only says that another search is worth its time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from sys import maxsize

from extender.fit.static import static_allowed
from extender.model.objects import Pod, Requests
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot, differing

MOST_NODES = 256
"""How many changed nodes are looked at; more changes than that are the rule somewhere large."""


def room_came(
    pods: Mapping[str, Pod],
    seats: Mapping[str, str],
    before: Snapshot,
    now: Snapshot,
    holds_before: Iterable[Hold],
    holds: Iterable[Hold],
    waits: AbstractSet[str] = frozenset(),
    candidates: AbstractSet[str] | None = None,
    free: AbstractSet[str] = frozenset(),
) -> str:
    """Return a node that takes more of these members now than before, beside the plan's own seats
    or in their place; "" for none.

    By what nodes and requests alone decide, without an eviction. Pods that the plan waits for
    (``waits``) count as gone, and those that terminate since; it had a reason not to wait for
    others, until they are gone. ``pods``: members by uid; ``seats``: uid -> node; ``holds_before``,
    ``holds``: seats of other gangs then and now. ``candidates``: the only
    nodes that kube-scheduler named for a pod of no gang. Others had no room then, whatever they
    looked like, and are of use only where they have come ``free`` since.
    """
    held_before, held = _by_node(holds_before), _by_node(holds)
    if before is now and held_before == held:
        return ""
    resized = any(
        uid in before.pending
        and uid in now.pending
        and before.pending[uid].requests != now.pending[uid].requests
        for uid in pods
    )
    changed = differing(before.nodes, now.nodes) | differing(before.bound, now.bound)
    changed |= {name for name, those in held_before.items() if those != held.get(name)}
    names = sorted(changed & now.nodes.keys())
    if resized:  # any node may take more of them; of these one has room that is new
        names += sorted(now.nodes.keys() - changed)
    if candidates is not None:
        names = [name for name in names if name in candidates or name in free]
    del names[MOST_NODES:]
    kinds = {(pod.shape, pod.requests): pod for pod in pods.values()}
    sits, sat = _sizes(seats, pods, now), _sizes(seats, pods, before)
    for name in names:
        old, new = before.bound.get(name, ()), now.bound.get(name, ())
        there = {pod.uid for pod in old if pod.deleting}
        going = {pod.uid for pod in new if pod.deleting} - there | waits
        own, others = sits.get(name, []), [hold.requests for hold in held.get(name, ())]
        owned, had = sat.get(name, []), [hold.requests for hold in held_before.get(name, ())]
        named = candidates is None or name in candidates
        # Where seats are, that they have room without a victim is news enough; so is room for some
        # of them, for others may be elsewhere.
        ways = [(own, owned, 0), ([], [], 1)] if own else [([], [], 1)]
        for pod in kinds.values():
            for kept, before_kept, least in ways:
                takes = _members(pod, name, now, going, kept + others)
                took = _members(pod, name, before, waits, before_kept + had) if named else 0
                if takes >= least and takes > took:
                    return name
    return ""


def _members(
    member: Pod, name: str, snapshot: Snapshot, going: AbstractSet[str], taken: Iterable[Requests]
) -> int:
    """Return how many pods like this one a node takes beside what is ``taken``; below 0 where it
    lacks room for that."""
    node = snapshot.nodes.get(name)
    if node is None or static_allowed(member, node) is not None:
        return -maxsize
    free = dict(node.allocatable)
    there = (pod.requests for pod in snapshot.bound.get(name, ()) if pod.uid not in going)
    for requests in (*there, *taken):
        for resource, amount in requests:
            if resource in free:
                free[resource] -= amount
    wants = snapshot.pending.get(member.uid, member).requests
    rooms = (free.get(resource, 0) // amount for resource, amount in wants if amount)
    return min(rooms, default=len(snapshot.pending))


def _sizes(
    seats: Mapping[str, str], pods: Mapping[str, Pod], snapshot: Snapshot
) -> dict[str, list[Requests]]:
    """Return, per node, what the members with seats there ask for."""
    found: defaultdict[str, list[Requests]] = defaultdict(list)
    for uid, node in seats.items():
        if uid in pods:
            found[node].append(snapshot.pending.get(uid, pods[uid]).requests)
    return dict(found)


def _by_node(holds: Iterable[Hold]) -> dict[str, list[Hold]]:
    found: defaultdict[str, list[Hold]] = defaultdict(list)
    for hold in holds:
        found[hold.node].append(hold)
    return dict(found)
