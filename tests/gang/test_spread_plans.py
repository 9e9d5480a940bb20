"""Topology spread among the members: plans that kube-scheduler can carry out, and proved."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations

import pytest
from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.plan.explain import CANNOT_FIT
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    LabelSelector,
    Node,
    Pod,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.problem import Infeasible, Solution
from extender.search.solver import solve
from extender.settings.settings import Settings
from tests.gang.everything import everything
from tests.gang.world import evicted, gang_key, group, node, plan_for, pod, seats, snapshot

HIGH = 1000
OURS = LabelSelector((Requirement("app", "In", ("ours",)),))


def zone(skew: int, least: int = 1, key: str = "zone") -> SpreadConstraint:
    return SpreadConstraint(key, skew, OURS, min_domains=least)


def cluster(*sizes: int, cpu: int = 4) -> list[Node]:
    """Zones a, b, ... of so many nodes; names tell the zone and sort by it."""
    return [
        node(f"{zone}{i}", cpu, labels={"zone": zone})
        for zone, size in zip("abcdefgh", sizes, strict=False)
        for i in range(size)
    ]


def members(count: int, *spread: SpreadConstraint, name: str = "high", cpu: float = 3) -> list[Pod]:
    shape = PodShape(spread=spread)
    return [
        pod(
            f"{name}-{i:02}",
            cpu=cpu,
            priority=HIGH,
            group="high",
            labels={"app": "ours"},
            shape=shape,
        )
        for i in range(count)
    ]


def filler(nodes: list[Node], priority: int = 1) -> list[Pod]:
    return [pod(f"low-{n.name}", priority=priority, on=n.name) for n in nodes]


def per_zone(plan: Plan | Refusal) -> Counter[str]:
    return Counter(where[0] for where in seats(plan).values())


def carried_out(state: Snapshot, plan: Plan | Refusal, tries: int = 5) -> None:
    """Every order in which kube-scheduler may try the members ends with all of them seated."""
    assert isinstance(plan, Plan)
    gone = {victim.uid for victim in (*plan.victims, *plan.waits_for)}
    where = {seat.uid: seat.node for seat in plan.seats}
    for seed in range(tries):
        view = ClusterView.from_snapshot(state)
        for pods in state.bound.values():
            for there in pods:
                if there.uid in gone:
                    view.remove(there)
        waiting = [state.pending[uid] for uid in sorted(where)]
        random.Random(seed).shuffle(waiting)
        moved = True
        while moved:
            left = []
            for member in waiting:
                if view.why_not(member, where[member.uid]) is None:
                    view.add(member, where[member.uid])
                else:
                    left.append(member)
            moved = len(left) < len(waiting)
            waiting = left
        assert waiting == []


@pytest.mark.parametrize("skew", [1, 2])
@pytest.mark.parametrize("count", [7, 8, 9])
def test_members_over_three_zones(count: int, skew: int) -> None:
    nodes = cluster(5, 5, 5)
    state = snapshot(nodes, [*filler(nodes), *members(count, zone(skew))], [group("high", count)])
    plan = plan_for(state, "high")
    found = per_zone(plan)
    assert sum(found.values()) == count
    assert max(found.values()) - min(found.values()) <= skew
    assert len(evicted(plan)) == count
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    carried_out(state, plan)


def test_the_cheaper_zone_is_used_as_far_as_the_skew_lets_it() -> None:
    """Zone a is free: 4 there, 3 and 3 where pods go, with skew 1; 5, 3, 3 would break it."""
    nodes = cluster(6, 6, 6)
    busy = [n for n in nodes if not n.name.startswith("a")]
    state = snapshot(nodes, [*filler(busy), *members(10, zone(1))], [group("high", 10)])
    plan = plan_for(state, "high")
    assert per_zone(plan) == Counter(a=4, b=3, c=3)
    assert len(evicted(plan)) == 6
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"


def test_pods_counted_already_are_evened_out() -> None:
    """Two stay in zone a: the members fill up b and c first."""
    nodes = cluster(4, 4, 4)
    there = [
        pod(f"old-{i}", priority=HIGH, on=f"a{i}", labels={"app": "ours"}, cpu=1) for i in range(2)
    ]
    state = snapshot(nodes, [*there, *members(4, zone(1))], [group("high", 4)])
    plan = plan_for(state, "high")
    assert per_zone(plan) == Counter(b=2, c=2)
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    carried_out(state, plan)


def test_a_full_zone_holds_the_others_back() -> None:
    """Nobody can go from zone c: with skew 1 one member a zone is all there is room for."""
    nodes = cluster(3, 3, 3)
    stay = [pod(f"stay-c{i}", priority=HIGH, on=f"c{i}") for i in range(3)]
    answer = plan_for(snapshot(nodes, [*stay, *members(3, zone(1))], [group("high", 3)]), "high")
    assert isinstance(answer, Refusal)
    assert "skew" in answer.message
    two = snapshot(nodes, [*stay, *members(2, zone(1))], [group("high", 2)])
    assert per_zone(plan_for(two, "high")) == Counter(a=1, b=1)
    wide = snapshot(nodes, [*stay, *members(4, zone(2))], [group("high", 4)])
    assert per_zone(plan_for(wide, "high")) == Counter(a=2, b=2)


def test_fewer_zones_than_min_domains_count_from_zero() -> None:
    nodes = cluster(3, 3)
    four = snapshot(nodes, members(4, zone(2, 3)), [group("high", 4)])
    assert per_zone(plan_for(four, "high")) == Counter(a=2, b=2)
    five = snapshot(nodes, members(5, zone(2, 3)), [group("high", 5)])
    assert isinstance(plan_for(five, "high"), Refusal)


def test_zones_and_nodes_at_once() -> None:
    nodes = cluster(3, 3, 3, cpu=8)
    rules = (zone(1), zone(1, key="kubernetes.io/hostname"))
    state = snapshot(nodes, [*filler(nodes), *members(8, *rules)], [group("high", 8)])
    plan = plan_for(state, "high")
    assert sorted(per_zone(plan).values()) == [2, 3, 3]
    assert len(set(seats(plan).values())) == 8
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    carried_out(state, plan)


def test_a_leader_that_is_counted_and_not_bound() -> None:
    """The leader may come first wherever it goes: the workers leave room for that."""
    nodes = cluster(4, 4, 4)
    leader = members(1, name="leader", cpu=2)
    state = snapshot(nodes, [*leader, *members(5, zone(1))], [group("high", 6)])
    plan = plan_for(state, "high")
    assert per_zone(plan) == Counter(a=2, b=2, c=2)
    carried_out(state, plan, 20)


def test_a_leader_with_a_rule_of_its_own() -> None:
    nodes = cluster(4, 4, 4)
    leader = members(1, zone(2), name="leader", cpu=2)
    state = snapshot(nodes, [*filler(nodes[4:]), *leader, *members(6, zone(1))], [group("high", 7)])
    plan = plan_for(state, "high")
    assert len(evicted(plan)) == 4
    carried_out(state, plan, 20)


def test_members_beyond_the_quorum_keep_the_rule_as_well() -> None:
    """Free room for five, two of them in zone b: 3 and 2, and nobody is evicted."""
    nodes = cluster(5, 2)
    state = snapshot(nodes, members(9, zone(1)), [group("high", 3)])
    plan = plan_for(state, "high")
    assert per_zone(plan) == Counter(a=3, b=2)
    assert evicted(plan) == set()
    carried_out(state, plan)


def test_victims_that_are_counted() -> None:
    """Three old members of the app hold zone a, which the rule counts as long as they stay."""
    nodes = cluster(3, 3, 3)
    old = [pod(f"old-a{i}", priority=1, on=f"a{i}", labels={"app": "ours"}) for i in range(3)]
    stay = [pod(f"stay-{z}0", priority=HIGH, on=f"{z}0") for z in "bc"]
    state = snapshot(nodes, [*old, *stay, *members(6, zone(1))], [group("high", 6)])
    plan = plan_for(state, "high")
    carried_out(state, plan)
    assert per_zone(plan) == Counter(a=2, b=2, c=2)
    assert len(evicted(plan)) == 2
    # One more old pod stays in zone a with the two that come: 3 against 2.
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"


def test_victims_whose_end_would_empty_a_zone() -> None:
    """The old pod of zone b is the cheapest room, but without it b could be the emptiest."""
    nodes = cluster(4, 1)
    old = [pod("old-b0", priority=1, on="b0", labels={"app": "ours"})]
    state = snapshot(nodes, [*old, *members(2, zone(1))], [group("high", 2)])
    plan = plan_for(state, "high")
    assert evicted(plan) == set()
    assert per_zone(plan) == Counter(a=2)
    carried_out(state, plan)


@pytest.mark.parametrize("seed", range(80))
def test_random_clusters_are_planned_so_that_every_order_ends_well(seed: int) -> None:
    rng = random.Random(seed)
    nodes = cluster(*(rng.randint(1, 4) for _ in range(rng.randint(2, 4))), cpu=rng.choice((4, 8)))
    count = rng.randint(2, 7)
    rules: tuple[SpreadConstraint, ...] = (zone(rng.choice((1, 2)), rng.choice((1, 1, 3))),)
    if rng.random() < 0.3:
        rules = (*rules, zone(rng.choice((1, 2)), key="kubernetes.io/hostname"))
    there = [
        pod(
            f"there-{i}",
            priority=rng.choice((1, 5, HIGH)),
            on=rng.choice(nodes).name,
            cpu=rng.choice((1, 3)),
            labels={"app": rng.choice(("ours", "other"))},
        )
        for i in range(rng.randint(0, 6))
    ]
    wanted = members(count, *rules)
    if rng.random() < 0.4:
        other = rules if rng.random() < 0.5 else ()
        wanted += members(1, *other, name="leader", cpu=2)
    state = snapshot(nodes, [*there, *wanted], [group("high", len(wanted) - rng.randint(0, 1))])
    plan = plan_for(state, "high")
    resolver = Resolver(Settings().groups)
    gang = resolver.resolve(gang_key("high"), state)
    whole = everything(gang, state, resolver, Settings())
    truth = solve(whole)
    if isinstance(plan, Plan):
        carried_out(state, plan)
        assert isinstance(truth, Solution)
        cost = {
            level: value for level, value in zip(whole.levels, truth.cost, strict=True) if value
        }
        found = {cost.level: cost.value for cost in plan.costs if cost.value}
        unsure = any(rule.most != rule.fewest for rule in whole.spreads)
        assert found == cost or unsure or plan.proof != "optimal"
        assert plan.proof == "optimal" or unsure or len(rules) > 1
        if plan.proof == "optimal" and unsure:
            gone = Counter(victim.priority for victim in plan.victims)
            assert (gone[5], gone[1]) == least_gone(state, there)
    else:
        unsure = any(rule.most != rule.fewest for rule in whole.spreads)
        assert isinstance(truth, Infeasible) or unsure or len(rules) > 1
        assert not plan.message.startswith(CANNOT_FIT) or least_gone(state, there) is None


def least_gone(state: Snapshot, there: list[Pod]) -> tuple[int, int] | None:
    """Return how few pods of priority 5 and 1 have to be gone for a plan that evicts none, trying
    all sets of them; None where none will do."""
    resolver = Resolver(Settings().groups)
    lower = [each for each in there if each.priority < HIGH]
    sets = [each for size in range(len(lower) + 1) for each in combinations(lower, size)]
    count = [(Counter(pod.priority for pod in each), each) for each in sets]
    costs = [((n[5], n[1]), each) for n, each in count]
    for cost, gone in sorted(costs, key=lambda each: each[0]):
        uids = {pod.uid for pod in gone}
        left = snapshot(
            list(state.nodes.values()),
            [
                pod
                for pods in (*state.bound.values(), tuple(state.pending.values()))
                for pod in pods
                if pod.uid not in uids
            ],
            list(state.groups.values()),
        )
        gang = replace(resolver.resolve(gang_key("high"), left), preempts=False)
        if isinstance(Planner(Settings(), resolver).plan(GangQuestion(gang, left)), Plan):
            return cost
    return None


@pytest.mark.parametrize("priority", [1, HIGH])
def test_seats_beside_counted_pods_that_may_go_hold_in_any_order(priority: int) -> None:
    """kube-scheduler may bind the member first that the rule counts and does not bind."""
    there = pod("there", cpu=1, priority=priority, on="a0", labels={"app": "ours"})
    other = pod("other", cpu=2, priority=priority, on="b0")
    ruled = members(1, zone(2), name="ruled", cpu=2)
    free = members(1, name="free", cpu=1)
    state = snapshot(cluster(1, 1), [there, other, *ruled, *free], [group("high", 2)])
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    assert evicted(plan) == set()
    assert {seat.node for seat in plan.seats} != {"a0"}
