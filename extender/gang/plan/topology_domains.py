"""Topology domains: by which labels the seats share one, and their numbers for the search."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from extender.fit.member_rules import EACH_NODE, MemberCap, self_affinity_key
from extender.fit.view import ClusterView
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot


def domain_keys(gang: Gang, view: ClusterView, *, opens: bool = False) -> tuple[str, ...]:
    """Return the labels of which all seats must share one value each.

    ``opens`` as for self_affinity_key.
    """
    pending = gang.pending
    ruled = any(pod.shape.affinity for pod in pending)
    keys = set(self_affinity_key(pending, view, opens=opens)) if ruled else set()
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
        snapshot.nodes[pod.node].labels.get(key)
        for pod in gang.seated
        if pod.node in snapshot.nodes
    }
    return len(values) > 1 or None in values


def required_domains(
    keys: tuple[str, ...], names: Sequence[str], snapshot: Snapshot, gang: Gang
) -> array[int]:
    """Number the domains of which the waiting members need one: ``keys`` as by domain_keys."""
    return domain_numbers(keys, names, snapshot, gang.seated, gang.topology_key)


def preferred_domains(
    keys: tuple[str, ...], names: Sequence[str], snapshot: Snapshot, gang: Gang
) -> array[int]:
    """Number the domains of which they wish for one: ``keys`` as by preferred_keys."""
    return domain_numbers(keys, names, snapshot, gang.seated, keys[0])


def domain_numbers(
    keys: tuple[str, ...],
    names: Sequence[str],
    snapshot: Snapshot,
    bound: Iterable[Pod] = (),
    shared: str = "",
) -> array[int]:
    """Number the domains of the nodes, by their values of ``keys``; -1 where a key is missing.

    Members in ``bound`` have chosen their value of ``shared``, one of the keys, for everybody:
    nodes with another one become -1. Of the other keys they have not: by ``domain_keys`` nobody yet
    is what the waiting members require to be near.
    """

    def value(name: str) -> tuple[str, ...] | None:
        labels = snapshot.nodes[name].labels
        found = tuple(labels[key] for key in keys if key in labels)
        return found if len(found) == len(keys) else None

    values = [value(name) for name in names]
    order = {v: i for i, v in enumerate(sorted({v for v in values if v is not None}))}
    there = [snapshot.nodes[pod.node] for pod in bound if pod.node in snapshot.nodes]
    if not shared or not there:
        return array("i", (-1 if v is None else order[v] for v in values))
    at, taken = keys.index(shared), {node.labels.get(shared) for node in there}
    return array("i", (-1 if v is None or v[at] not in taken else order[v] for v in values))


def cap_domains(cap: MemberCap, names: Sequence[str], snapshot: Snapshot) -> array[int]:
    """Number the domains in which the cap counts; -1 where it does not."""
    if cap.topology_key == EACH_NODE:
        on = cap.nodes
        return array("i", (i if on is None or name in on else -1 for i, name in enumerate(names)))
    return domain_numbers((cap.topology_key,), names, snapshot)
