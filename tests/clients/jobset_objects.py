"""JobSets for the tests, and what has become of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.clients.jobset_controller import NAME
from tests.controlplane.cluster import Cluster
from tests.controlplane.objects import make_pod, merged

Obj = dict[str, Any]
CPU = 3
"""Of each pod: one fills a node of four."""


def replicated(
    name: str,
    jobs: int,
    pods: int,
    priority_class: str,
    *,
    job: Mapping[str, Any] | None = None,
    **more: Any,
) -> Obj:
    """A replicated Job: so many Jobs of so many pods each; ``job`` is merged into their spec."""
    pod = make_pod(name, cpu=CPU, priority_class=priority_class)
    spec = {
        "parallelism": pods,
        "completions": pods,
        "template": {"spec": {**pod["spec"], "restartPolicy": "Never"}},
    }
    return {"name": name, "replicas": jobs, "template": {"spec": merged(spec, job or {})}, **more}


def jobset(
    name: str, *parts: Obj, annotations: Mapping[str, str] | None = None, **spec: Any
) -> Obj:
    """A JobSet of these replicated Jobs."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": dict(annotations or {})},
        "spec": {"replicatedJobs": list(parts), **spec},
    }


def pods_of(cluster: Cluster, name: str) -> list[Obj]:
    """The pods of a JobSet that neither go nor have ended."""
    found = cluster.client.list("Pod", labelSelector=f"{NAME}={name}")
    return [
        pod
        for pod in found
        if not pod["metadata"].get("deletionTimestamp")
        and pod["status"].get("phase") in ("Pending", "Running")
    ]


def running(cluster: Cluster, name: str) -> list[Obj]:
    """Those of them that run."""
    return [pod for pod in pods_of(cluster, name) if pod["status"]["phase"] == "Running"]


def uids(objects: list[Obj]) -> set[str]:
    """The UIDs of some objects."""
    return {each["metadata"]["uid"] for each in objects}


def removed(cluster: Cluster) -> dict[str, str]:
    """Pod -> who had it removed, in the order in which that was asked for; no rehearsals."""
    found: dict[str, str] = {}
    for record in cluster.control_plane.removals():
        ours = record["objectRef"]["namespace"] == cluster.namespace
        if (
            ours
            and record["responseStatus"]["code"] == 200
            and "dryRun" not in record["requestURI"]
        ):
            found.setdefault(record["objectRef"].get("name", ""), record["user"]["username"])
    return found


def jobs_of(cluster: Cluster, name: str) -> list[Obj]:
    """The Jobs of a JobSet that do not go."""
    found = cluster.client.list("Job", labelSelector=f"{NAME}={name}")
    return [job for job in found if not job["metadata"].get("deletionTimestamp")]


def status_of(cluster: Cluster, name: str) -> Obj:
    """What a JobSet says of itself."""
    found: Obj = cluster.client.get("JobSet", name).get("status", {})
    return found


def condition_of(cluster: Cluster, name: str, kind: str) -> str:
    """The reason of a condition that is true, "" where it is not."""
    for each in status_of(cluster, name).get("conditions", ()):
        if each["type"] == kind and each["status"] == "True":
            return str(each["reason"])
    return ""


def finish(cluster: Cluster, name: str, timeout: float) -> None:
    """Let all pods of a JobSet end well, as kubelets would report it, and wait for the JobSet."""
    for pod in running(cluster, name):
        cluster.client.patch(
            "Pod", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status"
        )
    cluster.client.wait_for(
        lambda: condition_of(cluster, name, "Completed"), timeout, f"JobSet {name} is complete"
    )
