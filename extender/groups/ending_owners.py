"""Objects of a gang that are being deleted: its PodGroup, what is above that, what made its pods.

Nothing is evicted for pods that go, whichever finalizer the object waits for. With
foregroundDeletion, or one of an operator, they go with it or after it. Of a gang whose members
several objects made, the others may be its quorum: it is a gang of those. A PodGroup that is gone
starts no gang, and its protection (podgroup-protection, Kubernetes 1.37) keeps it only as long as
pods of it are there. With "orphan" the pods stay, and the garbage collector needs a moment: once
the owner is gone the gang is what its pods say. With background deletion the owner is gone first:
pods that still name it as their controller go in a moment. As a victim the gang is what it was.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from extender.decode.from_api import OF_WORKLOAD
from extender.groups.absent import ABSENT, why_absent
from extender.groups.composite import chain_of
from extender.groups.jobset import LABEL as JOBSET
from extender.groups.leader_worker_set import NAME as LEADER_WORKER_SET
from extender.model.gang import Gang
from extender.model.group_sources import API_GROUPS, CORE, SCHEDULING_PLUGINS
from extender.model.objects import GangKey, GroupObject, Owner, Pod
from extender.model.owner_kinds import CORE_WORKLOAD, JOB, OTHER_KINDS, OWNER_KINDS, PARTLY_DONE
from extender.model.snapshot import Snapshot

OF_JOBS = (JOB, PARTLY_DONE)
BY_KIND = {kind.kind: (source,) for source, kind in OWNER_KINDS.items()} | {
    OWNER_KINDS[JOB].kind: OF_JOBS
}
"""Kind of a pod's controller -> where such objects are."""
BY_LABEL = ((JOBSET, "jobset"), (LEADER_WORKER_SET, "leader-worker-set"))
"""Makers that are not the controller of their pods."""


def ending(key: GangKey, members: Sequence[Pod], snapshot: Snapshot) -> tuple[str, ...]:
    """Return which objects of the gang as a whole are being deleted; of each kind one is told."""
    found = {row.source: row for row in _rows(key, members, snapshot) if row.ending}
    return tuple(f"{_named(row)} is being deleted" for row in found.values())


def leaving(members: Sequence[Pod], snapshot: Snapshot) -> dict[str, str]:
    """Return uid -> why of members whose maker is being deleted, or is gone: they go with it."""
    made: dict[tuple[Owner | None, str | None, str | None, bool], list[Pod]] = {}
    for pod in members:
        labels = pod.labels
        key = (pod.owner, labels.get(JOBSET), labels.get(LEADER_WORKER_SET), not pod.node)
        made.setdefault(key, []).append(pod)
    return {
        pod.uid: why
        for pods in made.values()
        if (why := _why_leaving(pods[0], snapshot))
        for pod in pods
    }


def less_leaving(gang: Gang, going: Mapping[str, str]) -> Gang:
    """Return the gang without the members that go (``going``: as ``leaving``).

    Where the others are not its quorum it is not planned for. A place that one of them has is free
    in a moment: until then nothing is evicted, but a plan in progress goes on.
    """
    if not going:
        return gang
    told = tuple({why.partition(" ")[0]: why for why in going.values()}.values())
    less = replace(gang, before=gang.before | going.keys())
    if not (gang.size_known and less.complete):
        return replace(gang, unplanned=gang.unplanned + told)
    seated = any(pod.uid in going for pod in gang.bound)
    return replace(less, awaits=told if seated else (), notes=less.notes + told)


def _why_leaving(pod: Pod, snapshot: Snapshot) -> str:
    """Return why a member goes, "" when it stays.

    Jobs are read in part, so that one that is not known may be there.
    """
    namespace, groups, owner = pod.namespace, snapshot.groups, pod.owner
    for label, source in BY_LABEL:
        row = groups.get((source, namespace, pod.labels.get(label, "")))
        if row is not None and row.ending:
            return f"{_named(row)} is being deleted"
    if owner is None:
        return ""
    for source in BY_KIND.get(owner.kind, ()):
        row = groups.get((source, namespace, owner.name))
        if row is not None and row.uid == owner.uid:
            if row.ending:
                return f"{_named(row)} is being deleted"
        elif pod.node or source in OF_JOBS or source not in snapshot.group_sources:
            continue
        elif why_absent(source, namespace, owner.name, snapshot) == ABSENT:
            return f"{owner.kind} {namespace}/{owner.name}, which made its pods, is gone"
    return ""


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
    if source in API_GROUPS and (row := groups.get((source, namespace, key.name))) is not None:
        yield row


def _named(row: GroupObject) -> str:
    kind = OTHER_KINDS[row.source].kind if row.source in OTHER_KINDS else "PodGroup"
    return f"{kind} {row.namespace}/{row.name}"
