"""What decisions see of a pod, looked up by name, and of each gang with where it stands."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from itertools import chain, islice
from typing import TypedDict

from extender.gang.tell.gang_status import (
    DescribedGang,
    Facts,
    GangStatuses,
    described,
)
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

MOST = 20
"""Pods of one name in as many namespaces; for more, name the namespace."""


class DescribedPod(TypedDict):
    """An unfinished pod as decisions see it."""

    namespace: str
    name: str
    uid: str
    gang: str
    """Key of its gang, empty for a pod of no gang."""
    owner: str | None
    """KIND/NAME of what creates another pod in its place; empty where nothing does."""
    node: str
    """Its node, empty while it waits for one."""
    nominated: str
    """The node that its status nominates."""
    priority: int
    preempts: bool
    """Whether its preemptionPolicy lets it evict."""
    scheduler: str
    """Its schedulerName."""
    gated: bool
    """Whether scheduling gates keep it from being scheduled."""
    tried: bool
    """Whether its scheduler has tried it and found no node."""
    terminating: bool
    created: float
    """When it was created, in seconds since the epoch."""


def pods_named(
    name: str, snapshot: Snapshot, member_key: Callable[[Pod], GangKey | None]
) -> list[DescribedPod]:
    """Return the unfinished pods of a name, or of a namespace/name, at most MOST."""
    namespace, _, last = name.rpartition("/")
    found = (
        pod
        for pod in chain(_bound(snapshot), snapshot.pending.values())
        if pod.name == last and (not namespace or pod.namespace == namespace)
    )
    return [_described(pod, member_key(pod)) for pod in islice(found, MOST)]


def _bound(snapshot: Snapshot) -> Iterator[Pod]:
    return chain.from_iterable(snapshot.bound.values())


def _described(pod: Pod, gang: GangKey | None) -> DescribedPod:
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "gang": str(gang) if gang is not None else "",
        "owner": pod.controller,
        "node": pod.node,
        "nominated": pod.nominated,
        "priority": pod.priority,
        "preempts": pod.preempts,
        "scheduler": pod.shape.scheduler,
        "gated": pod.gated,
        "tried": pod.tried,
        "terminating": bool(pod.deleting),
        "created": pod.created,
    }


def with_status(
    snapshot: Snapshot,
    resolve: Callable[[GangKey, Snapshot], Gang],
    schedulers: Collection[str],
    facts: Facts,
) -> Iterator[DescribedGang]:
    """Return every gang, each made as it is asked for."""
    statuses = GangStatuses(facts)
    for key in sorted(snapshot.members):
        gang = described(resolve(key, snapshot), schedulers)
        yield {**gang, "status": statuses.of(gang)}
