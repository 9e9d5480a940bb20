"""Objects of a gang that are being deleted: its PodGroup, what is above that, what made its pods.

Nothing is evicted for such a gang, whichever finalizer the object waits for. With
foregroundDeletion, or one of an operator, its pods go with it or after it. A PodGroup that is gone
starts no gang, and its protection (podgroup-protection, Kubernetes 1.37) keeps it only as long as
pods of it are there. With "orphan" the pods stay, and the garbage collector needs a moment: once
the owner is gone the gang is what its pods say. With background deletion the owner is gone first:
pods that still name it as their controller go in a moment. As a victim the gang is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.groups.absent import ABSENT, why_absent
from extender.groups.composite import chain_of
from extender.groups.jobset import LABEL as JOBSET
from extender.groups.leader_worker_set import NAME as LEADER_WORKER_SET
from extender.model.group_sources import API_GROUPS, CORE, SCHEDULING_PLUGINS
from extender.model.objects import GangKey, GroupObject, Pod
from extender.model.owner_kinds import CORE_WORKLOAD, JOB, OTHER_KINDS, OWNER_KINDS, PARTLY_DONE
from extender.model.reduce import OF_WORKLOAD
from extender.model.snapshot import Snapshot

BY_KIND = {kind.kind: (source,) for source, kind in OWNER_KINDS.items()} | {
    OWNER_KINDS[JOB].kind: (JOB, PARTLY_DONE)
}
"""Kind of a pod's controller -> where such objects are."""
BY_LABEL = ((JOBSET, "jobset"), (LEADER_WORKER_SET, "leader-worker-set"))
"""Makers that are not the controller of their pods."""


def ending(key: GangKey, members: Sequence[Pod], snapshot: Snapshot) -> tuple[str, ...]:
    """Return which of the gang's objects are being deleted or gone; of each kind one is told."""
    found = {row.source: row for row in _rows(key, members, snapshot) if row.ending}
    told = tuple(f"{_named(row)} is being deleted" for row in found.values())
    return told or tuple(_gone(key, members, snapshot))[:1]


def _gone(key: GangKey, members: Sequence[Pod], snapshot: Snapshot) -> Iterator[str]:
    """Yield the controllers of waiting members that are not there any more.

    Jobs are read in part, so that one that is not known may be there.
    """
    for owner in {pod.owner for pod in members if pod.owner is not None and not pod.node}:
        for source in BY_KIND.get(owner.kind, ()):
            row = snapshot.groups.get((source, key.namespace, owner.name))
            if owner.kind == OWNER_KINDS[JOB].kind or source not in snapshot.group_sources:
                continue
            there = row is not None and row.uid == owner.uid
            if not there and why_absent(source, key.namespace, owner.name, snapshot) == ABSENT:
                yield f"{owner.kind} {key.namespace}/{owner.name}, which made its pods, is gone"


def owner_names(members: Sequence[Pod]) -> set[str]:
    """Return the names of what made the pods, and of PodGroups of theirs: ``ending`` asks these."""
    names = {pod.owner.name for pod in members if pod.owner and pod.owner.kind in BY_KIND}
    names |= {pod.pod_group.partition(OF_WORKLOAD)[0] for pod in members if pod.pod_group}
    names |= {pod.labels[label] for pod in members for label, _ in BY_LABEL if label in pod.labels}
    return names


def _rows(key: GangKey, members: Sequence[Pod], snapshot: Snapshot) -> Iterator[GroupObject]:
    namespace, groups = key.namespace, snapshot.groups
    for name in {pod.pod_group for pod in members if pod.pod_group}:
        group = groups.get((CORE, namespace, name))
        if group is not None:
            yield from chain_of(group, groups).rows
        workload = groups.get((CORE_WORKLOAD, namespace, name.partition(OF_WORKLOAD)[0]))
        if workload is not None:
            yield workload
    source = SCHEDULING_PLUGINS if key.dialect.startswith(SCHEDULING_PLUGINS) else key.dialect
    named = [(source, key.name)] if source in API_GROUPS else []
    for label, of in BY_LABEL:
        named += [(of, name) for name in {pod.labels.get(label) for pod in members} if name]
    for source, name in named:
        row = groups.get((source, namespace, name))
        if row is not None:
            yield row
    for owner in {pod.owner for pod in members if pod.owner is not None}:
        for source in BY_KIND.get(owner.kind, ()):
            row = groups.get((source, namespace, owner.name))
            if row is not None and row.uid == owner.uid:
                yield row


def _named(row: GroupObject) -> str:
    kind = OTHER_KINDS[row.source].kind if row.source in OTHER_KINDS else "PodGroup"
    return f"{kind} {row.namespace}/{row.name}"
