"""The pods that a Job or a JobSet of a manifest would have, as manifests of pods.

Sources: the Job controller (pkg/controller/job in Kubernetes) for the number of pods, their
labels and the completion index; sigs.k8s.io/jobset for a JobSet's Jobs and labels. Pods of a
NonIndexed Job get no index, as in a cluster: they are interchangeable and by themselves no gang.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from extender.model.errors import InvalidInput
from extender.model.texts import counted

MAX_PODS = 100_000
"""Of one manifest; far beyond a gang, and few enough to end."""

Obj = dict[str, Any]


def mapping(value: Any, where: str) -> Obj:
    """Return a mapping, an empty one for null; InvalidInput that names ``where`` for others."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where} must be a mapping, not {type(value).__name__}")
    return value


def text(value: Any, where: str) -> str:
    """Return a text, "" for null; InvalidInput that names ``where`` for others."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"{where} must be a string, not {type(value).__name__}")
    return value


def _count(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PODS:
        raise InvalidInput(f"{where} must be a whole number from 0 to {MAX_PODS}, not {value!r}")
    return value


def is_indexed(job: Obj, what: str) -> bool:
    """Return whether the Job gives its pods an index; ``what`` is what errors call it."""
    mode = mapping(job.get("spec"), f"{what}: spec").get("completionMode")
    if mode not in (None, "Indexed", "NonIndexed"):
        raise InvalidInput(
            f"{what}: spec.completionMode must be Indexed or NonIndexed, not {mode!r}"
        )
    return mode == "Indexed"


def pods_of_job(job: Obj, what: str, most: int = MAX_PODS) -> Iterator[Obj]:
    """Yield the pods of a Job whose metadata has name and namespace, as if it were not suspended.

    Raises InvalidInput that begins with ``what`` and the field, also for more than ``most`` pods.
    """
    spec = mapping(job.get("spec"), f"{what}: spec")
    template = mapping(spec.get("template"), f"{what}: spec.template")
    inner = mapping(template.get("metadata"), f"{what}: spec.template.metadata")
    labels = mapping(inner.get("labels"), f"{what}: spec.template.metadata.labels")
    notes = mapping(inner.get("annotations"), f"{what}: spec.template.metadata.annotations")
    pod_spec = mapping(template.get("spec"), f"{what}: spec.template.spec")
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    count = _count(1 if parallelism is None else parallelism, f"{what}: spec.parallelism")
    if completions is not None:
        count = min(count, _count(completions, f"{what}: spec.completions"))
    if count > most:
        raise InvalidInput(
            f"{what}: {counted(count, 'pod', 'is', 'are')} too many: the manifest's Jobs "
            f"may have {most} more"
        )
    indexed = is_indexed(job, what)
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    for number in range(count):
        index = {"batch.kubernetes.io/job-completion-index": str(number)} if indexed else {}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{name}-{number}",
                "namespace": namespace,
                "labels": {**labels, "batch.kubernetes.io/job-name": name, **index},
                "annotations": {**notes, **index},
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "name": name,
                        "uid": f"manifest-{namespace}-{name}",
                        "controller": True,
                    }
                ],
            },
            "spec": dict(pod_spec),
        }


def jobs_of_jobset(jobset: Obj, what: str) -> Iterator[Obj]:
    """Yield the Jobs of a JobSet whose metadata has name and namespace. Errors as above."""
    name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
    spec = mapping(jobset.get("spec"), f"{what}: spec")
    replicated = spec.get("replicatedJobs")
    if not isinstance(replicated, list) or not replicated:
        raise InvalidInput(f"{what}: spec.replicatedJobs must be a list with an entry")
    for position, entry in enumerate(replicated):
        where = f"{what}: spec.replicatedJobs[{position}]"
        part = text(mapping(entry, where).get("name"), f"{where}.name")
        if not part:
            raise InvalidInput(f"{where}.name: is missing")
        replicas = entry.get("replicas")
        count = _count(1 if replicas is None else replicas, f"{where}.replicas")
        template = mapping(entry.get("template"), f"{where}.template")
        job = mapping(template.get("spec"), f"{where}.template.spec")
        pods = mapping(job.get("template"), f"{where}.template.spec.template")
        inner = mapping(pods.get("metadata"), f"{where}.template.spec.template.metadata")
        labels = mapping(inner.get("labels"), f"{where}.template.spec.template.metadata.labels")
        for number in range(count):
            own = {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/replicatedjob-name": part,
                "jobset.sigs.k8s.io/replicatedjob-replicas": str(count),
                "jobset.sigs.k8s.io/job-index": str(number),
            }
            yield {
                "kind": "Job",
                "metadata": {"name": f"{name}-{part}-{number}", "namespace": namespace},
                # A JobSet makes every Job Indexed unless it says otherwise.
                "spec": {
                    "completionMode": "Indexed",
                    **job,
                    "template": {**pods, "metadata": {**inner, "labels": {**labels, **own}}},
                },
            }
