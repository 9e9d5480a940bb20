"""How urgent Kueue takes a gang to be: its WorkloadPriorityClass.

Source: sigs.k8s.io/kueue. The class orders Kueue's queue and leaves the pods' priority as it is,
so to kube-scheduler pods of different classes are equal. It is what the Workload names, else
label kueue.x-k8s.io/priority-class of the pods (which is on the pods of a pod group, and for
other jobs on the job alone).
"""

from __future__ import annotations

from extender.groups.absent import why_unknown
from extender.groups.sizes import staying
from extender.model.names import quoted
from extender.model.objects import GangKey, Pod
from extender.model.owner_kinds import OTHER_KINDS, TRAINING_JOBS, WORKLOAD, WORKLOAD_CLASS
from extender.model.snapshot import Snapshot

LABEL = "kueue.x-k8s.io/priority-class"
WHAT = "Kueue's WorkloadPriorityClass"
"""How a note on a class that does not count begins."""
KINDS = {
    "jobset": ("jobset",),
    "indexed-job": ("job",),
    "ray-cluster": ("ray-cluster",),
    "leader-worker-set": ("leader-worker-set",),
    "training-operator": tuple(sorted(TRAINING_JOBS)),
}
"""Dialect -> what a Workload of its gangs belongs to. Else it has the gang's name itself."""


def workload_priority(
    key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot, *, counts: bool
) -> tuple[int | None, tuple[str, ...]]:
    """Return the value of the gang's class and notes; None where the pods' own priority counts."""
    found = _class_of(key, members, snapshot) if counts else _labelled(members)
    if not found:
        return None, ()
    if len(found) > 1:
        return None, (f"{WHAT} differs between pods: the pods' own priorities count",)
    (name,) = found
    if not counts:
        return None, (f"{WHAT} {quoted(name)} does not count: groups.workloadPriority is off",)
    known = snapshot.groups.get((WORKLOAD_CLASS, "", name))
    if known is None:
        why = why_unknown(WORKLOAD_CLASS, "", name, snapshot)
        return None, (f"{WHAT} {quoted(name)} {why}: the pods' own priorities count",)
    return known.priority, ()


def _class_of(key: GangKey, members: tuple[Pod, ...], snapshot: Snapshot) -> set[str]:
    names = [f"{OTHER_KINDS[source].kind}/{key.name}" for source in KINDS.get(key.dialect, ())]
    for name in names or [key.name]:
        workload = snapshot.groups.get((WORKLOAD, key.namespace, name))
        if workload is not None and workload.priority_class:
            return {workload.priority_class}
    return _labelled(members)


def _labelled(members: tuple[Pod, ...]) -> set[str]:
    found = {pod.labels.get(LABEL, "") for pod in staying(members)}
    return set() if found == {""} else found
