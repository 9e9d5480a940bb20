"""What the planner asks for at each of its steps, and what it says of what it found."""

from __future__ import annotations

import time
from array import array

import pytest
from msgspec.structs import replace

from extender.fit.view import ClusterView
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.plan import answers, build, planner
from extender.gang.plan.build import Build
from extender.gang.plan.cost_levels import CostLevels
from extender.gang.plan.planner import MAX_STRIKES
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.sure_seats import inside_of_all
from extender.gang.plan.topology_domains import preferred_keys
from extender.groups.resolver import Resolver
from extender.model.objects import LabelSelector, Pod, PodShape, Requirement, SpreadConstraint
from extender.model.plan import Plan
from extender.search.problem.stop import OutOfTime, Stop
from extender.search.problem.types import Infeasible, Problem, Solution
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
