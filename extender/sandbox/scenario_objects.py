"""The Kubernetes objects that a scenario's arrivals stand for, on this API server.

What differs between versions (which PodGroup, how disruption is spelt) is found
by discovery.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from extender.kube.api_errors import NotFound
from extender.kube.client import KubeClient
from extender.model.errors import InvalidInput
from extender.sandbox.api_status import Obj
from extender.sandbox.scenario import Create, EqualPods, Nodes, expand

ACTOR = "podgroup-extender.io/actor"
"""Label of every pod a scenario makes: whose pod it is, also when a Job makes it again."""
IMAGE = "registry.k8s.io/pause:3.10"
CORE_GROUP, PLUGIN_GROUP = "scheduling.k8s.io", "scheduling.x-k8s.io"
_VERSIONS = ("v1beta1", "v1alpha3", "v1alpha2")


class Served(Struct, frozen=True):
    """Which PodGroup kinds this API server has."""

    core: str = ""
    """Version of scheduling.k8s.io PodGroup, "" when it has none."""
    plugin: str = ""
    """Version of scheduling.x-k8s.io PodGroup."""


async def discover(client: KubeClient) -> Served:
    """Ask the API server what it serves."""
    core = ""
    for version in _VERSIONS:
        if await _has_pod_groups(client, CORE_GROUP, version):
            core = version
            break
    plugin = "v1alpha1" if await _has_pod_groups(client, PLUGIN_GROUP, "v1alpha1") else ""
    return Served(core, plugin)


async def _has_pod_groups(client: KubeClient, group: str, version: str) -> bool:
    try:
        answer = await client.get(f"/apis/{group}/{version}")
    except NotFound:
        return False
    return any(item["name"] == "podgroups" for item in answer.get("resources", ()))


def node(spec: Nodes, name: str) -> Obj:
    """One node, also as kwok wants it."""
    amounts = {"cpu": str(spec.cpu), "memory": spec.memory, "pods": str(spec.pods)}
    amounts |= {key: str(value) for key, value in spec.resources.items()}
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **spec.labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {"taints": spec.taints} if spec.taints else {},
        "status": {"capacity": dict(amounts), "allocatable": dict(amounts)},
    }


def priority_class(name: str, value: int) -> Obj:
    """One PriorityClass."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }


def pod_group(create: Create, actor: str, served: Served) -> tuple[str, Obj] | None:
    """Return (collection path without namespace, PodGroup), None when the dialect has none."""
    if create.pod or create.dialect not in ("podGroup", "schedulingPlugins"):
        return None
    meta = {"name": actor}
    if create.dialect == "schedulingPlugins":
        if not served.plugin:
            raise InvalidInput(f"this API server has no PodGroup of {PLUGIN_GROUP}")
        body: Obj = {"metadata": meta, "spec": {"minMember": create.quorum}}
        return f"/apis/{PLUGIN_GROUP}/{served.plugin}", _typed(PLUGIN_GROUP, served.plugin, body)
    if not served.core:
        raise InvalidInput(f"this API server has no PodGroup of {CORE_GROUP}")
    spec: Obj = {"schedulingPolicy": {"gang": {"minCount": create.quorum}}}
    if create.priority_class:
        spec["priorityClassName"] = create.priority_class
    if create.disruption:
        whole = create.disruption == "whole"
        if served.core == "v1alpha2":
            spec["disruptionMode"] = "PodGroup" if whole else "Pod"
        else:
            spec["disruptionMode"] = {"all": {}} if whole else {"single": {}}
    return f"/apis/{CORE_GROUP}/{served.core}", _typed(
        CORE_GROUP, served.core, {"metadata": meta, "spec": spec}
    )


def jobs(create: Create, actor: str) -> Iterator[Obj]:
    """Yield the Indexed Jobs of a JobSet, labelled as the JobSet controller does."""
    assert create.jobset is not None
    for index in range(create.jobset.jobs):
        template = _pod(create, actor, EqualPods(count=1))
        template["metadata"].pop("name")
        labels = {
            "jobset.sigs.k8s.io/jobset-name": actor,
            "jobset.sigs.k8s.io/replicatedjob-name": "workers",
            "jobset.sigs.k8s.io/job-index": str(index),
            "jobset.sigs.k8s.io/restart-attempt": "0",
        }
        template["metadata"]["labels"] |= labels
        completions = create.jobset.completions
        yield {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": f"{actor}-workers-{index}", "labels": {**labels, ACTOR: actor}},
            "spec": {
                "completions": completions,
                "parallelism": completions,
                "completionMode": "Indexed",
                # A deleted pod counts as a failure, and a preempted Job is to come back.
                "backoffLimit": 1_000_000,
                "template": {"metadata": template["metadata"], "spec": template["spec"]},
            },
        }


def pods(create: Create, actor: str, copy: int) -> Iterator[Obj]:
    """Yield the bare pods of one actor, pinned ones with their node."""
    places = expand(create.nodes)[copy * create.size : (copy + 1) * create.size]
    number = 0
    for cls in create.classes:
        for _ in range(cls.count):
            body = _pod(create, actor, cls)
            body["metadata"]["name"] = _pod_name(create, actor, cls, number)
            if create.dialect == "skypilot" and create.gang:
                kind = "head" if number == 0 else "worker"
                body["metadata"]["labels"]["ray-node-type"] = kind
            if places:
                body["spec"]["nodeName"] = places[number]
            yield body
            number += 1


def _pod_name(create: Create, actor: str, cls: EqualPods, number: int) -> str:
    if create.pod:
        return actor
    if create.dialect == "skypilot":
        return f"{actor}-head" if number == 0 else f"{actor}-worker{number}"
    return f"{actor}-{cls.name}-{number}" if cls.name else f"{actor}-{number}"


def _pod(create: Create, actor: str, cls: EqualPods) -> Obj:
    cpu = create.cpu if cls.cpu is None else cls.cpu
    memory = create.memory if cls.memory is None else cls.memory
    extended = create.resources if cls.resources is None else cls.resources
    amounts = {"cpu": str(cpu), **({"memory": memory} if memory else {})}
    amounts |= {key: str(value) for key, value in extended.items()}
    resources = {"requests": dict(amounts), "limits": dict(amounts)}
    spec: Obj = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": create.grace,
        "containers": [{"name": "main", "image": IMAGE, "resources": resources}],
    }
    if create.priority_class:
        spec["priorityClassName"] = create.priority_class
    if create.node_selector:
        spec["nodeSelector"] = dict(create.node_selector)
    if create.spread:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": key,
                "maxSkew": skew,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {ACTOR: actor}},
            }
            for key, skew in create.spread.items()
        ]
    labels, annotations = {ACTOR: actor, **create.labels}, dict(create.annotations)
    if create.dialect == "kueue":
        labels["kueue.x-k8s.io/queue-name"] = "user-queue"
    if create.gang:
        match create.dialect:
            case "podGroup":
                spec["schedulingGroup"] = {"podGroupName": actor}
            case "schedulingPlugins":
                labels["scheduling.x-k8s.io/pod-group"] = actor
            case "schedulingPluginsLabel":
                labels["pod-group.scheduling.sigs.k8s.io/name"] = actor
                labels["pod-group.scheduling.sigs.k8s.io/min-available"] = str(create.quorum)
            case "skypilot":
                labels |= {"parent": "skypilot", "skypilot-cluster-name": actor}
                labels["ray-cluster-name"] = actor
            case "kueue":
                labels["kueue.x-k8s.io/pod-group-name"] = actor
                annotations["kueue.x-k8s.io/pod-group-total-count"] = str(create.size)
    meta: Obj = {"name": actor, "labels": labels}
    if annotations:
        meta["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _typed(group: str, version: str, body: Obj) -> Obj:
    return {"apiVersion": f"{group}/{version}", "kind": "PodGroup", **body}
