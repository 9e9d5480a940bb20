"""Affinity and anti-affinity between pods, case by case."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.fit.blockers import blocked_nodes
from extender.fit.view import ClusterView
from extender.model.objects import LabelSelector, PodAffinityTerm, PodShape, Requirement
from tests.fit.builders import HOST, ZONED, pod, selector, snapshot, term, view


def test_affinity_wants_a_match_in_the_domain() -> None:
    there = view(ZONED, [pod("db", "a1", labels={"app": "db"})])
    each = pod("p", shape=PodShape(affinity=(term("zone", app="db"),)))
    assert there.feasible_nodes(each) == ["a1", "a2"]
    assert there.why_not(each, "b1") == (
        "InterPodAffinity: no pod in zone=b matches the required affinity to app=db"
    )


def test_one_pod_must_match_all_affinity_terms() -> None:
    both = PodShape(affinity=(term("zone", app="db"), term("zone", tier="back")))
    halves = [pod("x", "a1", labels={"app": "db"}), pod("y", "a2", labels={"tier": "back"})]
    assert view(ZONED, halves).feasible_nodes(pod("p", shape=both)) == []
    whole = pod("z", "b1", labels={"app": "db", "tier": "back"})
    assert view(ZONED, [*halves, whole]).feasible_nodes(pod("p", shape=both)) == ["b1"]


def test_first_of_a_group_may_go_where_the_topology_key_is() -> None:
    each = pod("p", labels={"app": "x"}, shape=PodShape(affinity=(term("zone", app="x"),)))
    assert view(ZONED).feasible_nodes(each) == ["a1", "a2", "b1"]
    assert view(ZONED, [pod("q", "b1", labels={"app": "x"})]).feasible_nodes(each) == ["b1"]


def test_match_without_the_topology_key_leaves_the_group_without_a_first() -> None:
    """c1 has no zone, so a match there counts nowhere and the next pod is still the first."""
    each = pod("p", labels={"app": "x"}, shape=PodShape(affinity=(term("zone", app="x"),)))
    there = view(ZONED, [pod("q", "c1", labels={"app": "x"})])
    assert there.feasible_nodes(each) == ["a1", "a2", "b1"]


def test_stranger_to_its_own_affinity_is_never_first() -> None:
    each = pod("p", shape=PodShape(affinity=(term("zone", app="x"),)))
    assert view(ZONED).feasible_nodes(each) == []


def test_anti_affinity_keeps_the_pod_away() -> None:
    there = view(ZONED, [pod("x", "a1", labels={"app": "web"}, deleting=5.0)])
    each = pod("p", shape=PodShape(anti_affinity=(term("zone", app="web"),)))
    assert there.feasible_nodes(each) == ["b1", "c1"]
    assert there.why_not(each, "a2") == (
        "InterPodAffinity: the pod's anti-affinity to app=web meets 1 pod in zone=a"
    )


def test_labels_shared_by_pods_of_two_namespaces_are_told_apart() -> None:
    labels = {"app": "web"}
    placed = [
        replace(pod("x", "a1", namespace="other"), labels=labels),
        replace(pod("y", "b1"), labels=labels),
    ]
    for order in (placed, placed[::-1]):
        nodes = [ZONED[0], ZONED[2]] if order is placed else [ZONED[2], ZONED[0]]
        each = pod("p", shape=PodShape(anti_affinity=(term("zone", app="web"),)))
        there = view(nodes, order)
        assert there.feasible_nodes(each) == ["a1"]
        assert blocked_nodes(each, there) == {"b1": ("uid-ns-y",)}


def test_anti_affinity_of_those_there_keeps_the_pod_away() -> None:
    guard = pod("x", "a1", shape=PodShape(anti_affinity=(term("zone", app="web"),)))
    there = view(ZONED, [guard])
    assert there.feasible_nodes(pod("p", labels={"app": "db"})) == ["a1", "a2", "b1", "c1"]
    each = pod("p", labels={"app": "web"})
    assert there.feasible_nodes(each) == ["b1", "c1"]
    assert there.why_not(each, "a2") == (
        "InterPodAffinity: a pod in zone=a keeps away app=web (its anti-affinity)"
    )


NAMESPACES = {"ns": {"team": "a"}, "other": {"team": "b"}, "bare": {}}
TEAM_B = LabelSelector((Requirement("team", "In", ("b",)),))
NO_TEAM = LabelSelector((Requirement("team", "DoesNotExist"),))


@pytest.mark.parametrize(
    ("names", "chosen", "namespace", "meets"),
    [
        (("ns",), None, "ns", True),
        (("ns",), None, "other", False),
        (("ns", "other"), None, "other", True),
        ((), TEAM_B, "other", True),
        ((), TEAM_B, "ns", False),
        (("ns",), TEAM_B, "ns", True),
        ((), LabelSelector(), "bare", True),
        ((), LabelSelector(), "unheard-of", True),
        ((), NO_TEAM, "bare", True),
        ((), NO_TEAM, "ns", False),
    ],
)
def test_namespaces_of_terms(
    names: tuple[str, ...], chosen: LabelSelector | None, namespace: str, *, meets: bool
) -> None:
    rule = PodAffinityTerm(HOST, selector(app="x"), names, chosen)
    guard = PodShape(anti_affinity=(rule,))
    target = pod("x", namespace=namespace, labels={"app": "x"})
    placed = pod("x", "a1", namespace=namespace, labels={"app": "x"})
    outward = view(ZONED, [placed], NAMESPACES).why_not(pod("p", shape=guard), "a1")
    inward = view(ZONED, [pod("p", "a1", shape=guard)], NAMESPACES).why_not(target, "a1")
    assert (outward is not None, inward is not None) == (meets, meets)


def test_unknown_namespace_has_no_labels_only_for_those_there() -> None:
    """As upstream: the incoming pod's selector is resolved to namespaces that exist."""
    guard = PodShape(anti_affinity=(PodAffinityTerm(HOST, selector(app="x"), (), NO_TEAM),))
    placed = pod("x", "a1", namespace="gone", labels={"app": "x"})
    assert view(ZONED, [placed]).why_not(pod("p", shape=guard), "a1") is None
    there = view(ZONED, [pod("p", "a1", shape=guard)])
    assert there.why_not(pod("x", namespace="gone", labels={"app": "x"}), "a1") is not None


@pytest.mark.parametrize(
    ("version", "leaks"),
    [
        ("", False),
        ("v1.33.9", False),
        ("v1.34.0", True),
        ("v1.36.3", True),
        ("v1.36.3-gke.100", True),
        ("v1.36.4", False),
        ("v1.37.0", False),
        ("nonsense", False),
    ],
)
def test_negative_namespace_selectors_leak_in_some_releases(version: str, *, leaks: bool) -> None:
    """kubernetes/kubernetes issue 141526: an incoming pod's own terms only."""
    world = snapshot(
        ZONED,
        [pod("x", "a1", namespace="other", labels={"app": "x"})],
        NAMESPACES,
    )
    rule = PodAffinityTerm(HOST, selector(app="x"), (), NO_TEAM)
    there = ClusterView.from_snapshot(replace(world, server_version=version))
    apart = pod("p", shape=PodShape(anti_affinity=(rule,)))
    assert (there.why_not(apart, "a1") is not None) is leaks
    near = pod("p", shape=PodShape(affinity=(rule,)))
    assert there.feasible_nodes(near) == (["a1"] if leaks else [])
    positive = PodAffinityTerm(
        HOST, selector(app="x"), (), LabelSelector((Requirement("q", "Exists"),))
    )
    assert there.feasible_nodes(pod("p", shape=PodShape(affinity=(positive,)))) == []
    there.add(pod("guard", shape=PodShape(anti_affinity=(rule,))), "b1")
    assert there.why_not(pod("y", namespace="other", labels={"app": "x"}), "b1") is None
