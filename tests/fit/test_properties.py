from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.fit.blockers import blocked_nodes
from extender.fit.static import static_allowed, static_mask
from extender.fit.view import ClusterView
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from tests.fit import naive
from tests.fit.strategies import worlds

quiet = settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])


def everyone(world: Snapshot) -> list[Pod]:
    return [*world.pending.values(), *(pod for on in world.bound.values() for pod in on)]


def plain(world: Snapshot) -> naive.World:
    placed = {name: list(on) for name, on in world.bound.items()}
    return naive.World(world.nodes, placed, world.namespaces)


@quiet
@given(worlds())
def test_feasible_nodes_are_those_of_the_plain_rules(world: Snapshot) -> None:
    view = ClusterView.from_snapshot(world)
    for pod in everyone(world):
        expected = plain(world).feasible(pod)
        assert view.feasible_nodes(pod) == expected
        assert [n for n in sorted(world.nodes) if view.why_not(pod, n) is None] == expected
    event(f"{sum(bool(plain(world).feasible(p)) for p in world.pending.values())} fit somewhere")


@quiet
@given(worlds(), st.data())
def test_moves_equal_a_fresh_view_and_rollback_the_first_one(
    world: Snapshot, data: st.DataObject
) -> None:
    view = ClusterView.from_snapshot(world)
    asked = everyone(world)
    before = [view.feasible_nodes(pod) for pod in asked] if data.draw(st.booleans()) else None
    start = view.mark()
    placed = {name: list(on) for name, on in world.bound.items() if name in world.nodes}
    for _ in range(data.draw(st.integers(1, 6))):
        pod = data.draw(st.sampled_from(asked))
        on = next((name for name, pods in placed.items() if pod in pods), None)
        if on is not None:
            view.remove(pod)
            placed[on].remove(pod)
        else:
            target = data.draw(st.sampled_from(sorted(world.nodes)))
            view.add(pod, target)
            placed.setdefault(target, []).append(pod)
    fresh = naive.World(world.nodes, placed, world.namespaces)
    twin = view.copy()
    for pod in asked:
        expected = fresh.feasible(pod)
        assert view.feasible_nodes(pod) == expected
        assert twin.feasible_nodes(pod) == expected
    view.rollback(start)
    original = [plain(world).feasible(pod) for pod in asked]
    assert [view.feasible_nodes(pod) for pod in asked] == original
    assert before is None or before == original
    assert [twin.feasible_nodes(pod) for pod in asked] == [fresh.feasible(pod) for pod in asked]


@quiet
@given(worlds())
def test_static_answer_is_that_of_an_empty_cluster_with_the_node(world: Snapshot) -> None:
    """What no other pod decides: only affinity to others may still say no on the empty node."""
    made = [world.nodes[name] for name in sorted(world.nodes)]
    for pod in everyone(world):
        mask = static_mask(pod, made)
        assert list(mask) == [int(static_allowed(pod, node) is None) for node in made]
        free = pod.shape.affinity == ()
        for node, ok in zip(made, mask, strict=True):
            alone = naive.World({node.name: node}, {}, world.namespaces)
            fits = alone.feasible(pod) == [node.name]
            assert ok or not fits
            # One node is one domain: with nobody else a spread of 1 or more always holds.
            assert not free or bool(ok) == fits


@quiet
@given(worlds())
def test_blockers_are_exactly_who_stands_in_the_way(world: Snapshot) -> None:
    view = ClusterView.from_snapshot(world)
    by_uid = {pod.uid: (name, pod) for name, on in world.bound.items() for pod in on}
    for pod in world.pending.values():
        every = blocked_nodes(pod, view)
        rules = plain(world)
        for name, node in world.nodes.items():
            uids = every.get(name, ())
            tests = (rules.apart, rules.welcome, rules.ports_free)
            assert bool(uids) == (not all(test(pod, node) for test in tests))
            for spared in uids:
                without = {
                    n: [p for p in on if p.uid not in uids or p.uid == spared]
                    for n, on in world.bound.items()
                }
                left = naive.World(world.nodes, without, world.namespaces)
                tests = (left.apart, left.welcome, left.ports_free)
                assert not all(test(pod, node) for test in tests)
            start = view.mark()
            for uid in uids:
                view.remove(by_uid[uid][1])
            reason = view.why_not(pod, name) or ""
            assert "anti-affinity" not in reason
            assert "NodePorts" not in reason
            view.rollback(start)


@quiet
@given(worlds(), st.data())
def test_pods_that_come_block_as_if_they_were_there(world: Snapshot, data: st.DataObject) -> None:
    names = st.lists(st.sampled_from(sorted(world.nodes)), min_size=1, max_size=2)
    view, there = ClusterView.from_snapshot(world), ClusterView.from_snapshot(world)
    asks, *others = world.pending.values()
    coming = []
    for other in others:
        places = [(f"{other.uid}-{i}", name) for i, name in enumerate(data.draw(names))]
        coming.append((other, places))
        for uid, name in places:
            there.add(replace(other, uid=uid), name)
    expected = blocked_nodes(asks, there)
    assert blocked_nodes(asks, view, coming) == expected
    event("somebody comes in the way" if expected != blocked_nodes(asks, view) else "nobody")
