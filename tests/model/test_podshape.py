"""What is read of a pod that decides where it may go, and what is not modelled, by name."""

from __future__ import annotations

from typing import Any

import pytest

from extender.decode.from_json import decode_pod
from extender.model.errors import InvalidInput
from extender.model.objects import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    PodShape,
    Requirement,
    Toleration,
)

IN = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def shape(spec: dict[str, Any], labels: dict[str, str] | None = None, ns: str = "ns") -> PodShape:
    meta = {"name": "p", "namespace": ns, "labels": labels or {}}
    return decode_pod({"metadata": meta, "spec": spec}).shape


def pod_term(**fields: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "1"}}, **fields}


def spread(**fields: Any) -> dict[str, Any]:
    return {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"a": "1"}},
        **fields,
    }


def test_node_selector_and_required_node_affinity() -> None:
    affinity = {
        "nodeAffinity": {
            IN: {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "c", "operator": "Gt", "values": ["5"]}],
                        "matchFields": [
                            {"key": "metadata.name", "operator": "In", "values": ["n1"]}
                        ],
                    },
                    {},
                ]
            },
            PREFERRED: [{"weight": 1, "preference": {}}],
        }
    }
    found = shape({"nodeSelector": {"b": "2", "a": "1"}, "affinity": affinity})
    assert found.node_selector == (("a", "1"), ("b", "2"))
    assert found.node_terms == (
        NodeSelectorTerm(
            (Requirement("c", "Gt", ("5",)),), (Requirement("metadata.name", "In", ("n1",)),)
        ),
    ), "a term without requirements selects nothing"
    only_empty: dict[str, Any] = {"nodeAffinity": {IN: {"nodeSelectorTerms": [{}]}}}
    assert shape({"affinity": only_empty}).node_terms == ()
    assert shape({"affinity": {"nodeAffinity": {PREFERRED: []}}}).node_terms is None


def test_affinity_without_namespaces_means_the_pod_s_own() -> None:
    spec = {"affinity": {"podAntiAffinity": {IN: [pod_term()]}}}
    assert shape(spec, ns="one").anti_affinity[0].namespaces == ("one",)
    assert shape(spec, ns="two").anti_affinity[0].namespaces == ("two",)
    listed = {"affinity": {"podAffinity": {IN: [pod_term(namespaces=["y", "x"])]}}}
    assert shape(listed).affinity[0].namespaces == ("x", "y")
    every = {"affinity": {"podAffinity": {IN: [pod_term(namespaceSelector={})]}}}
    assert shape(every).affinity[0].namespaces == ()
    assert shape(every).affinity[0].namespace_selector == LabelSelector()


def test_match_label_keys_are_merged_once() -> None:
    term = pod_term(matchLabelKeys=["rev", "missing"], mismatchLabelKeys=["tenant"])
    spec = {"affinity": {"podAffinity": {IN: [term]}}}
    wanted = (
        Requirement("a", "In", ("1",)),
        Requirement("rev", "In", ("7",)),
        Requirement("tenant", "NotIn", ("t",)),
    )
    found = shape(spec, {"rev": "7", "tenant": "t"}).affinity[0].selector
    assert found == LabelSelector(wanted)
    other = shape(spec, {"rev": "8", "tenant": "t"}).affinity[0].selector
    assert other is not None
    assert other.requirements[1] == Requirement("rev", "In", ("8",))
    # The API server has done it at admission already: nothing is added twice.
    term["labelSelector"]["matchExpressions"] = [
        {"key": "rev", "operator": "In", "values": ["7"]},
        {"key": "tenant", "operator": "NotIn", "values": ["t"]},
    ]
    assert shape(spec, {"rev": "7", "tenant": "t"}).affinity[0].selector == LabelSelector(wanted)
    none = pod_term(labelSelector=None, matchLabelKeys=["rev"])
    spec = {"affinity": {"podAffinity": {IN: [none]}}}
    assert shape(spec, {"rev": "7"}).affinity[0].selector is None


def test_spread_constraints_that_filter() -> None:
    spec = {
        "topologySpreadConstraints": [
            spread(),
            spread(whenUnsatisfiable="ScheduleAnyway"),
            spread(
                maxSkew=2,
                minDomains=3,
                nodeAffinityPolicy="Ignore",
                nodeTaintsPolicy="Honor",
                matchLabelKeys=["rev"],
            ),
        ]
    }
    one, two = shape(spec, {"rev": "7"}).spread
    assert (one.max_skew, one.min_domains, one.honor_node_affinity, one.honor_taints) == (
        1,
        1,
        True,
        False,
    )
    assert (two.max_skew, two.min_domains, two.honor_node_affinity, two.honor_taints) == (
        2,
        3,
        False,
        True,
    )
    assert one.selector == LabelSelector((Requirement("a", "In", ("1",)),))
    assert two.selector is not None
    assert Requirement("rev", "In", ("7",)) in two.selector.requirements
    assert shape(spec, {"rev": "8"}).spread[1] != two


def test_tolerations_keep_what_scheduling_reads() -> None:
    spec = {
        "tolerations": [
            {"operator": "Exists"},
            {"key": "k", "value": "v", "effect": "NoSchedule", "tolerationSeconds": 3},
        ]
    }
    assert shape(spec).tolerations == (
        Toleration("", "Exists", "", ""),
        Toleration("k", "Equal", "v", "NoSchedule"),
    )


def test_host_ports() -> None:
    ports = [
        {"containerPort": 80},
        {"containerPort": 81, "hostPort": 8081},
        {"containerPort": 82, "hostPort": 8082, "protocol": "UDP", "hostIP": "10.0.0.1"},
    ]
    init = {"name": "i", "ports": [{"containerPort": 83, "hostPort": 8083}]}
    spec: dict[str, Any] = {"containers": [{"name": "c", "ports": ports}], "initContainers": [init]}
    wanted = (HostPort("0.0.0.0", "TCP", 8081), HostPort("10.0.0.1", "UDP", 8082))
    assert shape(spec).host_ports == wanted, "a plain init container's ports are not held"
    init["restartPolicy"] = "Always"
    assert HostPort("0.0.0.0", "TCP", 8083) in shape(spec).host_ports
    spec["hostNetwork"] = True
    assert HostPort("0.0.0.0", "TCP", 80) in shape(spec).host_ports


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({"volumes": [{"name": "v", "emptyDir": {}}]}, ()),
        (
            {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
            ("persistentVolumeClaim c",),
        ),
        ({"volumes": [{"name": "v", "ephemeral": {}}]}, ("persistentVolumeClaim",)),
        ({"volumes": [{"name": "v", "rbd": {}}]}, ("exclusiveDisk",)),
        ({"volumes": [{"name": "v", "ephemeral": None}]}, ()),
        ({"resourceClaims": [{"name": "r"}]}, ("resourceClaim",)),
        ({"resourceClaims": []}, ()),
        (
            {
                "resourceClaims": [
                    {"name": "r", "resourceClaimName": "a"},
                    {"name": "s", "resourceClaimTemplateName": "b"},
                ]
            },
            ("resourceClaim a", "resourceClaimTemplate b"),
        ),
        ({"hostNetwork": True, "hostUsers": True}, ()),
        (
            {"hostNetwork": True, "hostUsers": False},
            ("nodeFeature UserNamespacesHostNetworkSupport",),
        ),
        (
            {"initContainers": [{"restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            ("nodeFeature RestartAllContainersOnContainerExits",),
        ),
        ({"containers": [{"restartPolicyRules": [{"action": "Restart"}]}]}, ()),
        (
            {"containers": [{"volumeMounts": [{"name": "v", "bindMountOptions": ["ro"]}]}]},
            ("nodeFeature VolumeBindMountOptions",),
        ),
    ],
)
def test_what_is_not_modelled_is_named(spec: dict[str, Any], names: tuple[str, ...]) -> None:
    assert shape(spec).unmodelled == names


@pytest.mark.parametrize(
    ("spec", "where"),
    [
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector"),
        ({"affinity": []}, "spec.affinity"),
        ({"affinity": {"podAffinity": {IN: [{"labelSelector": {}}]}}}, "topologyKey"),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        IN: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "k", "operator": "Near"}]}
                            ]
                        }
                    }
                }
            },
            "spec.affinity",
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {
                        IN: [
                            pod_term(
                                labelSelector={"matchExpressions": [{"key": "k", "operator": "In"}]}
                            )
                        ]
                    }
                }
            },
            "spec.affinity.podAntiAffinity.required[0]: selector",
        ),
        ({"tolerations": {}}, "spec.tolerations"),
        ({"topologySpreadConstraints": [spread(maxSkew=0)]}, "spec.topologySpreadConstraints"),
        (
            {"topologySpreadConstraints": [spread(nodeTaintsPolicy="Maybe")]},
            "nodeTaintsPolicy",
        ),
        (
            {"containers": [{"name": "c", "ports": [{"hostPort": "80"}]}]},
            "spec.containers[0].ports",
        ),
    ],
)
def test_malformed_constraints_are_named(spec: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        shape(spec)
    assert str(caught.value).startswith("Pod ns/p: ")
    assert where in str(caught.value)


PORTS = [{"name": "c", "ports": [{"containerPort": 80}]}]
STATING: dict[str, dict[str, Any]] = {
    "node_selector": {"nodeSelector": {"a": "1"}},
    "node_terms": {
        "affinity": {
            "nodeAffinity": {
                IN: {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                    ]
                }
            }
        }
    },
    "affinity": {"affinity": {"podAffinity": {IN: [pod_term()]}}},
    "anti_affinity": {"affinity": {"podAntiAffinity": {IN: [pod_term()]}}},
    "spread": {"topologySpreadConstraints": [spread()]},
    "tolerations": {"tolerations": [{"operator": "Exists"}]},
    "host_ports": {"hostNetwork": True},
    "scheduler": {"schedulerName": "another"},
    "unmodelled": {"resourceClaims": [{"name": "r"}]},
}
"""Field of PodShape -> what a pod states that differs in it from one that states nothing."""


def test_every_field_of_a_shape_is_asked_about() -> None:
    assert STATING.keys() == set(PodShape.__struct_fields__)


@pytest.mark.parametrize("field", STATING)
def test_pods_that_differ_in_a_field_share_no_shape(field: str) -> None:
    """Shapes are remembered by what makes them: a field of the spec that is read and is no part of
    ``key`` in ``pod_shape`` would be that of whoever came first."""
    plain, stating = {"containers": PORTS}, {"containers": PORTS, **STATING[field]}
    before, other, after = shape(plain), shape(stating), shape(plain)
    assert getattr(before, field) != getattr(other, field)
    assert before is after
