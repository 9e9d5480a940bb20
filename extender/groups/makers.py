"""Members that an owner of the gang's name made, and that has been deleted and made again since.

A gang is called after its owner, and an owner may be made anew at once. Until the garbage collector
has come to them, the pods of the one before run on and nothing marks them. Counted as members that
are seated they would let the new ones start one by one. As victims they are what they were: who is
left of them goes together with whoever runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.model.objects import GangKey, Owner, Pod
from extender.model.owner_kinds import JOB
from extender.model.snapshot import Snapshot

JOBSET = "jobset"
JOBSET_UID = "jobset.sigs.k8s.io/jobset-uid"
"""Label of a JobSet's pods, which its Jobs own."""
BY_OWNER = frozenset({"indexed-job", "ray-cluster", "training-operator"})
"""Dialects whose pods have the gang's owner, of its name, as their controller."""


def of_one_before(key: GangKey, members: Sequence[Pod], snapshot: Snapshot) -> frozenset[str]:
    """Return the uids of members that another object of the same kind and name made before.

    The one that made the youngest member is the present one: the object itself may be read later
    than its pods. Within one second it tells which.
    """
    if key.dialect != JOBSET and key.dialect not in BY_OWNER:
        return frozenset()
    made: dict[Owner, list[Pod]] = {}
    for pod in members:
        maker = _maker(key, pod)
        if maker is not None:
            made.setdefault(maker, []).append(pod)
    if len(made) < 2:
        return frozenset()
    latest: dict[str, tuple[tuple[float, bool, bool], Owner]] = {}
    for maker, pods in made.items():
        place = (
            max(pod.created for pod in pods),
            _is_there(maker, key, snapshot),
            any(not pod.node for pod in pods),
        )
        if maker.kind not in latest or place > latest[maker.kind][0]:
            latest[maker.kind] = (place, maker)
    return frozenset(
        pod.uid for maker, pods in made.items() if latest[maker.kind][1] != maker for pod in pods
    )


def _maker(key: GangKey, pod: Pod) -> Owner | None:
    """Return the object of the gang's name that made the pod, None where it does not say."""
    if key.dialect == JOBSET:
        uid = pod.labels.get(JOBSET_UID)
        return Owner("JobSet", key.name, uid) if uid else None
    owner = pod.owner
    return owner if owner is not None and owner.name == key.name and owner.uid else None


def _is_there(maker: Owner, key: GangKey, snapshot: Snapshot) -> bool:
    source = JOB if key.dialect == "indexed-job" else key.dialect
    if key.dialect == "training-operator":
        source = maker.kind.lower()
    found = snapshot.groups.get((source, key.namespace, key.name))
    return found is not None and found.uid == maker.uid
