"""Ports and affinity of pods that wait for a held seat, or are nominated, are planned around."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import compress, count, product

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.fit.member_rules import self_caps
from extender.fit.view import ClusterView
from extender.gang.incremental.classes import classes_of
from extender.gang.plan.planner import MAX_STRIKES, Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    HostPort,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
)
from extender.model.plan import Hold, Plan, Proof, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import evicted, gang_key, group, node, pod, seats, snapshot

HIGH = 100
HOST = "kubernetes.io/hostname"


def term(app: str, key: str = HOST) -> PodAffinityTerm:
    return PodAffinityTerm(key, LabelSelector((Requirement("app", "In", (app,)),)), ("default",))


PORT = PodShape(host_ports=(HostPort("", "TCP", 8080),))
LONE = PodShape(anti_affinity=(term("a"),))
"""Kept away from pods with app=a."""
RULES = {
    "ports": (PORT, PORT),
    "members keep away": (LONE, PodShape()),
    "they keep members away": (PodShape(), LONE),
}
"""Shapes of the members, and of the pods that are held or nominated; everybody has app=a."""


def members(size: int, shape: PodShape, app: str = "a") -> list[Pod]:
    return [
        pod(f"high-{i}", cpu=1, priority=HIGH, group="high", shape=shape, labels={"app": app})
        for i in range(size)
    ]


def waiting(at: str, shape: PodShape, priority: int = HIGH) -> Pod:
    return pod(f"waits-{at}", cpu=0, priority=priority, shape=shape, labels={"app": "a"})


def held(waits: Pod, at: str, *, firm: bool = False, gang: str = "others") -> Hold:
    return Hold(gang_key(gang), waits.priority, waits.uid, at, waits.requests, firm=firm)


def asked(
    state: Snapshot, holds: Sequence[Hold] = (), planner: Planner | None = None
) -> Plan | Refusal:
    resolver = Resolver(Settings().groups)
    question = GangQuestion(resolver.resolve(gang_key("high"), state), state, holds)
    return (planner or Planner(Settings(), resolver)).plan(question)


def optimal(answer: Plan | Refusal) -> Plan:
    assert isinstance(answer, Plan), answer
    assert answer.proof is Proof.OPTIMAL, answer
    return answer


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("how", ["nominated", "held", "firm"])
@pytest.mark.parametrize("size", [36, 62])
def test_the_two_nodes_that_are_left_are_found_at_once(size: int, how: str, rule: str) -> None:
    mine, theirs = RULES[rule]
    nodes = [node(f"n{i:02}") for i in range(size)]
    pods = [waiting(each.name, theirs) for each in nodes[:-2]]
    holds = [held(each, on.name, firm=how == "firm") for each, on in zip(pods, nodes, strict=False)]
    if how == "nominated":
        pods = [replace(each, nominated=hold.node) for each, hold in zip(pods, holds, strict=True)]
        holds = []
    state = snapshot(nodes, [*pods, *members(2, mine)], [group("high", 2)])
    plan = optimal(asked(state, holds))
    assert set(seats(plan).values()) <= {each.name for each in nodes[-2:]}
    full = snapshot(nodes[:-2], [*pods, *members(2, mine)], [group("high", 2)])
    answer = asked(full, holds)
    assert isinstance(answer, Refusal)
    assert "tries" not in answer.message
    assert len(nodes) > MAX_STRIKES


@pytest.mark.parametrize("rule", RULES)
def test_seats_that_give_way_are_taken_over_rather_than_anybody_evicted(rule: str) -> None:
    mine, theirs = RULES[rule]
    low = pod("low", cpu=4, priority=1, on="n1")
    waits = waiting("n0", theirs, priority=1)
    state = snapshot([node("n0"), node("n1")], [waits, low, *members(1, mine)], [group("high", 1)])
    plan = optimal(asked(state, [held(waits, "n0")]))
    assert plan.takes_over == (gang_key("others"),)
    assert seats(plan) == {"high-0": "n0"}
    assert evicted(plan) == set()
    plan = optimal(asked(state, [held(waits, "n0", firm=True)]))
    assert plan.takes_over == ()
    assert evicted(plan) == {"low"}


def test_a_free_node_is_better_than_a_seat_that_is_taken_over() -> None:
    waits = waiting("n0", PORT, priority=1)
    nodes = [node("n0"), node("n1")]
    state = snapshot(nodes, [waits, *members(1, PORT)], [group("high", 1)])
    plan = optimal(asked(state, [held(waits, "n0")]))
    assert plan.takes_over == ()
    assert seats(plan) == {"high-0": "n1"}


def zoned(name: str, zone: str, **more: object) -> Node:
    return node(name, labels={HOST: name, "zone": zone}, **more)  # type: ignore[arg-type]


def test_a_seat_closes_its_zone_and_opens_it_though_no_member_could_sit_beside_it() -> None:
    """Its node has no room that a member could use, so only the rule brings its unit in."""
    apart = PodShape(anti_affinity=(term("a", "zone"),))
    nodes = [zoned("a0", "a", cpu=0), zoned("a1", "a"), zoned("b0", "b", cpu=0)]
    waits = replace(waiting("a0", apart, priority=1), requests=(("pods", 1),))
    state = snapshot(nodes, [waits, *members(1, PodShape())], [group("high", 1)])
    firm = asked(state, [held(waits, "a0", firm=True)])
    assert isinstance(firm, Refusal)
    plan = optimal(asked(state, [held(waits, "a0")]))
    assert plan.takes_over == (gang_key("others"),)
    assert seats(plan) == {"high-0": "a1"}
    shut = [replace(nodes[0], unschedulable=True), *nodes[1:]]
    plan = optimal(
        asked(
            snapshot(shut, [waits, *members(1, PodShape())], [group("high", 1)]),
            [held(waits, "a0")],
        )
    )
    assert plan.takes_over == (gang_key("others"),)


def test_a_gang_whose_first_member_would_open_a_domain_goes_where_a_seat_has_opened_one() -> None:
    near = PodShape(affinity=(term("a", "zone"),))
    many = [zoned(f"a{i:02}", "a") for i in range(MAX_STRIKES + 2)]
    nodes = [*many, zoned("b0", "b"), zoned("b1", "b")]
    waits = waiting("b0", PodShape())
    low = pod("low", cpu=4, priority=1, on="b0")
    state = snapshot(nodes, [waits, low, *members(2, near)], [group("high", 2)])
    assert set(seats(optimal(asked(state))).values()) <= {each.name for each in many}
    plan = optimal(asked(state, [held(waits, "b0", firm=True)]))
    assert set(seats(plan).values()) <= {"b0", "b1"}


def test_members_near_one_of_their_own_are_not_led_to_a_seat_elsewhere() -> None:
    near = PodShape(affinity=(term("a", "zone"),))
    waits = waiting("b0", PodShape())
    leader = pod("leader", cpu=1, priority=HIGH, group="high", labels={"app": "a"})
    nodes = [zoned("a0", "a"), zoned("b0", "b", cpu=0)]
    state = snapshot(nodes, [waits, leader, *members(1, near)], [group("high", 2)])
    plan = optimal(asked(state, [held(waits, "b0", firm=True)]))
    assert set(seats(plan).values()) == {"a0"}


def test_seats_of_pods_that_do_not_wait_and_on_nodes_that_are_gone_close_nothing() -> None:
    waits = waiting("n0", PORT)
    state = snapshot([node("n0")], members(1, PORT), [group("high", 1)])
    assert isinstance(asked(state, [held(waits, "n0")]), Plan)
    state = snapshot([node("n0")], [waits, *members(1, PORT)], [group("high", 1)])
    assert isinstance(asked(state, [held(waits, "gone")]), Plan)
    assert isinstance(asked(state, [held(waits, "n0")]), Refusal)


SHAPES = st.builds(
    PodShape,
    anti_affinity=st.lists(
        st.builds(term, st.sampled_from("ab"), st.sampled_from([HOST, "zone"])), max_size=1
    ).map(tuple),
    host_ports=st.lists(
        st.builds(
            HostPort, st.sampled_from(["", "10.0.0.1", "10.0.0.2"]), st.just("TCP"), st.just(80)
        ),
        max_size=1,
    ).map(tuple),
)


World = tuple[list[Node], list[Pod], list[tuple[Pod, str]]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Nodes in zones, victims with members of one or two kinds, and pods that others seat."""
    names = [f"n{i}" for i in range(draw(st.integers(2, 5)))]
    nodes = [zoned(name, draw(st.sampled_from("xy"))) for name in names]
    apps = st.sampled_from("ab").map(lambda app: {"app": app})
    low = [
        pod(
            f"low-{i}",
            cpu=draw(st.sampled_from((1, 2, 4))),
            on=draw(st.sampled_from(names)),
            priority=1,
            labels=draw(apps),
            shape=draw(SHAPES),
        )
        for i in range(draw(st.integers(0, 3)))
    ]
    mine: list[Pod] = []
    for kind in range(draw(st.integers(1, 2))):
        shape, labels, cpu = draw(SHAPES), draw(apps), draw(st.sampled_from((1, 2)))
        mine += [
            pod(
                f"high-{kind}{i}",
                cpu=cpu,
                priority=HIGH,
                group="high",
                labels=labels,
                shape=shape,
            )
            for i in range(draw(st.integers(1, 2)))
        ]
    others = [
        (
            pod(f"other-{i}", cpu=1, priority=HIGH, labels=draw(apps), shape=draw(SHAPES)),
            draw(st.sampled_from(names)),
        )
        for i in range(draw(st.integers(1, 3)))
    ]
    return nodes, [*low, *mine], others


Seated = Callable[[Pod, str], tuple[Pod, Hold | None]]
WAYS: dict[str, Seated] = {
    "held": lambda waits, at: (waits, held(waits, at)),
    "firm": lambda waits, at: (replace(waits, priority=1), held(waits, at, firm=True)),
    "nominated": lambda waits, at: (replace(waits, nominated=at), None),
}


@pytest.mark.parametrize("how", WAYS)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds())
def test_beside_a_pod_that_comes_is_as_beside_the_same_pod_bound(how: str, world: World) -> None:
    nodes, pods, others = world
    size = sum(each.name.startswith("high") for each in pods)
    groups = [group("high", size)]
    there = [replace(each, node=at, phase="Running") for each, at in others]
    bound = asked(snapshot(nodes, [*pods, *there], groups))
    seated = [WAYS[how](each, at) for each, at in others]
    state = snapshot(nodes, [*pods, *(each for each, _ in seated)], groups)
    answer = asked(state, [hold for _, hold in seated if hold is not None])
    event("refused" if isinstance(bound, Refusal) else "planned")
    if isinstance(bound, Refusal):
        assert isinstance(answer, Refusal)
        assert "tries" not in answer.message
        return
    assert isinstance(answer, Plan), answer
    assume(bound.proof is Proof.OPTIMAL)
    costs = [(cost.level, cost.value) for cost in bound.costs]
    assert (seats(answer), evicted(answer)) == (seats(bound), evicted(bound))
    assert [(c.level, c.value) for c in answer.costs] == costs
    assert answer.proof is bound.proof


def fewest(
    state: Snapshot, holds: Sequence[Hold], low: list[Pod], mine: list[Pod]
) -> tuple[int, int] | None:
    """Least (victims, gangs whose seats are taken over), on the filters alone, by brute force."""
    costs = []
    for gone in product((False, True), repeat=len(low) + len(holds)):
        view = ClusterView.from_snapshot(state)
        for victim in compress(low, gone):
            view.remove(victim)
        for hold, over in zip(holds, gone[len(low) :], strict=True):
            if not over:
                view.add(state.pending[hold.uid], hold.node)
        start, price = view.mark(), (sum(gone[: len(low)]), sum(gone[len(low) :]))
        for places in product(sorted(state.nodes), repeat=len(mine)):
            if all(view.seat(*seat) is None for seat in zip(mine, places, strict=True)):
                costs.append(price)
                break
            view.rollback(start)
    return min(costs, default=None)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(world=worlds())
def test_seats_that_give_way_are_as_brute_force_over_the_filters_says(world: World) -> None:
    nodes, pods, others = world
    waits = [replace(each, priority=1) for each, _ in others]
    holds = [held(each, at, gang=each.name) for each, (_, at) in zip(waits, others, strict=True)]
    low = [each for each in pods if each.node]
    mine = [each for each in pods if not each.node]
    state = snapshot(nodes, [*pods, *waits], [group("high", len(mine))])
    rules = self_caps(classes_of(mine), ClusterView.from_snapshot(state))
    assume(not rules.verify)  # what members set each other is another matter
    least = fewest(state, holds, low, mine)
    order = Settings(plan=PlanSettings(cost_order="fewest-pods"))
    answer = asked(state, holds, Planner(order, Resolver(order.groups)))
    if least is None:
        event("refused")
        assert isinstance(answer, Refusal)
        assert "tries" not in answer.message
        return
    plan = optimal(answer)
    event(f"{len(plan.victims)} victims, {len(plan.takes_over)} taken over")
    assert len(plan.victims) == least[0]
    assert least[0] or len(plan.takes_over) == least[1]


def test_incremental_answers_are_those_of_a_new_planner() -> None:
    rng = random.Random(5)
    resolver = Resolver(Settings().groups)
    veteran = Planner(Settings(), resolver)
    nodes = [zoned(f"n{i}", "xy"[i % 2]) for i in range(6)]
    shapes = [PORT, LONE, PodShape(), PodShape(anti_affinity=(term("b", "zone"),))]
    kinds: dict[str, int] = {"took over": 0, "planned": 0, "refused": 0}
    generation = count(1)
    for _ in range(150):
        others = [
            pod(
                f"other-{i}",
                cpu=1,
                priority=rng.choice((1, HIGH)),
                labels={"app": rng.choice("ab")},
                shape=rng.choice(shapes),
            )
            for i in range(rng.randint(1, 4))
        ]
        places = [rng.choice(nodes).name for _ in others]
        low = [pod(f"low-{i}", cpu=4, priority=1, on=f"n{i}") for i in range(rng.randint(0, 5))]
        holds = [
            held(each, at, firm=rng.random() < 0.2, gang=each.name)
            for each, at in zip(others, places, strict=True)
        ]
        for i, at in enumerate(places):
            if rng.random() < 0.3:
                others[i], holds[i] = replace(others[i], nominated=at), replace(holds[i], uid="-")
        size = rng.randint(1, 3)
        mine = members(size, rng.choice(shapes), rng.choice("ab"))
        state = snapshot(
            nodes, [*others, *low, *mine], [group("high", size)], generation=next(generation)
        )
        answer = asked(state, holds, veteran)
        assert answer == asked(state, holds)
        if isinstance(answer, Plan):
            kinds["took over" if answer.takes_over else "planned"] += 1
        else:
            assert isinstance(answer, Refusal)
            assert "tries" not in answer.message
            kinds["refused"] += 1
    assert min(kinds.values()) >= 5, kinds
