"""What is read of nodes, classes, budgets, namespaces and groups, and of whole documents."""

from __future__ import annotations

from typing import Any

import pytest

from extender.decode.from_json import (
    decode_budget,
    decode_documents,
    decode_group,
    decode_namespace,
    decode_node,
    decode_priority_class,
)
from extender.model.errors import InvalidInput
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    LabelSelector,
    Node,
    PriorityClass,
    Requirement,
    Taint,
)
from tests.model.documents import raw

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


@pytest.mark.parametrize(
    ("mode", "whole"),
    [
        ("Pod", False),
        ("PodGroup", True),
        ({"single": {}}, False),
        ({"all": {}}, True),
        (None, False),
    ],
)
def test_all_spellings_of_disruption_mode(mode: Any, *, whole: bool) -> None:
    assert core(disruptionMode=mode).disrupt_all is whole


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
