"""What the planner asks for at each of its steps: classes, units, cutoffs, struck seats, reach."""

from __future__ import annotations

import time
from array import array
from itertools import product
from random import Random

import pytest
from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan import answers, build, planner
from extender.gang.plan.build import Build
from extender.gang.plan.cost_levels import CostLevels
from extender.gang.plan.planner import MAX_STRIKES, Planner
from extender.gang.plan.priority_cutoff import least_priority, least_priority_over
from extender.gang.plan.question import GangQuestion, Masks
from extender.gang.plan.schedulers import NO_ASKER
from extender.gang.plan.spreads import enough
from extender.gang.plan.sure_seats import inside_of_all
from extender.gang.plan.topology_domains import preferred_keys
from extender.gang.plan.units import Units, without
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.problem import Spread
from extender.search.problem.stop import OutOfTime, Stop
from extender.search.problem.types import Infeasible, Problem, Solution
from extender.search.several.leading_class import JOINT
from extender.search.solver import solve
from extender.settings.cost_order import CostLevel
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, seats, snapshot

HIGH = 100
SHOWN = {"app": "shown"}
SPREAD = PodShape(
    spread=(SpreadConstraint("zone", 1, LabelSelector((Requirement("app", "In", ("shown",)),))),)
)


def member(name: str, cpu: int = 3, gpu: int = 0) -> Pod:
    made = pod(name, cpu=cpu, priority=HIGH, group="high")
    return replace(made, requests=(*made.requests, ("gpu", gpu))) if gpu else made


def test_room_that_is_of_use_to_two_classes_only_together_is_made() -> None:
    """Each class alone has its seat beside the old pod; with it gone both have one."""
    old = pod("old", cpu=1, priority=1, on="n0")
    members = [member("high-0"), member("high-1", cpu=1, gpu=1)]
    state = snapshot([node("n0", gpu=1)], [old, *members], [group("high", 2)])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"old"}
    assert seats(plan) == {"high-0": "n0", "high-1": "n0"}


def test_a_no_that_is_not_proved_does_not_end_the_planning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    low = pod("low", priority=1, on="n0")
    state = snapshot([node("n0")], [low, member("high-0")], [group("high", 1)])
    asked: list[Problem] = []

    def cut_short(problem: Problem, *args: object, **more: object) -> Solution | Infeasible:
        asked.append(problem)
        if len(asked) == 1:
            return Infeasible(proved=False, reasons=())
        return solve(problem, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "solve", cut_short)
    by_number = Settings(plan=PlanSettings(cost_order="fewest-pods"))
    assert evicted(plan_for(state, "high", by_number)) == {"low"}
    assert [len(problem.units) for problem in asked] == [0, 1]


def test_each_search_of_one_question_ends_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    old = pod("old", cpu=1, priority=1, on="n0")
    members = [member("high-0"), member("high-1", cpu=1, gpu=1)]
    state = snapshot([node("n0", gpu=1)], [old, *members], [group("high", 2)])
    until: dict[str, set[object]] = {}

    def noting(name: str) -> None:
        search = getattr(answers, name)

        def noted(*args: object, **more: object) -> object:
            until.setdefault(name, set()).add(more["deadline"])
            return search(*args, **more)

        monkeypatch.setattr(answers, name, noted)

    noting("solve")
    noting("solve_led")
    resolver = Resolver(Settings().groups)
    question = GangQuestion(resolver.resolve(gang_key("high"), state), state)
    deadline = time.monotonic() + 600
    plan = planner.Planner(Settings(), resolver).plan(question, deadline=deadline)
    assert evicted(plan) == {"old"}
    assert until == {"solve": {deadline}, "solve_led": {deadline}}


def test_an_answer_that_holds_whoever_of_the_counted_goes_is_looked_for() -> None:
    """Zone a has room as long as its counted pod is thought gone: more nodes than are struck."""
    nodes = [node(f"a{i}", labels={"zone": "a"}) for i in range(MAX_STRIKES + 4)]
    nodes.append(node("b0", labels={"zone": "b"}))
    counted = pod("counted", priority=5, on="a0", labels=SHOWN)
    plain = pod("plain", priority=1, on="b0")
    asks = replace(member("high-0"), labels=SHOWN, shape=SPREAD)
    plan = plan_for(snapshot(nodes, [counted, plain, asks], [group("high", 1)]), "high")
    assert evicted(plan) == {"plain"}
    assert seats(plan) == {"high-0": "b0"}


def test_a_counted_pod_that_goes_makes_room_under_the_rule() -> None:
    nodes = [node("a0", labels={"zone": "a"}), node("b0", labels={"zone": "b"})]
    counted = pod("counted", priority=1, on="a0", labels=SHOWN)
    stays = pod("stays", priority=HIGH, on="b0")
    asks = replace(member("high-0"), labels=SHOWN, shape=SPREAD)
    plan = plan_for(snapshot(nodes, [counted, stays, asks], [group("high", 1)]), "high")
    assert evicted(plan) == {"counted"}


def test_members_that_run_are_counted_for_sure() -> None:
    """Others that are counted may go, so that less would be known of the reach."""
    nodes = [node(f"n{i}", labels={"zone": "a"}) for i in range(3)]
    runs = replace(pod("high-0", priority=HIGH, on="n0", group="high"), labels=SHOWN, shape=SPREAD)
    theirs = pod("theirs", cpu=1, priority=HIGH, on="n0", labels=SHOWN)
    others = [pod("low", priority=1, on="n1"), pod("mid", priority=5, on="n2")]
    asks = replace(member("high-1"), labels=SHOWN, shape=SPREAD)
    plan = plan_for(snapshot(nodes, [runs, theirs, *others, asks], [group("high", 2)]), "high")
    assert evicted(plan) == {"low"}
    assert isinstance(plan, Plan)
    assert "only pods of priority 1 or lower are needed" in plan.explanation


def test_the_time_that_a_terminating_pod_has_left_is_told_in_whole_seconds() -> None:
    leaving = pod("leaving", priority=1, on="n0", deleting=NOW + 12.2)
    plan = plan_for(snapshot([node("n0")], [leaving, member("high-0")], [group("high", 1)]), "high")
    assert isinstance(plan, Plan)
    assert [(each.name, each.grace) for each in plan.waits_for] == [("leaving", 13)]


def test_that_nobody_is_evicted_is_told() -> None:
    free = "it fits into free room: no pod is evicted"
    low = pod("low", priority=1, on="n0")
    for pods, there in (([], True), ([low], False)):
        state = snapshot([node("n0")], [*pods, member("high-0")], [group("high", 1)])
        plan = plan_for(state, "high")
        assert isinstance(plan, Plan)
        assert (free in plan.explanation) is there
        reach = [line for line in plan.explanation if line.startswith("only pods of priority")]
        assert bool(reach) is not there


@pytest.mark.parametrize(("grace", "granted"), [(30, 30), (3600, 3600), (7200, 3600)])
def test_no_victim_is_granted_more_than_the_longest_grace_period(grace: int, granted: int) -> None:
    low = pod("low", priority=1, on="n0", grace=grace)
    plan = plan_for(snapshot([node("n0")], [low, member("high-0")], [group("high", 1)]), "high")
    assert isinstance(plan, Plan)
    assert [each.grace for each in plan.victims] == [granted]


def test_a_budget_counts_at_the_first_level_of_an_order_that_has_no_level_for_it() -> None:
    state = snapshot([], [])
    pods, budgets = CostLevel.PODS, CostLevel.PDB_VIOLATIONS
    for order, level in (((pods, CostLevel.BY_PRIORITY), 0), ((pods, budgets), 1)):
        assert CostLevels(order, [1], state, {}, 300, impatient=False).budget_level == level


def test_a_node_is_sure_where_nobody_stands_in_the_way_of_any_class() -> None:
    masks = [bytes([1, 1, 1]), bytes([1, 1, 0])]
    places = {"n0": 0, "n1": 1, "n2": 2}
    assert inside_of_all(masks, [{}, {}], places) == bytes([1, 1, 0])
    assert inside_of_all(masks, [{}, {"n1": ("x",), "gone": ("y",)}], places) == bytes([1, 0, 0])


@pytest.mark.parametrize(("order", "there"), [("default", True), ("fewest-pods", False)])
def test_up_to_which_priority_pods_go_is_told_where_it_is_known(order: str, *, there: bool) -> None:
    pods = [pod("low", priority=1, on="n0"), pod("mid", priority=5, on="n1")]
    state = snapshot([node("n0"), node("n1")], [*pods, member("high-0")], [group("high", 1)])
    plan = plan_for(state, "high", Settings(plan=PlanSettings(cost_order=order)))
    assert isinstance(plan, Plan)
    known = "only pods of priority 1 or lower are needed"
    assert (known in plan.explanation) is there
    assert "evicts 1 pod: 1 single pod" in plan.explanation
    assert "wants 1 seat: " in plan.explanation[0]


def test_no_domain_is_preferred_where_another_is_required() -> None:
    state = snapshot([node("n0", labels={"rack": "a"})], [member("high-0")], [group("high", 1)])
    gang = Resolver(Settings().groups).resolve(gang_key("high"), state)
    gang = replace(gang, preferred_topology_key="rack")
    assert preferred_keys(gang, (), state) == ("rack",)
    assert preferred_keys(gang, ("zone",), state) == ()


@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_no_class_more_is_looked_at_once_not_even_a_first_answer_is_waited_for(
    done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First every class is masked, then what stands in its way is looked up."""
    members = [member(f"high-{i}", cpu=1 + i) for i in range(3)]
    state = snapshot([node("n0")], members, [group("high", 3)])
    resolver = Resolver(Settings().groups)
    planning = PlanningCache(resolver, Settings())
    planning.renew(state)
    view = ClusterView.from_snapshot(state)
    flag, seen = array("b", [0]), []

    def counting(owner: object, name: str) -> None:
        look = getattr(owner, name)

        def counted(*args: object, **named: object) -> object:
            seen.append(name)
            flag[0] = 2 if len(seen) == done else 0
            return look(*args, **named)

        monkeypatch.setattr(owner, name, counted)

    counting(PlanningCache, "mask")
    counting(build, "blocked_beside")
    gang = resolver.resolve(gang_key("high"), state)
    with pytest.raises(OutOfTime):
        Build(GangQuestion(gang, state), view, planning, Settings(), Stop(None, None, flag))
    assert len(seen) == done


def leading(members: list[Pod], count: int) -> list[tuple[int, str]]:
    """The classes asked, in their order, each with the name of its first member."""
    nodes = [node(f"n{i}", gpu=8) for i in range(4)]
    low = [pod(f"low-{i}", priority=1, on=f"n{i}") for i in range(4)]
    state = snapshot(nodes, [*low, *members], [group("high", count)])
    settings = Settings()
    resolver = Resolver(settings.groups)
    planning = PlanningCache(resolver, settings)
    planning.renew(state)
    planning.face(HIGH)
    gang = resolver.resolve(gang_key("high"), state)
    view = ClusterView.from_snapshot(state)
    build = Build(GangQuestion(gang, state), view, planning, settings, Stop(None, None, None))
    return [
        (lead, "all" if lead == JOINT else build.classes[lead][0].name)
        for lead, _ in build.leading()
    ]


def leading_member(name: str, *, cpu: float = 3, gpu: int = 0) -> Pod:
    made = pod(f"high-{name}", cpu=cpu, priority=HIGH, group="high")
    return replace(made, requests=(*made.requests, ("gpu", gpu))) if gpu else made


def test_classes_that_ask_for_the_same_are_also_asked_as_one() -> None:
    found = leading(
        [leading_member("leader", cpu=2), leading_member("worker-0"), leading_member("worker-1")], 3
    )
    assert [name for _, name in found] == ["all", "high-worker-0"]


def test_where_one_class_asks_for_more_kinds_of_things_it_is_asked_alone() -> None:
    workers = [leading_member(f"worker-{i}", gpu=8) for i in range(2)]
    assert [name for _, name in leading([leading_member("leader"), *workers], 3)] == [
        "high-worker-0"
    ]


def test_nobody_leads_a_gang_of_one_class_or_one_with_members_beyond_its_quorum() -> None:
    assert leading([leading_member("worker-0"), leading_member("worker-1")], 2) == []
    assert (
        leading(
            [
                leading_member("leader", cpu=2),
                leading_member("worker-0"),
                leading_member("worker-1"),
            ],
            2,
        )
        == []
    )


def test_units_with_a_pod_of_the_gang_are_left_out_and_no_others() -> None:
    pods = [pod(name, on="n0") for name in "abc"]
    first = VictimUnit(uid="first", pods=tuple(pods[:2]), priority=0)
    second = VictimUnit(uid="second", pods=(pods[2],), priority=0)
    leaving = (pod("d", on="n0", deleting=1.0), ())
    units = Units(((first, ()), (second, ())), (leaving,))
    kept = without(units, frozenset({"uid-b", "uid-stranger"}))
    assert kept.candidates == ((second, ()),)
    assert kept.leaving == units.leaving
    assert without(units, frozenset({"uid-stranger"})) is units


def test_the_least_priority_in_one_domain() -> None:
    gains = {0: {1: 1, 5: 2}, 1: {2: 1, 3: 1}}
    assert least_priority(gains, 1) == 1
    assert least_priority(gains, 2) == 3
    assert least_priority(gains, 3) == 5
    assert least_priority(gains, 4) is None
    assert least_priority({}, 1) is None


def test_the_least_priority_over_domains_adds_up_what_came_before() -> None:
    gains = {0: {1: 1, 5: 2}, 1: {2: 1}}
    asked: list[dict[int, int]] = []

    def three_and_one(seats: object) -> bool:
        assert isinstance(seats, dict)
        asked.append(dict(seats))
        return seats == {0: 3, 1: 1}

    assert least_priority_over(gains, three_and_one) == 5
    assert asked == [{0: 1, 1: 0}, {0: 1, 1: 1}, {0: 3, 1: 1}]
    assert least_priority_over(gains, lambda seats: False) is None


def can(rule: Spread, seats: list[int], members: int) -> bool:
    """Whether so many of one class can sit there under the rule, by trying every way."""
    for way in product(*(range(count + 1) for count in seats)):
        there = [have + more for have, more in zip(rule.fewest, way, strict=True)]
        least = 0 if rule.from_zero else min(there)
        kept = all(
            not more or total - least <= rule.max_skew
            for total, more in zip(there, way, strict=True)
        )
        if sum(way) == members and kept:
            return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_enough_seats_under_a_spread_rule(seed: int) -> None:
    """Whoever is counted already stays, so what is sure and what is possible are the same."""
    draw = Random(seed)
    answers = []
    for _ in range(200):
        domains = draw.randint(1, 3)
        there = tuple(draw.randint(0, 2) for _ in range(domains))
        rule = Spread(
            bound=(0,),
            counted=(0,),
            domain=array("i", range(domains)),
            most=there,
            fewest=there,
            max_skew=draw.randint(1, 2),
            from_zero=draw.random() < 0.3,
        )
        seats = [draw.randint(0, 3) for _ in range(domains)]
        members = draw.randint(1, 6)
        answers.append(can(rule, seats, members))
        found = enough(rule, dict(enumerate(seats)), members)
        assert found == answers[-1], (rule, seats, members)
        open_ones = {domain: count for domain, count in enumerate(seats) if count}
        assert enough(rule, open_ones, members) == found, "none elsewhere"
    assert 20 < sum(answers) < 180


NOT_BESIDE = LabelSelector((Requirement("app", "In", ("loud",)),))
ALONE = PodShape(
    anti_affinity=(PodAffinityTerm("kubernetes.io/hostname", NOT_BESIDE, ("default",)),)
)


def asked(
    state: Snapshot,
    holds: tuple[Hold, ...] = (),
    masks: Masks | None = None,
    offered: Masks | None = None,
) -> Plan | Refusal:
    resolver = Resolver(Settings().groups)
    gang = resolver.resolve(gang_key("high"), state)
    question = GangQuestion(gang, state, holds, masks, offered)
    return Planner(Settings(), resolver).plan(question)


def quiet() -> Pod:
    """A member that no loud pod may stand beside."""
    return pod("high-0", cpu=1, priority=HIGH, group="high", shape=ALONE)


def loud(at: str) -> tuple[Pod, Hold]:
    """A waiting pod and its seat on a node."""
    waits = pod(f"loud-{at}", cpu=1, priority=HIGH, group="others", labels={"app": "loud"})
    return waits, Hold(gang_key("others"), HIGH, waits.uid, at, (("cpu", 1000),), firm=True)


LEADS = "leads"
WITH_THE_LEADER = PodShape(
    affinity=(
        PodAffinityTerm(
            "kubernetes.io/hostname",
            LabelSelector((Requirement("app", "In", (LEADS,)),)),
            ("default",),
        ),
    )
)
"""Affinity to a member of another kind: the problem does not say it, seats are tried for it."""
LEADERS = PodShape(node_selector=(("role", LEADS),))


def led(cpu: float = 1) -> list[Pod]:
    """A leader of 1 CPU, which has one node only, and a worker that has to be on the same."""
    leader = pod("leader", cpu=1, priority=HIGH, group="high", labels={"app": LEADS}, shape=LEADERS)
    return [leader, pod("worker", cpu=cpu, priority=HIGH, group="high", shape=WITH_THE_LEADER)]


def struck_leading(cpu: int = 4) -> Node:
    made = node("z", cpu=cpu)
    return replace(made, labels={**made.labels, "role": LEADS})


@pytest.mark.parametrize("cpu", [0.5, 2])
def test_after_a_strike_nothing_is_called_proved(cpu: float) -> None:
    """It is struck out for the class that failed, whichever of the two comes first."""
    low = pod("low", cpu=3, priority=1, on="z")
    state = snapshot([node("n0"), struck_leading()], [low, *led(cpu)], [group("high", 2)])
    plan = asked(state)
    assert evicted(plan) == {"low"}
    assert seats(plan) == {"leader": "z", "worker": "z"}
    assert isinstance(plan, Plan)
    assert [cost.bound for cost in plan.costs] == [0] * len(plan.costs)
    assert plan.proof == "bounded"
    state = snapshot([node("n0"), struck_leading(1)], led(cpu), [group("high", 2)])
    answer = asked(state)
    assert isinstance(answer, Refusal)
    assert answer.message.startswith("no solution was found: ")


def test_after_so_many_strikes_the_seats_that_failed_are_told() -> None:
    nodes = [node(f"n{i:02}") for i in range(MAX_STRIKES + 4)]
    answer = asked(snapshot([*nodes, struck_leading(1)], led(), [group("high", 2)]))
    assert isinstance(answer, Refusal)
    assert f"was found in {MAX_STRIKES + 1} tries" in answer.message
    assert len(answer.details) == 1
    assert answer.details[0].startswith("worker on n")
    enough = snapshot([*nodes[:MAX_STRIKES], struck_leading(1)], led(), [group("high", 2)])
    answer = asked(enough)
    assert isinstance(answer, Refusal)
    assert "tries" not in answer.message, "every node was struck out, so that is known"


def test_a_seat_that_is_held_is_counted_by_a_spread_rule() -> None:
    """Else the free node beside it looks good, is struck out, and nothing is proved."""
    nodes = [node(name, labels={"zone": name[0]}) for name in ("a0", "a1", "b0")]
    spread = PodShape(spread=(SpreadConstraint("zone", 1, NOT_BESIDE),))
    shown = {"app": "loud"}
    member = pod("high-0", priority=HIGH, group="high", labels=shown, shape=spread)
    waits = pod("theirs", priority=HIGH, group="others", labels=shown)
    low = pod("low", priority=1, on="b0")
    held = Hold(gang_key("others"), HIGH, waits.uid, "a0", (("cpu", 3000),), firm=True)
    state = snapshot(nodes, [waits, low, member], [group("high", 1)])
    plan = asked(state, (held,))
    assert seats(plan) == {"high-0": "b0"}
    assert isinstance(plan, Plan)
    assert plan.proof == "optimal"
    gone = snapshot(nodes, [low, member], [group("high", 1)])
    assert seats(asked(gone, (held,))) == {"high-0": "a1"}, "nobody waits for that seat"
    nowhere = replace(held, node="c0")
    assert seats(asked(state, (nowhere,))) == {"high-0": "a0"}, "its node is gone"
    unlabelled = snapshot(nodes, [replace(waits, labels={}), low, member], [group("high", 1)])
    assert seats(asked(unlabelled, (held,))) == {"high-0": "a1"}, "the rule does not count it"


def test_a_seat_that_a_spread_rule_counts_is_taken_over_though_its_room_is_of_no_use() -> None:
    """Its node is cordoned: "cannot fit" was told, as proved, though the seat may be taken over."""
    cordoned = replace(node("a0", labels={"zone": "a"}), unschedulable=True)
    nodes = [cordoned, *(node(name, labels={"zone": name[0]}) for name in ("a1", "b0"))]
    spread = PodShape(spread=(SpreadConstraint("zone", 1, NOT_BESIDE),))
    shown = {"app": "loud"}
    member = pod("high-0", priority=HIGH, group="high", labels=shown, shape=spread)
    waits = pod("theirs", priority=1, group="low", labels=shown)
    stays = pod("stays", priority=HIGH, on="b0")
    state = snapshot(nodes, [waits, stays, member], [group("high", 1), group("low", 1)])
    held = Hold(gang_key("low"), 1, waits.uid, "a0", (("cpu", 3000),))
    plan = asked(state, (held,))
    assert seats(plan) == {"high-0": "a1"}
    assert isinstance(plan, Plan)
    assert plan.takes_over == (gang_key("low"),)
    assert plan.proof == "optimal"
    assert isinstance(asked(state, (replace(held, firm=True),)), Refusal)


def test_what_is_masked_and_what_is_not_offered_add_up() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    member = pod("high-0", priority=HIGH, group="high")
    state = snapshot(nodes, [member], [group("high", 1)])
    uid = member.uid
    masks, offered = {uid: frozenset({"n0"})}, {uid: frozenset({"n0", "n2"})}
    assert seats(asked(state)) == {"high-0": "n0"}
    assert seats(asked(state, masks=masks)) == {"high-0": "n1"}
    assert seats(asked(state, masks=masks, offered=offered)) == {"high-0": "n2"}


def test_a_less_urgent_gang_whose_seats_are_taken_over_is_named() -> None:
    waits = pod("low-0", priority=1, group="low")
    member = pod("high-0", priority=HIGH, group="high")
    state = snapshot([node("n0")], [waits, member], [group("low", 1), group("high", 1)])
    held = Hold(gang_key("low"), 1, waits.uid, "n0", (("cpu", 3000),))
    plan = asked(state, (held,))
    assert isinstance(plan, Plan)
    assert plan.takes_over == (gang_key("low"),)
    assert plan.victims == ()
    firm = asked(state, (replace(held, firm=True),))
    assert isinstance(firm, Refusal)


def test_a_pod_in_the_way_goes_though_its_room_is_not_needed() -> None:
    """It asks for nothing that is short: only the member's rule is against it."""
    old = pod("old", cpu=0, priority=1, on="n0", labels={"app": "loud"})
    state = snapshot([node("n0")], [old, quiet()], [group("high", 1)])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"old"}
    assert seats(plan) == {"high-0": "n0"}


def test_of_a_gang_that_goes_one_by_one_only_the_pod_in_the_way_goes() -> None:
    old = pod("old-0", cpu=0, priority=1, on="n0", labels={"app": "loud"}, group="old")
    other = pod("old-1", cpu=0, priority=1, on="n1", group="old")
    groups = [group("old", 2, whole=False), group("high", 1)]
    state = snapshot([node("n0"), node("n1", cpu=0)], [old, other, quiet()], groups)
    assert evicted(plan_for(state, "high")) == {"old-0"}


@pytest.mark.parametrize("number", [0, 1])
def test_a_held_seat_closes_its_node_for_the_class_that_it_keeps_away(number: int) -> None:
    beside, held = loud("n0")
    asks = replace(quiet(), uid=f"uid-high-{number}", name=f"high-{number}")
    plain = pod(f"high-{1 - number}", cpu=1, priority=HIGH, group="high", labels={"app": "plain"})
    state = snapshot([node("n0"), node("n1")], [beside, asks, plain], [group("high", 2)])
    assert seats(asked(state, (held,)))[asks.name] == "n1"


def test_members_that_run_have_chosen_the_domain_that_is_required() -> None:
    nodes = [node(f"n{i}", labels={"zone": "ab"[i % 2]}) for i in range(4)]
    there = pod("high-0", priority=HIGH, group="high", on="n1")
    waits = pod("high-1", priority=HIGH, group="high")
    groups = [group("high", 2, topology_key="zone")]
    assert seats(plan_for(snapshot(nodes, [there, waits], groups), "high")) == {"high-1": "n3"}


def test_a_gang_that_is_not_complete_is_told_of_members_that_nobody_asks_for() -> None:
    state = snapshot([node("n0")], [pod("high-0", group="high")], [group("high", 2)])
    resolver = Resolver(Settings().groups)
    note = f"1 member waits for another, {NO_ASKER}"
    gang = replace(resolver.resolve(gang_key("high"), state), notes=("something else", note))
    answer = Planner(Settings(), resolver).plan(GangQuestion(gang, state))
    assert isinstance(answer, Refusal)
    assert answer.message == (
        f"waits for members: 1 of 2 exist whose scheduler asks, nothing is evicted; {note}"
    )


APP = LabelSelector((Requirement("app", "In", ("db",)),))


def budget(allowed: int) -> DisruptionBudget:
    return DisruptionBudget("b", "default", "db", APP, allowed)


def urgent(count: int) -> list[Pod]:
    return [pod(f"high-{i}", priority=100, group="high") for i in range(count)]


def test_nobody_above_the_least_sufficient_priority_goes() -> None:
    low = [pod(f"low-{i}", priority=1, on=f"n{i}") for i in range(2)]
    middle = [pod(f"middle-{i}", priority=2, on=f"n{2 + i}") for i in range(2)]
    state = snapshot(
        [node(f"n{i}") for i in range(4)], [*low, *middle, *urgent(2)], [group("high", 2)]
    )
    plan = plan_for(state, "high")
    assert evicted(plan) == {"low-0", "low-1"}
    assert isinstance(plan, Plan)
    assert "only pods of priority 1 or lower are needed" in plan.explanation


def test_a_budget_below_opens_the_way_to_the_priority_above() -> None:
    """The low pod alone would do, but its budget allows nothing."""
    low = pod("low", priority=1, on="n0", labels={"app": "db"})
    middle = pod("middle", priority=2, on="n1")
    nodes = [node("n0"), node("n1")]
    pods = [low, middle, *urgent(1)]
    for policy in ("respect", "prefer"):
        settings = Settings(plan=PlanSettings(pdb_policy=policy))
        state = snapshot(nodes, pods, [group("high", 1)], budgets=[budget(0)])
        assert evicted(plan_for(state, "high", settings)) == {"middle"}
        state = snapshot(nodes, pods, [group("high", 1)], budgets=[budget(1)])
        assert evicted(plan_for(state, "high", settings)) == {"low"}


def test_a_pod_that_holds_only_what_there_is_enough_of_is_not_considered() -> None:
    big = pod("big", cpu=3, priority=1, on="n0")
    other = Pod(
        uid="uid-other",
        namespace="default",
        name="other",
        node="n0",
        phase="Running",
        requests=(("memory", 1), ("pods", 1)),
    )
    state = snapshot([node("n0")], [big, other, *urgent(1)], [group("high", 1)])
    plan = plan_for(state, "high")
    assert evicted(plan) == {"big"}
    assert isinstance(plan, Plan)
    assert any(
        line.startswith("possible victims: 0 whole gangs and 1 pod ") for line in plan.explanation
    )


def test_members_beyond_the_quorum_are_seated_where_room_is_free() -> None:
    low = pod("low", priority=1, on="n0")
    state = snapshot([node(f"n{i}") for i in range(3)], [low, *urgent(3)], [group("high", 2)])
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    assert plan.victims == ()
    assert len(plan.seats) == 2
    state = snapshot([node(f"n{i}") for i in range(4)], [low, *urgent(3)], [group("high", 2)])
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    assert plan.victims == ()
    assert len(plan.seats) == 3


def test_a_member_that_terminates_makes_room_for_the_one_that_replaces_it() -> None:
    """Waiting for it costs nobody anything; evicting another pod would."""
    old = pod("high-0", priority=100, group="high", on="n0", deleting=NOW + 5)
    low = pod("low", priority=1, on="n1")
    new = [pod(f"high-{i}", priority=100, group="high") for i in (1, 2)]
    state = snapshot([node("n0"), node("n1")], [old, low, *new[:1]], [group("high", 1)])
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    assert evicted(plan) == set()
    assert [victim.name for victim in plan.waits_for] == ["high-0"]
    both = snapshot([node("n0"), node("n1")], [old, low, *new], [group("high", 2)])
    plan = plan_for(both, "high")
    assert isinstance(plan, Plan)
    assert evicted(plan) == {"low"}
    assert [victim.name for victim in plan.waits_for] == ["high-0"]
