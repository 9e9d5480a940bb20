from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from extender.fit.blockers import anti_affinity_blockers, blocked_nodes
from extender.fit.view import ClusterView
from extender.model.errors import InvalidInput
from extender.model.objects import (
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from tests.fit.builders import HOST, node, pod, requests, selector, snapshot, term, view

ZONED = [
    node("a1", labels={"zone": "a"}),
    node("a2", labels={"zone": "a"}),
    node("b1", labels={"zone": "b"}),
    node("c1"),
]


# --- NodeResourcesFit -------------------------------------------------------------


def test_room_is_what_the_pods_leave() -> None:
    there = view([node("n", cpu=4000)], [pod("a", "n", wants=requests(cpu=3000))])
    assert there.why_not(pod("p", wants=requests(cpu=1000)), "n") is None
    assert there.why_not(pod("p", wants=requests(cpu=3000)), "n") == (
        "NodeResourcesFit: 2 CPU short (wants 3, 1 free)"
    )


def test_overcommitted_node_takes_who_asks_for_none() -> None:
    there = view([node("n", cpu=1000, gpu=1)], [pod("a", "n", wants=requests(cpu=3000))])
    assert there.why_not(pod("p", wants=requests(gpu=1)), "n") is None
    assert there.why_not(pod("p", wants=requests(cpu=500)), "n") == (
        "NodeResourcesFit: 2.5 CPU short (wants 0.5, -2 free)"
    )


def test_zero_is_not_asked_for() -> None:
    there = view([node("n", cpu=1000)], [pod("a", "n", wants=requests(cpu=3000))])
    assert there.why_not(pod("p", wants=requests(cpu=0)), "n") is None


def test_every_pod_takes_a_slot() -> None:
    there = view([node("n", pods=2)], [pod("a", "n", wants=()), pod("b", "n", wants=())])
    assert there.why_not(pod("p", wants=requests()), "n") == (
        "NodeResourcesFit: no free pod slot (2 of 2 taken)"
    )


def test_memory_is_told_in_binary_units() -> None:
    there = view([node("n", memory=2 << 30)])
    assert there.why_not(pod("p", wants=requests(memory=3 << 30)), "n") == (
        "NodeResourcesFit: 1Gi memory short (wants 3Gi, 2Gi free)"
    )


def test_terminating_pods_hold_their_room() -> None:
    there = view([node("n")], [pod("a", "n", wants=requests(cpu=4000), deleting=9.0)])
    assert there.feasible_nodes(pod("p")) == []


# --- NodePorts ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "taken", "free"),
    [
        (HostPort("", "TCP", 80), HostPort("", "TCP", 80), False),
        (HostPort("", "TCP", 80), HostPort("", "UDP", 80), True),
        (HostPort("", "TCP", 80), HostPort("", "TCP", 81), True),
        (HostPort("0.0.0.0", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("0.0.0.0", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), True),
        (HostPort("10.0.0.1", "", 80), HostPort("10.0.0.1", "TCP", 80), False),
    ],
)
def test_host_ports(wanted: HostPort, taken: HostPort, *, free: bool) -> None:
    there = view([node("n")], [pod("a", "n", shape=PodShape(host_ports=(taken,)))])
    answer = there.why_not(pod("p", shape=PodShape(host_ports=(wanted,))), "n")
    assert (answer is None) is free


def test_taken_port_is_named() -> None:
    shape = PodShape(host_ports=(HostPort("10.0.0.1", "UDP", 53),))
    there = view([node("n")], [pod("a", "n", shape=shape)])
    assert there.why_not(pod("p", shape=shape), "n") == (
        "NodePorts: host port 53/UDP on 10.0.0.1 is taken"
    )


# --- InterPodAffinity ------------------------------------------------------------------


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


# --- PodTopologySpread --------------------------------------------------------------------


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


# --- the view itself --------------------------------------------------------------------------


def test_own_presence_does_not_count() -> None:
    shape = PodShape(anti_affinity=(term("zone", app="x"),), host_ports=(HostPort("", "TCP", 80),))
    each = pod("p", "a1", labels={"app": "x"}, shape=shape, wants=requests(cpu=4000))
    there = view(ZONED, [each])
    assert there.why_not(each, "a1") is None
    assert there.where(each) == "a1"
    assert there.feasible_nodes(each) == ["a1"]
    seated = pod("s", labels={"app": "y"}, wants=requests(cpu=4000))
    there.add(seated, "b1")
    assert there.why_not(seated, "b1") is None
    assert there.feasible_nodes(seated) == ["a2", "b1", "c1"]
    assert there.where(seated) == "b1"


def test_nobody_blocks_itself() -> None:
    shape = PodShape(anti_affinity=(term(app="x"),), host_ports=(HostPort("", "TCP", 80),))
    each = pod("p", "a1", labels={"app": "x"}, shape=shape)
    twin = pod("q", "a2", labels={"app": "x"}, shape=shape)
    there = view(ZONED, [each, twin])
    assert blocked_nodes(each, there) == {"a2": ("uid-ns-q",)}
    assert anti_affinity_blockers(each, there, "a1") == ()


def test_moves_are_seen_and_rolled_back() -> None:
    guard = pod("g", "a1", shape=PodShape(anti_affinity=(term("zone", app="x"),)))
    there = view(ZONED, [guard])
    each = pod("p", labels={"app": "x"})
    start = there.mark()
    assert there.feasible_nodes(each) == ["b1", "c1"]
    there.remove(guard)
    assert there.where(guard) is None
    assert there.feasible_nodes(each) == ["a1", "a2", "b1", "c1"]
    there.add(guard, "b1")
    inner = there.mark()
    there.add(pod("big", wants=requests(cpu=4000)), "a1")
    assert there.feasible_nodes(each) == ["a2", "c1"]
    there.rollback(inner)
    assert there.feasible_nodes(each) == ["a1", "a2", "c1"]
    there.rollback(start)
    assert there.where(guard) == "a1"
    assert there.feasible_nodes(each) == ["b1", "c1"]


def test_copy_goes_its_own_way() -> None:
    there = view(ZONED)
    group = PodShape(affinity=(term("zone", app="x"),), spread=spread(3).spread)
    each = pod("p", labels={"app": "x"}, shape=group)
    assert there.feasible_nodes(each) == ["a1", "a2", "b1"]
    there.add(pod("q", labels={"app": "x"}), "a1")
    twin = there.copy()
    twin.add(pod("r", labels={"app": "x"}), "b1")
    there.add(pod("full", wants=requests(cpu=4000)), "a2")
    assert there.feasible_nodes(each) == ["a1"]
    assert twin.feasible_nodes(each) == ["a1", "a2", "b1"]
    late = pod("late")
    twin.add(late, "b1")
    assert (there.where(late), twin.where(late)) == (None, "b1")


def test_next_view_takes_over_what_has_not_changed() -> None:
    old = snapshot(ZONED, [pod("x", "a1", wants=requests(cpu=4000)), pod("y", "b1")])
    first = ClusterView.from_snapshot(old)
    assert first.feasible_nodes(pod("p")) == ["a2", "b1", "c1"]
    first.add(pod("moved", wants=requests(cpu=4000)), "a2")
    bound = {**old.bound, "b1": (pod("z", "b1", wants=requests(cpu=4000)),), "a1": ()}
    nodes = {k: v for k, v in old.nodes.items() if k != "c1"}
    new = type(old)(generation=2, nodes=nodes, bound=bound, namespaces=old.namespaces)
    second = ClusterView.from_snapshot(new, first)
    assert second.feasible_nodes(pod("p")) == ["a1", "a2"]
    assert second.state("a2") is first.copy()._base["a2"]


def test_a_chain_of_views_answers_as_views_from_nothing() -> None:
    """Counts of affinity, anti-affinity and spread go from view to view."""
    rng = random.Random(4)
    shapes = [
        PodShape(),
        PodShape(anti_affinity=(term("zone", app="x"),)),
        PodShape(affinity=(term("zone", app="y"),)),
        spread(1),
    ]
    asked = [
        pod(f"ask-{i}-{app}", labels={"app": app}, shape=shape)
        for i, shape in enumerate(shapes)
        for app in "xyz"
    ]
    world = snapshot(ZONED, [])
    kept = ClusterView.from_snapshot(world)
    differ = 0
    for step in range(400):
        nodes, bound = dict(world.nodes), dict(world.bound)
        name = rng.choice(sorted(nodes))
        pods = list(bound.get(name, ()))
        if pods and rng.random() < 0.5:
            pods.pop(rng.randrange(len(pods)))
        else:
            one = rng.choice(shapes[:2])
            pods.append(pod(f"p{step}", name, labels={"app": rng.choice("xyz")}, shape=one))
        bound[name] = tuple(pods)
        if rng.random() < 0.05:
            moved = rng.choice(sorted(nodes))
            labels = {**nodes[moved].labels, "zone": rng.choice("abc")}
            nodes[moved] = replace(nodes[moved], labels=labels)
        world = replace(world, nodes=nodes, bound=bound)
        kept = ClusterView.from_snapshot(world, kept)
        fresh = ClusterView.from_snapshot(world)
        for each in rng.sample(asked, 4):
            answer = kept.feasible_nodes(each)
            assert answer == fresh.feasible_nodes(each), (step, each.name)
            differ += len(answer) < len(world.nodes)
    assert differ > 400  # otherwise no rule was ever at work


def test_many_pods_asked_about_do_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("extender.fit.view._MAX_CONTEXTS", 2)
    there = view(ZONED, [pod("g", "a1", shape=PodShape(anti_affinity=(term("zone", app="x"),)))])
    asked = [pod(f"p{i}", labels={"app": "xy"[i % 2]}) for i in range(6)]
    for _ in range(2):
        found = [there.why_not(each, "a2") is None for each in asked]
        assert found == [False, True] * 3


def test_pods_of_vanished_nodes_hold_nothing_and_may_be_taken_away() -> None:
    orphan = pod("x", "gone", labels={"app": "x"})
    there = view(ZONED, [orphan])
    there.remove(orphan)
    each = pod("p", shape=PodShape(anti_affinity=(term("zone", app="x"),)))
    assert there.feasible_nodes(each) == ["a1", "a2", "b1", "c1"]


def test_a_seat_is_taken_where_nothing_is_against_it() -> None:
    full = requests(cpu=4000)
    there = view(ZONED, [])
    big = pod("big", wants=full)
    assert there.seat(big, "a1") is None
    assert there.where(big) == "a1"
    late = pod("late", wants=full)
    refused = there.seat(late, "a1")
    assert refused is not None
    assert refused == there.why_not(late, "a1")
    assert there.where(late) is None
    with pytest.raises(InvalidInput, match=r"ns/big .* is already on node a1"):
        there.seat(big, "b1")
    there.rollback(0)
    assert there.where(big) is None


def test_impossible_moves_are_refused() -> None:
    placed = pod("x", "a1")
    there = view(ZONED, [placed])
    with pytest.raises(InvalidInput, match=r"ns/x .* is already on node a1"):
        there.add(placed, "b1")
    with pytest.raises(InvalidInput, match="node 'z9' does not exist"):
        there.add(pod("p"), "z9")
    with pytest.raises(InvalidInput, match="node 'z9' does not exist"):
        there.why_not(pod("p"), "z9")
    with pytest.raises(InvalidInput, match=r"ns/p .* is not on a node"):
        there.remove(pod("p"))
    there.remove(placed)
    with pytest.raises(InvalidInput, match=r"ns/x .* is not on a node"):
        there.remove(placed)
    assert there.mark() == 1
