"""What may be left out of the search, and what may not, case by case."""

from __future__ import annotations

from extender.model.objects import DisruptionBudget, LabelSelector, Pod, Requirement
from extender.model.plan import Plan
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot

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
