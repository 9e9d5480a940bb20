"""What is read of a pod, and what is said of one that is malformed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extender.decode.from_json import (
    decode_pod,
)
from extender.model.errors import InvalidInput
from extender.model.objects import (
    Owner,
    Pod,
)
from tests.model.documents import raw

FULL = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "train-0",
        "namespace": "team",
        "uid": "u-1",
        "resourceVersion": "4711",
        "creationTimestamp": "2026-11-20T10:00:00Z",
        "deletionTimestamp": "2026-11-20T10:01:00Z",
        "deletionGracePeriodSeconds": 5,
        "labels": {"app": "train"},
        "annotations": {
            "podgroup-extender.io/protected": "true",
            "kueue.x-k8s.io/pod-group-total-count": "4",
            "batch.kubernetes.io/job-completion-index": "3",
            "kubectl.kubernetes.io/last-applied-configuration": "{...}",
        },
        "ownerReferences": [
            {"kind": "Other", "name": "o", "uid": "o-1", "apiVersion": "v1"},
            {
                "kind": "Job",
                "name": "train",
                "uid": "j-1",
                "apiVersion": "batch/v1",
                "controller": True,
            },
        ],
    },
    "spec": {
        "nodeName": "n1",
        "priority": 100,
        "preemptionPolicy": "Never",
        "schedulerName": "mine",
        "terminationGracePeriodSeconds": 60,
        "schedulingGates": [{"name": "wait"}],
        "schedulingGroup": {"podGroupName": "g"},
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "3"}}}],
    },
    "status": {
        "phase": "Running",
        "startTime": "2026-11-20T10:00:30Z",
        "nominatedNodeName": "n2",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            {"type": "DisruptionTarget", "status": "True"},
        ],
    },
}


def test_every_field_of_a_pod_is_read() -> None:
    pod = decode_pod(raw(FULL))
    assert pod == Pod(
        uid="u-1",
        namespace="team",
        name="train-0",
        node="n1",
        phase="Running",
        priority=100,
        preempts=False,
        labels={"app": "train"},
        annotations={
            "podgroup-extender.io/protected": "true",
            "kueue.x-k8s.io/pod-group-total-count": "4",
            "batch.kubernetes.io/job-completion-index": "3",
        },
        requests=(("cpu", 3000), ("pods", 1)),
        shape=pod.shape,
        pod_group="g",
        owner=Owner("Job", "train", "j-1"),
        created=1795168800.0,
        started=1795168830.0,
        deleting=1795168860.0,
        grace=5,
        nominated="n2",
        gated=True,
        disrupted=True,
        unready=True,
        tried=True,
        version=4711,
    )
    assert pod.shape.scheduler == "mine"


def test_bytes_raw_text_and_mappings_give_the_same_record() -> None:
    expected = decode_pod(raw(FULL))
    assert decode_pod(msgspec.Raw(raw(FULL))) == expected
    assert decode_pod(json.dumps(FULL)) == expected
    assert decode_pod(FULL) == expected


def test_a_bare_manifest_gets_the_defaults_of_the_api() -> None:
    pod = decode_pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    assert pod == Pod(uid="", namespace="default", name="p", requests=(("pods", 1),), unready=True)


def test_null_is_as_good_as_absent() -> None:
    document = {
        "metadata": {
            "name": "p",
            "creationTimestamp": None,
            "labels": None,
            "annotations": None,
            "ownerReferences": None,
        },
        "spec": {
            "containers": [{"name": "c", "resources": None, "ports": None}],
            "initContainers": None,
            "overhead": None,
            "nodeSelector": None,
            "affinity": None,
            "tolerations": None,
            "volumes": None,
            "topologySpreadConstraints": None,
            "resourceClaims": None,
        },
        "status": {"conditions": None, "startTime": None},
    }
    bare = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}}
    assert decode_pod(document) == decode_pod(bare)


def test_a_condition_that_is_not_true_does_not_count() -> None:
    conditions = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "DisruptionTarget", "status": "False"},
    ]
    pod = decode_pod({"metadata": {"name": "p"}, "status": {"conditions": conditions}})
    assert not pod.tried
    assert not pod.disrupted


@pytest.mark.parametrize(
    ("times", "status", "at"),
    [
        ({"lastTransitionTime": "2027-01-15T08:00:00Z"}, "True", 1_800_000_000.0),
        (
            {"lastTransitionTime": "2027-01-15T07:00:00Z", "lastProbeTime": "2027-01-15T08:00:00Z"},
            "True",
            1_800_000_000.0,
        ),
        ({"lastTransitionTime": "2027-01-15T08:00:00Z", "lastProbeTime": None}, "False", 0.0),
        ({}, "True", 0.0),
    ],
)
def test_the_moment_of_a_checkpoint(times: dict[str, Any], status: str, at: float) -> None:
    condition = {"type": "podgroup-extender.io/Checkpointed", "status": status, **times}
    pod = decode_pod({"metadata": {"name": "p"}, "status": {"conditions": [condition]}})
    assert pod.checkpointed == at


def test_the_grace_period_is_the_deletion_s_once_it_is_deleted() -> None:
    spec = {"terminationGracePeriodSeconds": 0}
    assert decode_pod({"metadata": {"name": "p"}, "spec": spec}).grace == 0
    meta = {"name": "p", "deletionGracePeriodSeconds": 7}
    assert decode_pod({"metadata": meta}).grace == 30
    meta["deletionTimestamp"] = "2026-11-20T10:01:00.5+01:00"
    deleted = decode_pod({"metadata": meta})
    assert deleted.grace == 7
    assert deleted.deleting == 1795165260.5


def test_pods_of_one_template_share_their_parts() -> None:
    one = decode_pod(raw(FULL))
    document = json.loads(raw(FULL))
    document["metadata"] |= {"name": "train-1", "uid": "u-2"}
    two = decode_pod(raw(document))
    assert two.uid == "u-2"
    assert two.labels is one.labels
    assert two.annotations is one.annotations
    assert two.requests is one.requests
    assert two.shape is one.shape
    assert two.owner is one.owner
    assert two.namespace is one.namespace


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"metadata": {"name": "p", "namespace": "ns", "uid": 5}}, "$.metadata.uid"),
        ({"metadata": {"name": "p", "namespace": "ns", "labels": {"a": 1}}}, "metadata.labels"),
        (
            {"metadata": {"name": "p", "namespace": "ns", "annotations": ["a"]}},
            "metadata.annotations",
        ),
        (
            {"metadata": {"name": "p", "namespace": "ns", "ownerReferences": [{"kind": "x"}]}},
            "metadata.ownerReferences",
        ),
        (
            {"metadata": {"name": "p", "namespace": "ns", "creationTimestamp": "yesterday"}},
            "metadata.creationTimestamp",
        ),
        (
            {
                "metadata": {
                    "name": "p",
                    "namespace": "ns",
                    "deletionTimestamp": "2026-11-20T10:00:00",
                }
            },
            "metadata.deletionTimestamp",
        ),
        ({"spec": {"priority": "high"}}, "$.spec.priority"),
        ({"spec": {"containers": {}}}, "$.spec.containers"),
        ({"spec": {"schedulingGroup": "g"}}, "$.spec.schedulingGroup"),
        ({"status": {"startTime": 5}}, "status.startTime"),
        ({"status": {"conditions": "none"}}, "$.status.conditions"),
    ],
)
def test_what_is_wrong_and_where(change: dict[str, Any], where: str) -> None:
    document = {"metadata": {"name": "p", "namespace": "ns"}, **change}
    with pytest.raises(InvalidInput) as caught:
        decode_pod(raw(document))
    assert str(caught.value).startswith("Pod ns/p: ")
    assert where in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"[]", b"7", b"{", b'{"metadata":{"name":7}}', b"\xff"])
def test_what_has_no_name_is_still_an_error_of_ours(data: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"Pod \(name unreadable\)"):
        decode_pod(data)


def test_a_pod_without_a_name_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"metadata\.name"):
        decode_pod({"metadata": {"generateName": "p-"}})
    with pytest.raises(InvalidInput, match=r"metadata\.name"):
        decode_pod({})


def test_a_mapping_that_is_no_json_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not a JSON object"):
        decode_pod({"metadata": {"name": object()}})
