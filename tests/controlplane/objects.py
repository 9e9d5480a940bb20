"""Builders of the Kubernetes objects that tests need, as plain dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.controlplane.releases import Release

Object = dict[str, Any]

FAKE_NODE = {"kwok.x-k8s.io/node": "fake"}
IMAGE = "example.com/nothing:1"


def merged(base: Object, extra: Mapping[str, Any]) -> Object:
    """Merge dictionaries deeply; the second one wins, lists are replaced."""
    result = dict(base)
    for key, value in extra.items():
        old = result.get(key)
        nested = isinstance(old, dict) and isinstance(value, Mapping)
        result[key] = merged(old, value) if nested and isinstance(old, dict) else value
    return result


def make_node(
    name: str,
    cpu: str | int = 4,
    memory: str = "16Gi",
    pods: int = 110,
    *,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Object] = (),
    resources: Mapping[str, str | int] | None = None,
    unschedulable: bool = False,
) -> Object:
    """A node that kwok keeps Ready; ``resources`` are extended resources, e.g. GPUs."""
    amounts: dict[str, str] = {"cpu": str(cpu), "memory": memory, "pods": str(pods)}
    amounts["ephemeral-storage"] = "100Gi"
    amounts.update({key: str(value) for key, value in (resources or {}).items()})
    every = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        **(labels or {}),
    }
    spec: Object = {"taints": list(taints)} if taints else {}
    if unschedulable:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": every, "annotations": dict(FAKE_NODE)},
        "spec": spec,
        "status": {"capacity": dict(amounts), "allocatable": dict(amounts)},
    }


def make_pod(
    name: str,
    cpu: str | int = "100m",
    memory: str | None = None,
    *,
    namespace: str | None = None,
    resources: Mapping[str, str | int] | None = None,
    priority_class: str | None = None,
    pod_group: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    node: str | None = None,
    grace: int = 0,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A pod with one container; ``spec`` is merged in last.

    ``grace`` is terminationGracePeriodSeconds. ``pod_group`` fills spec.schedulingGroup, ``node``
    binds the pod without the scheduler.
    """
    amounts: dict[str, str] = {"cpu": str(cpu)}
    if memory is not None:
        amounts["memory"] = memory
    amounts.update({key: str(value) for key, value in (resources or {}).items()})
    body: Object = {
        "terminationGracePeriodSeconds": grace,
        "containers": [
            {
                "name": "main",
                "image": IMAGE,
                "resources": {"requests": amounts, "limits": dict(amounts)},
            }
        ],
    }
    if priority_class is not None:
        body["priorityClassName"] = priority_class
    if pod_group is not None:
        body["schedulingGroup"] = {"podGroupName": pod_group}
    if node is not None:
        body["nodeName"] = node
    metadata: Object = {"name": name}
    for key, value in (("labels", labels), ("annotations", annotations)):
        if value:
            metadata[key] = dict(value)
    if namespace is not None:
        metadata["namespace"] = namespace
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": merged(body, spec or {}),
    }


def make_pod_group(
    release: Release,
    name: str,
    min_count: int | None,
    *,
    disruption: str | None = None,
    priority_class: str | None = None,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A PodGroup of a release.

    Without ``min_count`` its policy is ``basic``. ``disruption`` is ``single`` or ``all`` (spelt
    as the release spells it), or None to leave it to the API server.
    """
    policy: Object = {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}
    body: Object = {"schedulingPolicy": policy}
    if disruption is not None:
        spelt = {"single": release.disruption_single, "all": release.disruption_all}
        body["disruptionMode"] = spelt[disruption]
    if priority_class is not None:
        body["priorityClassName"] = priority_class
    return {
        "apiVersion": release.group_api,
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": merged(body, spec or {}),
    }


def make_job(
    name: str,
    completions: int,
    pod: Object | None = None,
    *,
    indexed: bool = True,
    backoff_per_index: bool = False,
    spec: Mapping[str, Any] | None = None,
) -> Object:
    """A Job that runs all its pods at once; ``pod`` is a template as ``make_pod`` makes it.

    A deleted pod counts as failed, and the Job waits 10 s, doubled by every further failure,
    before it makes new ones: a gang of four comes back after 80 s. With ``backoff_per_index``
    each index counts for itself and the whole gang comes back after 10 s.
    """
    template = pod or make_pod("template")
    metadata = {key: value for key, value in template["metadata"].items() if key != "name"}
    body: Object = {
        "completions": completions,
        "parallelism": completions,
        # A preempted Job is to come back, however often.
        "backoffLimit": 1_000_000,
        "completionMode": "Indexed" if indexed else "NonIndexed",
        "template": {
            "metadata": metadata,
            "spec": merged(template["spec"], {"restartPolicy": "Never"}),
        },
    }
    if backoff_per_index:
        body["backoffLimitPerIndex"] = body["backoffLimit"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": merged(body, spec or {}),
    }


def make_priority_class(name: str, value: int, *, preemption_policy: str | None = None) -> Object:
    """A PriorityClass."""
    made: Object = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    if preemption_policy is not None:
        made["preemptionPolicy"] = preemption_policy
    return made


def make_pdb(name: str, selector: Mapping[str, str], **spec: Any) -> Object:
    """A PodDisruptionBudget; give ``minAvailable`` or ``maxUnavailable``."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": dict(selector)}, **spec},
    }
