"""A refusal says what would change it, and what a change makes of an answer."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.plan.changes import BOOKING
from extender.gang.plan.cheaper import PREFIX
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.tell.difference import LevelDifference, difference, told
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
)
from extender.model.plan import Code, Cost, Plan, Refusal, Victim
from extender.model.snapshot import Snapshot
from extender.settings.cost_order import order_of
from extender.settings.fairness import FairnessSettings
from extender.settings.settings import Settings
from tests.gang.test_planner import HIGH, NODES, gang, waiting
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot


def refused(state: Snapshot, name: str) -> Refusal:
    answer = plan_for(state, name)
    assert isinstance(answer, Refusal)
    return answer


def spared(plan: Plan | Refusal) -> str:
    """The sentence on what would spare some victims, "" for none."""
    assert isinstance(plan, Plan)
    assert not plan.spared or plan.spared in plan.explanation
    return plan.spared


def urgent_and_large(size: int = 6, nodes: list[Node] | None = None) -> Snapshot:
    """Four nodes: two with a gang of priority 7, two with pods of 50; ``large`` has priority 40."""
    low = [pod(f"low-{i}", priority=7, group="low", on=f"n{i}") for i in range(2)]
    firm = [pod(f"firm-{i}", priority=50, on=f"n{i + 2}") for i in range(2)]
    return snapshot(
        nodes or NODES,
        [*low, *firm, *waiting("large", size, priority=40)],
        [group("low", 2), group("large", size)],
    )


def test_each_way_is_one_that_works() -> None:
    refusal = refused(urgent_and_large(), "large")
    room, quorum = refusal.ways  # and no priority: six members, and four nodes
    assert "4 more of large-0 and 5 like it (3 CPU)" in room.text
    assert quorum.min_count == 2
    # As much room as is named, and not one seat less.
    more = [*NODES, *(node(f"new{i}") for i in range(4))]
    assert isinstance(plan_for(urgent_and_large(nodes=more), "large"), Plan)
    assert isinstance(plan_for(urgent_and_large(nodes=more[:-1]), "large"), Refusal)
    state = urgent_and_large()
    resolver = Resolver(Settings().groups)
    asked = resolver.resolve(gang_key("large"), state)
    planner = Planner(Settings(), resolver)
    fewer = replace(asked, min_count=quorum.min_count)
    assert evicted(planner.plan(GangQuestion(fewer, state))) == {"low-0", "low-1"}
    one_more = replace(asked, min_count=(quorum.min_count or 0) + 1)
    assert isinstance(planner.plan(GangQuestion(one_more, state)), Refusal)


def test_a_gang_behind_equals_is_pointed_to_a_booked_start() -> None:
    """Where starts are booked, or nobody as urgent is in the way, there is nothing to turn on."""
    equals = snapshot(
        NODES,
        [*gang("first", 4), *waiting("second", 4, priority=1)],
        [group("first"), group("second")],
    )
    assert [way.text for way in refused(equals, "second").ways][-1] == BOOKING
    booking = replace(Settings(), fairness=FairnessSettings(booking=True))
    answer = plan_for(equals, "second", booking)
    assert isinstance(answer, Refusal)
    assert BOOKING not in [way.text for way in answer.ways]
    assert BOOKING not in [way.text for way in refused(urgent_and_large(), "large").ways]


def test_a_priority_that_lets_others_go_is_enough_where_they_are_what_lacks() -> None:
    state = urgent_and_large(4)
    (way,) = (way for way in refused(state, "large").ways if way.priority is not None)
    resolver = Resolver(Settings().groups)
    asked = resolver.resolve(gang_key("large"), state)
    urgent = replace(asked, preemptor_priority=way.priority)
    found = Planner(Settings(), resolver).plan(GangQuestion(urgent, state))
    assert evicted(found) == {"low-0", "low-1", "firm-0", "firm-1"}


def test_what_is_no_way_is_not_named() -> None:
    # Nobody of the cluster is in the way: a priority changes nothing.
    alone = snapshot(NODES, waiting("large", 6), [group("large", 6)])
    assert [way.priority for way in refused(alone, "large").ways] == [None, None]
    # No seat at all: no quorum is small enough.
    huge = [replace(each, requests=(("cpu", 9000),)) for each in waiting("huge", 2)]
    state = snapshot(NODES, huge, [group("huge", 2)])
    assert [way.min_count for way in refused(state, "huge").ways] == [None]
    # Not for room: it may not preempt.
    calm = waiting("calm", 4, preempts=False)
    state = snapshot(NODES, [*gang("low", 4), *calm], [group("low"), group("calm")])
    (way,) = refused(state, "calm").ways
    assert "preemptionPolicy" in way.text
    # It waits for its members, which no room brings.
    state = snapshot(NODES, waiting("late", 2), [group("late", 4)])
    assert refused(state, "late").ways == ()


def priority_named(size: int, pods: list[Pod]) -> int | None:
    """The priority that the refusal of a gang of this size names, which waits beside the pods."""
    state = snapshot(NODES, [*pods, *waiting("large", size, priority=40)], [group("large", size)])
    return next((w.priority for w in refused(state, "large").ways if w.priority is not None), None)


def test_no_priority_is_named_that_nobody_can_have() -> None:
    """The API server refuses PriorityClasses above a billion; those are the system's own."""
    pods = [
        pod("firm", priority=2_000_000_000, on="n0"),
        pod("most", priority=1_000_000_000, on="n1"),
        pod("below", priority=999_999_999, on="n2"),
    ]
    assert priority_named(2, pods) == 1_000_000_000
    assert priority_named(3, pods) is None
    assert priority_named(4, pods) is None


def test_the_lowest_priority_that_is_enough_is_named() -> None:
    firm = [pod(f"firm-{i}", priority=50 * (i + 1), on=f"n{i}") for i in range(4)]
    assert [priority_named(size, firm) for size in (1, 2, 3, 4, 5)] == [51, 101, 151, 201, None]


def test_a_priority_is_named_only_where_budgets_and_rules_leave_a_plan() -> None:
    """With everybody gone there is room, and no pod of the budget may go."""
    app = {"app": "firm"}
    selector = LabelSelector((Requirement("app", "In", ("firm",)),))
    firm = [pod(f"firm-{i}", priority=50, on=f"n{i}", labels=app) for i in range(4)]
    for allowed, named in ((0, None), (1, 51)):
        state = snapshot(
            NODES,
            [*firm, *waiting("large", 1, priority=40)],
            [group("large", 1)],
            budgets=[DisruptionBudget("b", "default", "b", selector, allowed)],
        )
        ways = refused(state, "large").ways
        assert [way.priority for way in ways if way.priority is not None] == [
            *([named] if named else [])
        ]


def test_amounts_are_told_as_people_write_them() -> None:
    message = refused(urgent_and_large(), "large").message
    assert "a member needs 3 CPU, the nearest lacks" in message
    assert "3000" not in message


def test_what_is_easiest_to_spare_stays_where_there_is_that_room() -> None:
    """Two victim units; one takes one seat, the other three."""
    single = pod("single", priority=9, on="n3")
    trio = [pod(f"trio-{i}", priority=9, group="trio", on=f"n{i}") for i in range(3)]

    def state(nodes: list[Node]) -> Snapshot:
        pods = [single, *trio, *waiting("high", 4, priority=HIGH)]
        return snapshot(nodes, pods, [group("trio", 3), group("high")])

    assert spared(plan_for(state(NODES), "high")) == (
        "cheaper only with free room for 1 more member: pod default/single could stay then"
    )
    there = [*NODES, node("new")]
    assert evicted(plan_for(state(there), "high")) == {"trio-0", "trio-1", "trio-2"}


@pytest.mark.parametrize("more", [0, 1])
def test_the_room_that_would_spare_victims_is_what_was_tried(more: int) -> None:
    """Two seats are on the victim's node, and one of them has room beside it."""
    pods = [pod("low", priority=1, cpu=4, on="n0"), *waiting("high", 2)]
    nodes = [node("n0", cpu=8), *(node(f"new{i}", cpu=3) for i in range(more))]
    plan = plan_for(snapshot(nodes, pods, [group("high", 2)]), "high")
    assert evicted(plan) == (set() if more else {"low"})
    if not more:
        assert spared(plan) == (
            "cheaper only with free room for 1 more member: pod default/low could stay then"
        )


def test_a_pod_that_excludes_members_from_a_zone_needs_them_all_elsewhere() -> None:
    """It opens no room, and is on a node with no seat."""
    zone = {"zone": "a"}
    nodes = [node("n0", cpu=1, labels=zone), node("n1", labels=zone), node("n2", labels=zone)]
    selector = LabelSelector((Requirement("app", "In", ("high",)),))
    term = PodAffinityTerm("zone", selector, ("default",))
    guard = pod("guard", cpu=0, priority=1, on="n0", shape=PodShape(anti_affinity=(term,)))
    members = waiting("high", 2, labels={"app": "high"})
    plan = plan_for(snapshot(nodes, [guard, *members], [group("high", 2)]), "high")
    assert evicted(plan) == {"guard"}
    assert spared(plan) == (
        "cheaper only with a node for 2 more members without that conflict (required "
        "anti-affinity): pod default/guard could stay then"
    )


def test_room_of_terminating_pods_counts_for_a_class_that_does_not_lead() -> None:
    """The leader decides who goes; the worker has a seat once the terminating pod is gone."""
    gpu = (("gpu", 1),)
    low = replace(pod("low", priority=5, on="n0"), requests=(("cpu", 3000), *gpu))
    ending = pod("ending", on="n1", deleting=NOW + 10)
    leader = replace(pod("leader", priority=HIGH, group="high"), requests=(("cpu", 1000), *gpu))
    worker = pod("worker", cpu=2, priority=HIGH, group="high")
    nodes = [node("n0", gpu=1), node("n1", cpu=3)]
    plan = plan_for(snapshot(nodes, [low, ending, leader, worker], [group("high", 2)]), "high")
    assert evicted(plan) == {"low"}
    assert spared(plan) == (
        "cheaper only with free room for 1 more member: pod default/low could stay then"
    )


def beside(key: str, app: str) -> tuple[PodAffinityTerm, ...]:
    return (PodAffinityTerm(key, LabelSelector((Requirement("app", "In", (app,)),)), ("default",)),)


def test_no_number_is_told_where_the_others_need_the_member_beside_them() -> None:
    """Without the helper on n0 the worker has no pod like it on n1."""
    job = {"app": "job"}
    guard = pod("guard", cpu=0, on="n2", shape=PodShape(anti_affinity=beside("zone", "job")))
    firm = pod("firm", cpu=0, priority=2 * HIGH, on="n2", labels=job)
    shape = PodShape(affinity=beside("kubernetes.io/hostname", "job"))
    worker = pod("worker", priority=HIGH, group="high", labels=job, shape=shape)
    helper = pod("helper", cpu=1, priority=HIGH, group="high", labels=job)
    helper = replace(helper, requests=(("cpu", 1000), ("gpu", 1)))
    nodes = [node("n0", labels={"zone": "a"}, gpu=1), node("n1"), node("n2", 1, {"zone": "a"})]
    state = snapshot(nodes, [guard, firm, worker, helper], [group("high", 2)])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"guard"}
    assert spared(plan) == ""


def test_free_room_is_not_named_where_members_keep_each_other_apart() -> None:
    """All nodes that the workers accept are in one zone, which the head has for itself."""
    inside = PodShape(node_selector=(("zone", "a"),))
    apart = replace(inside, anti_affinity=beside("zone", "job"))
    head = pod("head", cpu=3, priority=HIGH, group="high", shape=apart)
    job = {"app": "job"}
    workers = [
        pod(f"w{i}", cpu=2, priority=HIGH, group="high", labels=job, shape=inside) for i in range(2)
    ]
    nodes = [node("n0", labels={"zone": "a"})]
    answer = refused(snapshot(nodes, [head, *workers], [group("high", 3)]), "high")
    assert "2 of 3 members fit" in answer.message
    assert not any("free room" in way.text for way in answer.ways)


def test_where_nobody_goes_nobody_is_spared() -> None:
    plan = plan_for(snapshot(NODES, waiting("high", 4), [group("high")]), "high")
    assert isinstance(plan, Plan)
    assert spared(plan) == ""


def test_a_quick_question_tries_only_where_room_alone_decides() -> None:
    """Verbs wait meanwhile: with budgets each try is a search of its own."""
    firm = [pod(f"firm-{i}", priority=50 * (i + 1), on=f"n{i}") for i in range(4)]
    budget = DisruptionBudget("b", "default", "b", LabelSelector(()), 9)
    resolver = Resolver(Settings().groups)
    told = []
    for budgets in ([], [budget]):
        state = snapshot(
            NODES,
            [*firm, *waiting("large", 3, priority=40)],
            [group("large", 3)],
            budgets=budgets,
        )
        asked = resolver.resolve(gang_key("large"), state)
        for quick in (False, True):
            question = GangQuestion(asked, state, quick=quick)
            answer = Planner(Settings(), resolver).plan(question)
            assert isinstance(answer, Refusal)
            told.append([way.priority for way in answer.ways])
    # Of two priorities the lowest is not enough, and the highest is.
    assert told == [[None, 151], [None, 201], [None, 151], []]


@pytest.mark.parametrize("quick", [False, True])
def test_a_longer_wait_is_named_where_it_is_enough(*, quick: bool) -> None:
    """Four pods with a grace period of 30 s, and an owner that waits for 5."""
    state = snapshot(NODES, [*gang("low", 4), *waiting("high", 5)], [group("low"), group("high")])
    resolver = Resolver(Settings().groups)
    for size, named in ((4, True), (5, False)):
        asked = replace(resolver.resolve(gang_key("high"), state), patience=5.0, min_count=size)
        answer = Planner(Settings(), resolver).plan(GangQuestion(asked, state, quick=quick))
        assert isinstance(answer, Refusal)
        waits = [
            way.text for way in answer.ways if "an owner that waits 30 s or longer" in way.text
        ]
        assert bool(waits) == named


def test_a_refusal_names_a_few_of_many_budgets() -> None:
    """A namespace may have thousands, and what is long is cut."""
    firm = [
        pod(f"low-{i}", priority=1, on=f"n{i % 4}", cpu=1, labels={"app": f"a{i}"})
        for i in range(12)
    ]
    budgets = [
        DisruptionBudget(
            f"u{i}",
            "default",
            f"b{i:02}",
            LabelSelector((Requirement("app", "In", (f"a{i}",)),)),
            0,
        )
        for i in range(12)
    ]
    state = snapshot(NODES, [*firm, *waiting("large", 4)], [group("large", 4)], budgets=budgets)
    message = refused(state, "large").message
    assert message.endswith("default/b06, default/b07 and 4 more)")


BESIDE = PodShape(
    affinity=(
        PodAffinityTerm(
            "kubernetes.io/hostname",
            LabelSelector((Requirement("app", "In", ("target",)),)),
            ("default",),
        ),
    )
)


def beside_a_target(*bound: Pod, size: float = 3) -> Refusal:
    """What a gang of one is told whose member requires a pod app=target on its node."""
    member = pod("m", cpu=size, priority=40, group="g", shape=BESIDE)
    return refused(snapshot([node("n0"), node("n1")], [*bound, member], [group("g", 1)]), "g")


def test_no_priority_is_named_for_a_seat_beside_a_pod_that_terminates() -> None:
    """With the victim the other pod is gone, too: such a plan is none (kubernetes#112098)."""
    firm = pod("firm", cpu=3, priority=50, on="n0")
    target = pod("target", cpu=0, on="n0", labels={"app": "target"})
    assert [w.priority for w in beside_a_target(firm, target).ways] == [51]
    leaving = replace(target, deleting=NOW + 10)
    assert beside_a_target(firm, leaving).ways == ()


def test_free_room_is_not_named_where_required_affinity_decides_on_which_node() -> None:
    """A pod that stays keeps the member off the one node where its affinity is met."""
    target = pod("target", cpu=1, priority=50, on="n0", labels={"app": "target"})
    shy = PodShape(
        anti_affinity=(PodAffinityTerm("kubernetes.io/hostname", LabelSelector(()), ("default",)),)
    )
    away = pod("away", cpu=1, priority=50, on="n0", shape=shy)
    assert [w.priority for w in beside_a_target(target, away).ways] == [51]


@pytest.mark.parametrize("size", [3, 9])
def test_a_rule_that_no_node_meets_is_named(size: int) -> None:
    refusal = beside_a_target(size=size)
    rule, ways = ("its required affinity", 0) if size == 3 else ("no node has 9 CPU", 1)
    assert refusal.message.startswith("no node accepts any member: m (")
    assert rule in refusal.message
    assert len(refusal.ways) == ways


def test_the_room_of_a_terminating_pod_is_there_without_the_victims_too() -> None:
    """One more free place is enough beside it; two were told."""
    nodes = [node("n0", cpu=4), node("n1", cpu=2)]
    bound = [
        pod("low", cpu=4, on="n0"),
        pod("gone", cpu=1, priority=50, on="n1", deleting=NOW + 10),
    ]
    members = [pod(f"m{i}", cpu=2, priority=40, group="g") for i in range(2)]
    plan = plan_for(snapshot(nodes, [*bound, *members], [group("g", 2)]), "g")
    assert evicted(plan) == {"low"}
    assert spared(plan) == f"{PREFIX}free room for 1 more member: pod default/low could stay then"
    more = snapshot([*nodes, node("n2", cpu=2)], [*bound, *members], [group("g", 2)])
    assert evicted(plan_for(more, "g")) == set()


def test_the_unit_that_needs_least_is_found_behind_those_with_fewer_seats() -> None:
    """Two pods leave no seat on their nodes where they stay, a third one leaves two of three."""
    nodes = [node("n0", cpu=6), node("n1", cpu=6), node("n2", cpu=9)]
    low = [pod(f"low-{i}", cpu=6 if i < 2 else 3, on=f"n{i}") for i in range(3)]
    members = waiting("high", 7)
    plan = plan_for(snapshot(nodes, [*low, *members], [group("high", 7)]), "high")
    assert evicted(plan) == {"low-0", "low-1", "low-2"}
    assert spared(plan) == f"{PREFIX}free room for 1 more member: pod default/low-2 could stay then"


def test_free_room_is_not_named_where_a_rule_closes_every_node() -> None:
    """A pod that stays keeps the members out of their zone."""
    zone = {"zone": "a"}
    term = PodAffinityTerm(
        "zone", LabelSelector((Requirement("app", "In", ("high",)),)), ("default",)
    )
    guard = pod("guard", cpu=0, priority=50, on="n0", shape=PodShape(anti_affinity=(term,)))
    members = waiting("high", 2, priority=40, labels={"app": "high"})
    nodes = [node("n0", labels=zone), node("n1", labels=zone)]
    ways = refused(snapshot(nodes, [guard, *members], [group("high", 2)]), "high").ways
    assert [(way.priority, way.text.startswith("free room")) for way in ways] == [(51, False)]


def test_nodes_are_named_where_none_offers_what_some_members_ask_for() -> None:
    """Free room on the nodes that are there does not help."""
    members = waiting("high", 2)
    other = replace(members[1], requests=(("cpu", 1000), ("vendor.io/fpga", 1)))
    state = snapshot([node("n0"), node("n1")], [members[0], other], [group("high", 2)])
    way, quorum = refused(state, "high").ways
    assert quorum.min_count == 1
    assert way.text == (
        "nodes that offer vendor.io/fpga and accept 1 more of high-1 (1 CPU, 1 vendor.io/fpga) by "
        "labels, taints and size"
    )
    more = snapshot(
        [node("n0"), node("n1"), node("n2", labels={}, **{"vendor.io/fpga": 1})],
        [members[0], other],
        [group("high", 2)],
    )
    assert isinstance(plan_for(more, "high"), Plan)


GANG = GangKey("pod-group", "team", "new")
REFUSED = Refusal(gang=GANG, code=Code.INFEASIBLE, message="no room")


def victim(name: str, priority: int, gang: str = "") -> Victim:
    return Victim(
        uid=name, namespace="team", name=name, node=f"node-of-{name}", priority=priority, gang=gang
    )


def plan(*victims: Victim, **costs: int) -> Plan:
    levels = tuple(Cost(level.replace("_", "@"), value, value) for level, value in costs.items())
    return Plan(gang=GANG, priority=100, seats=(), victims=victims, costs=levels)


WORK = ("default",)
COUNTS = ("gangs-by-priority", "fewest-pods", "fewest-gangs")


@pytest.mark.parametrize(
    ("level", "orders"),
    [
        ("work_1", WORK),
        ("grace_1", WORK),
        ("gangs_1", WORK + COUNTS),
        ("pods_1", WORK + COUNTS),
        ("work", COUNTS),
        ("pods", ("fewest-pods",)),
        ("gangs", ("fewest-gangs",)),
        ("waits", WORK + COUNTS),
        ("luck", ()),
    ],
)
@pytest.mark.parametrize("other", WORK + COUNTS)
def test_a_level_is_compared_where_both_orders_count_it_or_none_does(
    level: str, orders: tuple[str, ...], other: str
) -> None:
    """What a level costs in one order is no difference to another that does not count it."""
    for order in WORK + COUNTS:
        found = difference(
            plan(**{level: 2}), plan(), order_of(order, {}), order_of(other, {})
        ).levels
        same = (order in orders) == (other in orders)
        assert found == [LevelDifference(level.replace("_", "@"), 2, 0)] * same, order


def test_both_sides_of_a_difference_in_work_say_as_many_digits_as_it_takes() -> None:
    before, after = plan(victim("a", 1), work_1=1_000_080), plan(victim("b", 1), work_1=1_000_000)
    said = told(difference(before, after, *[order_of("default", {})] * 2))[-1]
    assert said == "  work@1: 277.80 GPU-hours before, 277.78 GPU-hours changed"


def test_who_goes_as_well_and_who_stays() -> None:
    before = plan(victim("a", 1), victim("b", 1, "pod-group:team/low"), pods_1=2)
    after = plan(victim("c", 5), pods_5=1)
    found = difference(before, after)
    assert found.words == "1 pod more and 2 fewer would be evicted: 1 instead of 2."
    assert told(found) == [
        "what the change makes of it: 1 pod more and 2 fewer would be evicted: 1 instead of 2.",
        "  + team/c on node-of-c (priority 5)",
        "  - team/a on node-of-a (priority 1)",
        "  - team/b on node-of-b (priority 1, pod-group:team/low)",
        "  pods@1: 2 before, 0 changed",
        "  pods@5: 0 before, 1 changed",
    ]


def test_levels_that_one_order_does_not_count_are_no_zeros() -> None:
    before, after = plan(victim("a", 1), pods_1=1), plan(victim("a", 1), pods=1, pods_1=1)
    orders = order_of("default", {}), order_of("fewest-pods", {})
    assert difference(before, after, *orders).levels == []
    own = order_of("own", {"own": ("gangs",)})
    assert difference(before, plan(gangs=1), orders[0], own).levels == []


def test_refusals() -> None:
    going = plan(victim("a", 1))
    assert difference(REFUSED, REFUSED).words == "Refused either way."
    assert difference(going, REFUSED).words == "It would not run any more."
    made = difference(REFUSED, going)
    assert made.words == "It would run, and 1 pod would be evicted for it."
    assert difference(going, going).words == "The same 1 pod would be evicted."
