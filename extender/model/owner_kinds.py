"""Kinds of objects that make pods and say how many: what is read of them, and where it is served.

Reading them is optional: without the right, or the kind, gangs are what their pods say.
"""

from __future__ import annotations

from msgspec import Struct


class OwnerKind(Struct, frozen=True):
    """One kind. Sources: the projects' API packages, in the versions listed."""

    kind: str
    group: str
    """API group."""
    versions: tuple[str, ...]
    """Best first."""
    plural: str
    selector: str = ""
    """Label selector of those that are read, "" for all."""


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
OWNER_KINDS: dict[str, OwnerKind] = {
    "jobset": OwnerKind("JobSet", "jobset.x-k8s.io", ("v1alpha2",), "jobsets"),
    JOB: OwnerKind("Job", "batch", ("v1",), "jobs", selector=JOBSET_NAME),
    "leader-worker-set": OwnerKind(
        "LeaderWorkerSet", "leaderworkerset.x-k8s.io", ("v1",), "leaderworkersets"
    ),
    "ray-cluster": OwnerKind("RayCluster", "ray.io", ("v1",), "rayclusters"),
    **{
        kind.lower(): OwnerKind(kind, "kubeflow.org", versions, f"{kind.lower()}s")
        for kind, versions in _KUBEFLOW
    },
}
"""GroupObject.source -> kind. A source has the name of its dialect, or of its kind in small
letters where a dialect has several."""
TRAINING_JOBS = frozenset(kind.lower() for kind, _ in _KUBEFLOW)
