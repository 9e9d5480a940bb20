"""What is read of pods, nodes, classes, budgets and groups, and what is said of malformed ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from extender.decode.from_json import (
    decode_budget,
    decode_documents,
    decode_group,
    decode_namespace,
    decode_node,
    decode_pod,
    decode_priority_class,
)
from extender.decode.interning import Interner, Memo
from extender.model.errors import InvalidInput
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    LabelSelector,
    Node,
    Owner,
    Pod,
    PriorityClass,
    Requirement,
    Taint,
)
from extender.model.texts import rfc3339
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


# -- the others ----------------------------------------------------------------------------


def test_node() -> None:
    document = {
        "metadata": {
            "name": "n1",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"kubernetes.io/hostname": "n1"},
        },
        "spec": {
            "unschedulable": True,
            "taints": [{"key": "k", "effect": "NoExecute"}, {"key": "l", "value": "v"}],
        },
        "status": {
            "capacity": {"cpu": "8"},
            "allocatable": {"cpu": "7910m", "memory": "1Ki", "pods": 110, "x.io/none": "0"},
        },
    }
    assert decode_node(raw(document)) == Node(
        "n1",
        "u",
        {"kubernetes.io/hostname": "n1"},
        (Taint("k", "", "NoExecute"), Taint("l", "v", "NoSchedule")),
        unschedulable=True,
        allocatable=(("cpu", 7910), ("memory", 1024), ("pods", 110)),
        version=7,
    )


def test_a_node_that_only_reports_its_capacity_has_that_to_give() -> None:
    document = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "8"}}}
    assert decode_node(document).allocatable == (("cpu", 8000),)
    assert decode_node({"metadata": {"name": "n1"}}).allocatable == ()


@pytest.mark.parametrize("amount", ["8 cores", "", "-1", "1e99", "0x10", "1.5.5"])
def test_a_node_s_odd_quantity_is_named(amount: str) -> None:
    document = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": amount}}}
    with pytest.raises(InvalidInput, match=r"^Node n1: status\.allocatable\.cpu: quantity"):
        decode_node(document)


def test_priority_class() -> None:
    document = {
        "metadata": {"name": "high", "uid": "u", "resourceVersion": "3"},
        "value": 100000,
        "globalDefault": True,
        "preemptionPolicy": "Never",
    }
    assert decode_priority_class(document) == PriorityClass(
        "high", 100000, global_default=True, preempts=False, uid="u", version=3
    )
    del document["value"]
    with pytest.raises(InvalidInput, match=r"PriorityClass high: .*value"):
        decode_priority_class(document)


def test_budget() -> None:
    document = {
        "metadata": {"name": "b", "namespace": "ns", "uid": "u"},
        "spec": {
            "minAvailable": "50%",
            "selector": {
                "matchLabels": {"b": "2", "a": "1"},
                "matchExpressions": [{"key": "c", "operator": "Exists"}],
            },
        },
        "status": {
            "disruptionsAllowed": 2,
            "currentHealthy": 3,
            "desiredHealthy": 1,
            "disruptedPods": {"p2": "2026-11-20T10:00:00Z"},
        },
    }
    wanted = LabelSelector(
        (
            Requirement("a", "In", ("1",)),
            Requirement("b", "In", ("2",)),
            Requirement("c", "Exists"),
        )
    )
    assert decode_budget(document) == DisruptionBudget("u", "ns", "b", wanted, 2, unready_free=True)


NAMES = {f"p{i}": "2026-11-20T10:00:00Z" for i in range(2001)}


@pytest.mark.parametrize(
    ("generation", "status", "allowed"),
    [
        (1, {"observedGeneration": 1}, 2),
        (2, {"observedGeneration": 1}, 0),
        (1, {}, 0),
        (1, {"observedGeneration": 1, "disruptedPods": NAMES}, 0),
        (1, {"observedGeneration": 1, "disruptedPods": dict(list(NAMES.items())[1:])}, 2),
    ],
)
def test_what_the_eviction_api_refuses_is_not_allowed(
    generation: int, status: dict[str, Any], allowed: int
) -> None:
    """Its checkAndDecrement: 429 for a status of an older spec, which one without
    observedGeneration is, and 403 for more than 2,000 disruptedPods."""
    meta = {"name": "b", "namespace": "ns", "generation": generation}
    document = {"metadata": meta, "spec": {}, "status": {"disruptionsAllowed": 2, **status}}
    assert decode_budget(document).allowed == allowed


def test_a_budget_s_empty_selector_matches_all_an_absent_one_nothing() -> None:
    meta = {"name": "b", "namespace": "ns"}
    assert decode_budget({"metadata": meta, "spec": {"selector": {}}}).selector == LabelSelector()
    bare = decode_budget({"metadata": meta, "spec": {}})
    assert bare.selector is None
    assert bare.allowed == 0, "what nobody has counted yet is not allowed"


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "Like", "values": ["x"]},
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["x"]},
        {"operator": "Exists"},
    ],
)
def test_a_selector_that_means_nothing_is_refused(expression: dict[str, Any]) -> None:
    document = {
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": {"matchExpressions": [expression]}},
    }
    with pytest.raises(InvalidInput, match=r"PodDisruptionBudget ns/b: .*spec\.selector"):
        decode_budget(document)


def test_namespace() -> None:
    found = decode_namespace({"metadata": {"name": "team", "uid": "u", "labels": {"a": "b"}}})
    assert (found.name, found.uid, found.labels) == ("team", "u", {"a": "b"})


# -- groups --------------------------------------------------------------------------------


def core(**spec: Any) -> GroupObject:
    policy = {"schedulingPolicy": {"gang": {"minCount": 4}}}
    meta = {"name": "g", "namespace": "ns", "uid": "u", "resourceVersion": "9"}
    return decode_group("core", raw({"metadata": meta, "spec": {**policy, **spec}}))


@pytest.mark.parametrize("mode", ["Whole", {}, {"all": {}, "single": {}}, {"some": {}}])
def test_an_unknown_disruption_mode_is_not_guessed(mode: Any) -> None:
    with pytest.raises(InvalidInput, match=r"^PodGroup ns/g: spec\.disruptionMode"):
        core(disruptionMode=mode)


def test_a_core_group_with_everything() -> None:
    group = core(
        schedulingConstraints={"topology": [{"key": "topology.kubernetes.io/zone"}]},
        priorityClassName="high",
        priority=1000,
        preemptionPolicy="Never",
        disruptionMode={"all": {}},
        podGroupTemplateRef={"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
    )
    assert group == GroupObject(
        source="core",
        uid="u",
        namespace="ns",
        name="g",
        min_count=4,
        disrupt_all=True,
        priority=1000,
        priority_class="high",
        preempts=False,
        topology_key="topology.kubernetes.io/zone",
        version=9,
    )


def test_a_basic_group_has_no_quorum() -> None:
    group = core(schedulingPolicy={"basic": {}})
    assert group.min_count is None
    assert group.priority is None
    assert group.preempts


def test_a_core_group_without_spec_is_refused() -> None:
    with pytest.raises(InvalidInput, match="PodGroup ns/g: spec"):
        decode_group("core", {"metadata": {"name": "g", "namespace": "ns"}})
    with pytest.raises(InvalidInput, match="minCount"):
        core(schedulingPolicy={"gang": {}})


def test_scheduler_plugins_group() -> None:
    meta = {"name": "g", "namespace": "ns", "uid": "u"}
    group = decode_group("scheduling-plugins", {"metadata": meta, "spec": {"minMember": 3}})
    assert group == GroupObject("scheduling-plugins", "u", "ns", "g", min_count=3)
    bare = decode_group("scheduling-plugins", {"metadata": meta})
    assert bare.min_count == 1
    with pytest.raises(InvalidInput, match="minMember"):
        decode_group("scheduling-plugins", {"metadata": meta, "spec": {"minMember": "3"}})


# -- documents -----------------------------------------------------------------------------


def test_lists_within_lists_are_read_through() -> None:
    document = {
        "kind": "List",
        "apiVersion": "v1",
        "items": [
            {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}},
            {"kind": "Service", "apiVersion": "v1", "metadata": {"name": "ignored"}},
            {"kind": "Pod", "apiVersion": "example.com/v1", "metadata": {"name": "ignored"}},
            {
                "kind": "PodGroup",
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "metadata": {"name": "g"},
                "spec": {"schedulingPolicy": {"basic": {}}},
            },
            {
                "kind": "PodGroup",
                "apiVersion": "scheduling.x-k8s.io/v1alpha1",
                "metadata": {"name": "h"},
                "spec": {"minMember": 2},
            },
            {"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n"}}]},
        ],
    }
    found = [(type(r).__name__, r.name) for r in decode_documents(raw(document))]
    assert found == [("Pod", "p"), ("GroupObject", "g"), ("GroupObject", "h"), ("Node", "n")]
    sources = [r.source for r in decode_documents(document) if isinstance(r, GroupObject)]
    assert sources == ["core", "scheduling-plugins"]


def test_a_document_with_a_malformed_item_says_which() -> None:
    document = {"kind": "PodList", "apiVersion": "v1", "items": [{"metadata": {"name": 3}}]}
    with pytest.raises(InvalidInput, match="Pod"):
        list(decode_documents(document))
    with pytest.raises(InvalidInput, match="document"):
        list(decode_documents(b"kind: Pod"))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00Z"),
        (1_790_000_000.9, "2026-09-21T14:13:20Z"),
        (9e18, "9999-12-31T23:59:59Z"),
        (float("inf"), "9999-12-31T23:59:59Z"),
        (-1e18, "1970-01-01T00:00:00Z"),
    ],
)
def test_no_time_is_too_late_to_be_written(seconds: float, text: str) -> None:
    assert rfc3339(seconds) == text


def test_a_memo_never_outgrows_its_limit_and_stays_right() -> None:
    memo: Memo[int, str] = Memo(limit=10)
    for number in range(1000):
        assert memo.put(number, str(number), 1) == str(number)
        assert memo.get(number) == str(number)
        assert len(memo) <= 10


def test_an_interner_gives_back_the_first_of_equals() -> None:
    intern: Interner[tuple[str, ...]] = Interner(limit=3)
    first = intern(tuple("ab"), 1)
    assert intern(tuple("ab"), 1) is first
    for number in range(10):
        assert intern((str(number),), 1) == (str(number),)


def test_both_are_bounded_by_bytes() -> None:
    memo: Memo[int, str] = Memo(most_bytes=100)
    for number in range(1000):
        memo.put(number, "x" * 40, 40)
        assert len(memo) <= 2
    intern: Interner[str] = Interner()
    large = "x" * 10_000
    assert intern(large, len(large)) is large
    assert intern("".join(large), len(large)) == large
    assert intern.size == 0
