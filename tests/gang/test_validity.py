"""What makes a plan's victim one that must not go any more."""

from __future__ import annotations

from msgspec.structs import replace

from extender.gang.incremental.protection import Protections
from extender.gang.plan.validity import member_problem, unit_problem, victim_problem
from extender.groups.resolver import Resolver
from extender.model.plan import Plan
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot


def cluster(low_1_in: str) -> Snapshot:
    """Gangs low and other, each whole; which of them low-1 belongs to can be changed."""
    return snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            pod("low-0", on="n0", group="low"),
            pod("low-1", on="n1", group=low_1_in),
            pod("other-0", on="n2", group="other", priority=10),
            pod("other-1", on="n3", group="other", priority=10),
            pod("high-0", group="high", priority=100),
            pod("high-1", group="high", priority=100),
        ],
        [
            group("low", 2, priority=0),
            group("other", 2, priority=10),
            group("high", 2, priority=100),
        ],
    )


def test_a_victim_that_has_become_part_of_another_whole_gang_is_no_victim() -> None:
    """Labels can be changed: taken alone it would break the gang it is in now."""
    plan = plan_for(cluster("low"), "high")
    assert evicted(plan) == {"low-0", "low-1"}
    assert isinstance(plan, Plan)
    settings = Settings()
    resolver = Resolver(settings.groups)
    for state, why in ((cluster("low"), ""), (cluster("other"), "is now evicted as a whole")):
        found = unit_problem(plan.victims, plan.priority, state, resolver, Protections(settings))
        assert found.endswith(why)
        assert bool(found) == bool(why)


def test_who_comes_while_members_are_seated_is_no_part_of_a_gang_without_a_stated_size() -> None:
    state = cluster("low")
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    gang = Resolver(Settings().groups).resolve(gang_key("high"), state)
    unsized = replace(gang, size_known=False)
    first = {seat.uid: seat.node for seat in plan.seats[:1]}
    assert "now lacks 2 members" in member_problem(plan, unsized, first)
    assert member_problem(plan, unsized, first, binding=True) == ""
    assert "now lacks 2 members" in member_problem(plan, gang, first, binding=True)


def test_a_clock_that_is_set_back_spares_nobody_of_a_unit_that_has_begun_to_go() -> None:
    state = cluster("low")
    plan = plan_for(state, "high")
    assert isinstance(plan, Plan)
    settings = Settings(plan=PlanSettings(min_runtime_seconds=60))
    bound = {
        name: tuple(replace(each, started=NOW - 100) for each in pods)
        for name, pods in state.bound.items()
    }
    back = replace(state, now=NOW - 3600, bound=bound)

    def why(*, alone: bool) -> str:
        victim, resolver = plan.victims[0], Resolver(settings.groups)
        return victim_problem(
            victim, plan.priority, back, resolver, Protections(settings), alone=alone
        )

    assert "runs for -3500 s, less than minRuntimeSeconds" in why(alone=False)
    assert why(alone=True) == ""
