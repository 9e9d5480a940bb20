"""The view: what it answers of a pod and a node, and how it follows what happens."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from extender.fit.blockers import blocked_nodes
from extender.fit.view import ClusterView
from extender.model.errors import InvalidInput
from extender.model.objects import HostPort, PodShape
from tests.fit.builders import ZONED, node, pod, requests, snapshot, term, view
from tests.fit.test_pod_topology_spread import spread

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


@pytest.mark.parametrize("kinds", [(0, 1, 2, 3), (1,), (2,), (3,)])
def test_a_chain_of_views_answers_as_views_from_nothing(kinds: tuple[int, ...]) -> None:
    """Counts of affinity, anti-affinity and spread go from view to view, also of one kind alone."""
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
        if i in kinds
        for app in "xyz"
    ]
    world = snapshot(ZONED, [])
    kept = ClusterView.from_snapshot(world)
    differ = 0
    for step in range(400):
        nodes, bound = world.nodes, dict(world.bound)
        name = rng.choice(sorted(nodes))
        pods = list(bound.get(name, ()))
        if pods and rng.random() < 0.5:
            pods.pop(rng.randrange(len(pods)))
        else:
            one = rng.choice(shapes[:2])
            pods.append(pod(f"p{step}", name, labels={"app": rng.choice("xyz")}, shape=one))
        bound[name] = tuple(pods)
        if rng.random() < 0.05:
            nodes = dict(nodes)  # else it is the same object, as in the cache's snapshots
            moved = rng.choice(sorted(nodes))
            labels = {**nodes[moved].labels, "zone": rng.choice("abc")}
            nodes[moved] = replace(nodes[moved], labels=labels)
        world = replace(world, nodes=nodes, bound=bound)
        kept = ClusterView.from_snapshot(world, kept)
        fresh = ClusterView.from_snapshot(world)
        for each in rng.sample(asked, 3):
            answer = kept.feasible_nodes(each)
            assert answer == fresh.feasible_nodes(each), (step, each.name)
            differ += len(answer) < len(world.nodes)
    assert differ > 250  # otherwise no rule was ever at work


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
