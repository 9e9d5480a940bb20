"""Objects that make pods, as their users write them; fields as in each project's API package.

JobSet 0.12.0 (v1alpha2), Kubernetes 1.37.0 (batch/v1), LeaderWorkerSet 0.10.0 (v1), KubeRay 1.7.0
(v1), training-operator 1.9.4 (kubeflow.org/v1), mpi-operator 0.8.0 (v2beta1).
"""

from __future__ import annotations

from typing import Any

from extender.decode.from_json import decode_group
from extender.model.objects import GroupObject
from extender.model.owner_kinds import OTHER_KINDS
from tests.groups.provenance import made_by

Obj = dict[str, Any]


def template(cpu: str = "3", **labels: str) -> Obj:
    """A pod template that asks for this much."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": labels}, "spec": {"containers": [container]}}


def replicated(name: str, replicas: int = 1, each: int = 1, cpu: str = "3", **more: Any) -> Obj:
    """One entry of a JobSet's replicatedJobs."""
    spec = {"parallelism": each, "completions": each, "template": template(cpu)}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def jobset(*jobs: Obj, name: str = "g", in_order: bool = False, **more: Any) -> Obj:
    """A JobSet."""
    spec: Obj = {"replicatedJobs": list(jobs)}
    if in_order:
        spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
    return document("jobset", name, spec, **more)


def job(name: str, each: int, of: str = "g", **status: Any) -> Obj:
    """A Job of a JobSet."""
    spec = {"parallelism": each, "completions": each, "template": template()}
    made = document("job", name, spec, status=status)
    if of:
        made["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": of}
    return made


def document(source: str, name: str, spec: Obj, status: Obj | None = None, **meta: Any) -> Obj:
    """Any of them."""
    kind = OTHER_KINDS[source]
    return {
        "apiVersion": f"{kind.group}/{kind.versions[0]}",
        "kind": kind.kind,
        "metadata": {"name": name, "namespace": "ns", "uid": f"o-{source}-{name}", **meta},
        "spec": spec,
        "status": status or {},
    }


def read(source: str, made: Obj) -> GroupObject:
    """The same, decoded."""
    return decode_group(source, made)


@made_by("JobSet", "0.12.0", "read: labelAndAnnotateObject of pkg/controllers/jobset_controller.go")
def jobset_pod(i: int, part: str, gang: str = "g", index: int = 0, job: int = 0) -> Obj:
    """Metadata of a JobSet's pod, without what counts its Jobs."""
    return {
        "labels": {
            "jobset.sigs.k8s.io/jobset-name": gang,
            "jobset.sigs.k8s.io/replicatedjob-name": part,
            "jobset.sigs.k8s.io/job-index": str(job),
            "batch.kubernetes.io/job-completion-index": str(index),
            "batch.kubernetes.io/job-name": f"{gang}-{part}-{job}",
        },
        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
    }


@made_by(
    "Kubeflow Trainer",
    "2.3.0",
    "read: runtime torch-distributed of manifests/base/runtimes, labels of JobSet 0.12.0, "
    "pkg/controllers/jobset_controller.go",
)
def train_job(i: int, size: int, gang: str = "g") -> Obj:
    """A node of a TrainJob: a JobSet of its name has a Job ``node`` of numNodes indices."""
    of_jobset = {
        "jobset.sigs.k8s.io/jobset-name": gang,
        "jobset.sigs.k8s.io/jobset-uid": f"uid-{gang}",
        "jobset.sigs.k8s.io/replicatedjob-name": "node",
        "jobset.sigs.k8s.io/replicatedjob-replicas": "1",
        "jobset.sigs.k8s.io/global-replicas": "1",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/job-global-index": "0",
        "jobset.sigs.k8s.io/job-group-index": "0",
        "jobset.sigs.k8s.io/group-name": "default",
        "jobset.sigs.k8s.io/group-replicas": "1",
        "jobset.sigs.k8s.io/job-key": "ff2552bf4f4223f2f2e5fa9db5e23e0cead953c4",
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    return {
        "labels": {
            **of_jobset,
            "batch.kubernetes.io/job-name": f"{gang}-node-0",
            "batch.kubernetes.io/job-completion-index": str(i),
            "job-name": f"{gang}-node-0",
        },
        "annotations": {**of_jobset, "batch.kubernetes.io/job-completion-index": str(i)},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": f"{gang}-node-0",
                "uid": f"{gang}-node-0",
                "controller": True,
            }
        ],
    }
