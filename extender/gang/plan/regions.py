"""Topology domains as the search counts them, and pods in the way as units in the way."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from extender.fit.member_rules import EACH_NODE, MemberCap, self_affinity_key
from extender.fit.view import ClusterView
from extender.gang.incremental.victims import VictimUnit
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Hold
from extender.model.snapshot import Snapshot
from extender.search.problem import Blocker


def domain_keys(gang: Gang, view: ClusterView) -> tuple[str, ...]:
    """Return the labels of which all seats must share one value each."""
    pending = gang.pending
    ruled = any(pod.shape.affinity for pod in pending)
    keys = set(self_affinity_key(pending, view)) if ruled else set()
    if gang.topology_key:
        keys.add(gang.topology_key)
    return tuple(sorted(keys))


def preferred_keys(gang: Gang, required: tuple[str, ...], snapshot: Snapshot) -> tuple[str, ...]:
    """Return the label that all seats should share one value of, () where none counts.

    None does where another is required, or where members that run already have left
    every single domain.
    """
    key = gang.preferred_topology_key
    if not key or required or preference_lost(gang, snapshot):
        return ()
    return (key,)


def preference_lost(gang: Gang, snapshot: Snapshot) -> bool:
    """Whether members on nodes already lie in no, or in more than one, preferred domain."""
    key = gang.preferred_topology_key
    values = {
        snapshot.nodes[pod.node].labels.get(key) for pod in gang.bound if pod.node in snapshot.nodes
    }
    return len(values) > 1 or None in values


def partition(
    keys: tuple[str, ...], names: Sequence[str], snapshot: Snapshot, bound: Iterable[Pod]
) -> array[int]:
    """Number the nodes' values of ``keys``; -1 where a key is missing.

    Members in ``bound`` have chosen the domain already: all others become -1.
    """

    def value(name: str) -> tuple[str, ...] | None:
        labels = snapshot.nodes[name].labels
        found = tuple(labels[key] for key in keys if key in labels)
        return found if len(found) == len(keys) else None

    values = [value(name) for name in names]
    taken = {value(pod.node) for pod in bound if pod.node in snapshot.nodes}
    order = {v: i for i, v in enumerate(sorted({v for v in values if v is not None}))}
    return array(
        "i", (order[v] if v is not None and (not taken or v in taken) else -1 for v in values)
    )


def cap_domains(cap: MemberCap, names: Sequence[str], snapshot: Snapshot) -> array[int]:
    """Number the domains in which the cap counts; -1 where it does not."""
    if cap.topology_key == EACH_NODE:
        return array("i", range(len(names)))
    return partition((cap.topology_key,), names, snapshot, ())


def blockers_of(
    blocked: Sequence[Mapping[str, tuple[str, ...]]],
    names: Sequence[str],
    subjects: Sequence[VictimUnit | Pod | GangKey],
    allowed: list[bytearray],
    taken_over: Mapping[GangKey, Sequence[Hold]],
) -> tuple[Blocker, ...]:
    """Turn pods in the way into units in the way; a pod that stays closes the node.

    A pod whose seat may be taken over is one that goes: ``taken_over``, by gang.
    """
    if not any(blocked):
        return ()
    index = {name: at for at, name in enumerate(names)}
    unit_of: dict[str, int] = {}
    for i, subject in enumerate(subjects):
        if isinstance(subject, VictimUnit):
            unit_of.update((pod.uid, i) for pod in subject.pods)
        elif isinstance(subject, Pod):
            unit_of[subject.uid] = i
        else:
            unit_of.update((hold.uid, i) for hold in taken_over[subject])
    blockers: list[Blocker] = []
    for cls, found in enumerate(blocked):
        for name in sorted(found.keys() & index.keys()):
            node = index[name]
            ways = {unit_of.get(uid, -1) for uid in found[name]}
            if -1 in ways:
                allowed[cls][node] = 0
            elif allowed[cls][node]:
                blockers.append(Blocker(cls, node, tuple(sorted(ways))))
    return tuple(blockers)
