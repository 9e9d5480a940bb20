"""Topology spread constraints, case by case."""

from __future__ import annotations

import pytest

from extender.model.objects import (
    LabelSelector,
    NodeSelectorTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from tests.fit.builders import ZONED, node, pod, selector, view


def spread(skew: int = 1, key: str = "zone", **more: object) -> PodShape:
    rule = SpreadConstraint(key, skew, selector(app="x"), **more)  # type: ignore[arg-type]
    return PodShape(spread=(rule,))


def test_spread_counts_the_pod_itself() -> None:
    there = view(ZONED, [pod("q", "a1", labels={"app": "x"})])
    assert there.feasible_nodes(pod("p", labels={"app": "x"}, shape=spread())) == ["b1"]
    assert there.feasible_nodes(pod("p", shape=spread())) == ["a1", "a2", "b1"]
    assert there.why_not(pod("p", labels={"app": "x"}, shape=spread()), "a2") == (
        "PodTopologySpread: zone=a would have 2 of app=x, 2 more than the emptiest (maxSkew 1)"
    )
    assert there.why_not(pod("p", shape=spread()), "c1") == (
        "PodTopologySpread: the node has no label zone"
    )


def test_spread_follows_the_emptiest_domain() -> None:
    placed = [pod("q", "a1", labels={"app": "x"}), pod("r", "b1", labels={"app": "x"})]
    there = view(ZONED, placed)
    each = pod("p", labels={"app": "x"}, shape=spread())
    assert there.feasible_nodes(each) == ["a1", "a2", "b1"]
    there.remove(placed[1])
    assert there.feasible_nodes(each) == ["b1"]
    there.add(placed[1], "b1")
    assert there.feasible_nodes(each) == ["a1", "a2", "b1"]


def test_spread_passes_over_terminating_and_foreign_pods() -> None:
    there = view(
        ZONED,
        [
            pod("q", "a1", labels={"app": "x"}, deleting=7.0),
            pod("r", "a2", namespace="other", labels={"app": "x"}),
        ],
    )
    each = pod("p", labels={"app": "x"}, shape=spread())
    assert there.feasible_nodes(each) == ["a1", "a2", "b1"]


def test_too_few_domains_make_the_minimum_zero() -> None:
    there = view(ZONED, [pod(f"q{i}", n, labels={"app": "x"}) for i, n in enumerate(("a1", "b1"))])
    each = pod("p", labels={"app": "x"}, shape=spread(min_domains=2))
    assert there.feasible_nodes(each) == ["a1", "a2", "b1"]
    each = pod("p", labels={"app": "x"}, shape=spread(min_domains=3))
    assert there.feasible_nodes(each) == []


def test_nodes_the_pod_cannot_use_are_no_domains_unless_ignored() -> None:
    nodes = [*ZONED, node("d1", labels={"zone": "d", "disk": "hdd"})]
    placed = [pod(f"q{i}", n, labels={"app": "x"}) for i, n in enumerate(("a1", "b1"))]
    terms = (NodeSelectorTerm((Requirement("disk", "DoesNotExist"),)),)
    for honor, expected in ((True, ["a1", "a2", "b1"]), (False, [])):
        rule = SpreadConstraint("zone", 1, selector(app="x"), honor_node_affinity=honor)
        each = pod("p", labels={"app": "x"}, shape=PodShape(spread=(rule,), node_terms=terms))
        assert view(nodes, placed).feasible_nodes(each) == expected


def test_tainted_nodes_are_domains_unless_honoured() -> None:
    nodes = [*ZONED, node("d1", labels={"zone": "d"}, taints=[Taint("t")])]
    placed = [pod(f"q{i}", n, labels={"app": "x"}) for i, n in enumerate(("a1", "b1"))]
    for honor, expected in ((False, []), (True, ["a1", "a2", "b1"])):
        rule = SpreadConstraint("zone", 1, selector(app="x"), honor_taints=honor)
        each = pod("p", labels={"app": "x"}, shape=PodShape(spread=(rule,)))
        assert view(nodes, placed).feasible_nodes(each) == expected
        tolerant = PodShape(spread=(rule,), tolerations=(Toleration("t", "Exists"),))
        assert view(nodes, placed).feasible_nodes(
            pod("p", labels={"app": "x"}, shape=tolerant)
        ) == ["d1"]


def test_only_nodes_with_all_keys_are_counted() -> None:
    """The pod on a2 is not seen: its node lacks the rack that the other constraint needs."""
    nodes = [
        node("a1", labels={"zone": "a", "rack": "1"}),
        node("a2", labels={"zone": "a"}),
        node("b1", labels={"zone": "b", "rack": "2"}),
    ]
    placed = [pod("q", "a2", labels={"app": "x"})]
    zone = SpreadConstraint("zone", 1, selector(app="x"))
    each = pod("p", labels={"app": "x"}, shape=PodShape(spread=(zone,)))
    assert view(nodes, placed).feasible_nodes(each) == ["b1"]
    rack = SpreadConstraint("rack", 1, selector(app="x"))
    each = pod("p", labels={"app": "x"}, shape=PodShape(spread=(zone, rack)))
    assert view(nodes, placed).feasible_nodes(each) == ["a1", "b1"]


@pytest.mark.parametrize("chosen", [None, LabelSelector()])
def test_selectors_that_count_nobody(chosen: LabelSelector | None) -> None:
    """Upstream's count skips the empty selector although it matches every pod."""
    rule = SpreadConstraint("zone", 1, chosen)
    there = view(ZONED, [pod(f"q{i}", "a1") for i in range(3)])
    assert there.feasible_nodes(pod("p", shape=PodShape(spread=(rule,)))) == ["a1", "a2", "b1"]
