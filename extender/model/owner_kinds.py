"""Kinds of objects that say what gangs are beside PodGroups, and where they are served.

Those that make pods say how many; those of Kueue say how urgent they are; DeviceClasses say which
resources are devices.

Reading them is optional: without the right, or the kind, gangs are what their pods say.
"""

from __future__ import annotations

from msgspec import Struct


class ObjectKind(Struct, frozen=True):
    """One kind. Sources: the projects' API packages, in the versions listed."""

    kind: str
    group: str
    """API group."""
    versions: tuple[str, ...]
    """Best first."""
    plural: str
    selector: str = ""
    """Label selector of those that are read, "" for all."""
    fields: str = ""
    """Field selector of those that are read, "" for all."""


JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOB = "job"
"""Those of JobSets: what has finished of a JobSet, its Jobs tell and nobody else."""

_KUBEFLOW = (
    ("PyTorchJob", ("v1",)),
    ("TFJob", ("v1",)),
    ("XGBoostJob", ("v1",)),
    ("PaddleJob", ("v1",)),
    ("JAXJob", ("v1",)),
    ("MPIJob", ("v2beta1", "v1")),
)
OWNER_KINDS: dict[str, ObjectKind] = {
    "jobset": ObjectKind("JobSet", "jobset.x-k8s.io", ("v1alpha2",), "jobsets"),
    JOB: ObjectKind("Job", "batch", ("v1",), "jobs", selector=JOBSET_NAME),
    "leader-worker-set": ObjectKind(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io", ("v1",), "leaderworkersets"
    ),
    "ray-cluster": ObjectKind("RayCluster", "ray.io", ("v1",), "rayclusters"),
    **{
        kind.lower(): ObjectKind(kind, "kubeflow.org", versions, f"{kind.lower()}s")
        for kind, versions in _KUBEFLOW
    },
}
"""GroupObject.source -> kind. A source has the name of its dialect, or of its kind in small
letters where a dialect has several."""
TRAINING_JOBS = frozenset(kind.lower() for kind, _ in _KUBEFLOW)

WORKLOAD, WORKLOAD_CLASS = "workload", "workload-priority-class"
_KUEUE = "kueue.x-k8s.io"
PRIORITY_KINDS: dict[str, ObjectKind] = {
    WORKLOAD: ObjectKind("Workload", _KUEUE, ("v1beta2", "v1beta1"), "workloads"),
    WORKLOAD_CLASS: ObjectKind(
        "WorkloadPriorityClass", _KUEUE, ("v1beta2", "v1beta1"), "workloadpriorityclasses"
    ),
}
"""The same for what is read with groups.workloadPriority alone."""
CORE_WORKLOAD = "core-workload"
COMPOSITE = "core-composite"
CORE_KINDS: dict[str, ObjectKind] = {
    CORE_WORKLOAD: ObjectKind("Workload", "scheduling.k8s.io", ("v1alpha1",), "workloads"),
    COMPOSITE: ObjectKind(
        "CompositePodGroup", "scheduling.k8s.io", ("v1alpha3",), "compositepodgroups"
    ),
}
"""The Workload of Kubernetes 1.35 (later ones are templates, and PodGroups say what counts), and
the CompositePodGroup of 1.37."""
DEVICE_CLASS_SOURCE = "device-class"
DEVICE_KINDS: dict[str, ObjectKind] = {
    DEVICE_CLASS_SOURCE: ObjectKind("DeviceClass", "resource.k8s.io", ("v1",), "deviceclasses"),
}
"""Which extended resources are allocated as devices (DRAExtendedResource: on from 1.36)."""
PARTLY_DONE = "job-partly-done"
"""Jobs of which some pods have succeeded and that make or have others still: what is done of a gang
where the pods are gone (extender.groups.done_by_owner). Of all Jobs these are few, and a source of
their own: that they are read changes nothing where a gang is as large as its Job (JOB)."""
JOB_STATUS_KINDS: dict[str, ObjectKind] = {
    PARTLY_DONE: ObjectKind("Job", "batch", ("v1",), "jobs", fields="status.successful!=0"),
}
OTHER_KINDS = OWNER_KINDS | PRIORITY_KINDS | CORE_KINDS | DEVICE_KINDS | JOB_STATUS_KINDS
