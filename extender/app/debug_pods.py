"""What decisions see of a pod, looked up by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any

from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot

MOST = 20
"""Pods of one name in as many namespaces; whoever wants more names the namespace."""


def pods_named(
    name: str, snapshot: Snapshot, member_key: Callable[[Pod], GangKey | None]
) -> list[dict[str, Any]]:
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


def _described(pod: Pod, gang: GangKey | None) -> dict[str, Any]:
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
