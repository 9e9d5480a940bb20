"""A gang whose owner soon gives up: nobody goes for it who takes longer to end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.patience import PATIENCE
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import (
    EvictionSettings,
    GroupSettings,
    PlanSettings,
    Settings,
)
from extender.settings.settings_rules import validate
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot

HIGH = 1000
NODES = [node(f"n{i}") for i in range(4)]
SKY = {"skypilot-cluster-name": "urgent"}
TEN = Settings(groups=GroupSettings(patience_seconds={"skypilot": 10}))
COUNTED = Settings(
    groups=GroupSettings(patience_seconds={"skypilot": 10}),
    plan=PlanSettings(slow_victims="count"),
)


def cluster(size: int = 2, **extra: Any) -> list[Pod]:
    """The pods of a SkyPilot cluster that waits."""
    return [pod(f"urgent-{i}", priority=HIGH, labels=SKY, **extra) for i in range(size)]


def planned(state: Snapshot, settings: Settings = TEN) -> Plan | Refusal:
    resolver = Resolver(settings.groups)
    gang = resolver.resolve(GangKey("skypilot", "default", "urgent"), state)
    return Planner(settings, resolver).plan(GangQuestion(gang, state))


def low(graces: list[int], **extra: Any) -> list[Pod]:
    return [pod(f"low-{i}", on=f"n{i}", grace=grace, **extra) for i, grace in enumerate(graces)]


def test_those_who_end_in_time_go_even_where_they_cost_more() -> None:
    quick = [pod(f"quick-{i}", on=f"n{i + 2}", grace=10, priority=5) for i in range(2)]
    state = snapshot(NODES, [*cluster(), *low([30, 30]), *quick])
    assert evicted(planned(state, Settings())) == {"low-0", "low-1"}
    assert evicted(planned(state)) == {"quick-0", "quick-1"}
    # As a cost it stands behind priorities, and the cheaper priority goes.
    assert evicted(planned(state, COUNTED)) == {"low-0", "low-1"}


def test_as_a_cost_it_decides_between_equals() -> None:
    state = snapshot(NODES, [*cluster(), *low([30, 10, 30, 10])])
    assert evicted(planned(state, COUNTED)) == {"low-1", "low-3"}
    assert evicted(planned(state)) == {"low-1", "low-3"}
    # A slow pod that has computed a little less would be evicted in vain.
    pods = [
        replace(each, started=NOW - 60 if each.grace == 30 else NOW - 61)
        for each in low([30, 10, 30, 10])
    ]
    younger = snapshot(NODES, [*cluster(), *pods])
    assert evicted(planned(younger, COUNTED)) == {"low-1", "low-3"}
    # Where some must be slow they go, as a cost.
    slow = snapshot(NODES, [*cluster(), *low([30] * 4)])
    assert len(evicted(planned(slow, COUNTED))) == 2


def test_a_refusal_says_who_takes_too_long_and_what_would_help() -> None:
    state = snapshot(NODES, [*cluster(), *low([10, 30, 30, 45])])
    answer = planned(state)
    assert isinstance(answer, Refusal)
    said = "3 pods that could make room take longer to end than the 10 s that its owner waits"
    assert said in answer.message
    assert any("low-1 stays on n1: takes 30 s to end" in line for line in answer.details)
    assert any("waits 45 s or longer" in way.text for way in answer.ways)
    # What the way says is so, and less is not.
    for seconds, fine in ((45, True), (29, False)):
        settings = Settings(groups=GroupSettings(patience_seconds={"skypilot": seconds}))
        assert isinstance(planned(state, settings), Plan) == fine


def test_a_plan_says_whom_it_did_not_count_on() -> None:
    state = snapshot(NODES, [*cluster(), *low([10, 10, 30, 30])])
    plan = planned(state)
    assert isinstance(plan, Plan)
    assert any("2 pods that could make room take longer" in line for line in plan.explanation)
    assert plan.longest_grace == 10


def test_one_slow_pod_keeps_a_gang_that_goes_whole() -> None:
    members = [
        pod(f"train-{i}", on=f"n{i}", group="train", grace=30 if i == 3 else 5) for i in range(4)
    ]
    state = snapshot(NODES, [*cluster(), *members], [group("train", 4)])
    assert isinstance(planned(state), Refusal)
    assert len(evicted(planned(state, Settings()))) == 4


def test_room_of_pods_that_end_too_late_is_not_counted_on() -> None:
    def leaving(seconds: float) -> Snapshot:
        pods = low([30, 30, 30, 30], deleting=NOW + seconds)
        return snapshot(NODES, [*cluster(), *pods])

    soon, late = planned(leaving(8)), planned(leaving(20))
    assert isinstance(soon, Plan)
    assert len(soon.waits_for) == 2
    assert isinstance(late, Refusal)
    assert isinstance(planned(leaving(20), COUNTED), Plan)


def test_a_grace_period_counts_as_long_as_it_is_granted() -> None:
    settings = replace(TEN, eviction=EvictionSettings(longest_grace_seconds=10))
    state = snapshot(NODES, [*cluster(), *low([3600] * 4)])
    assert len(evicted(planned(state, settings))) == 2


def test_other_gangs_wait_as_long_as_it_takes() -> None:
    waiting = [pod(f"high-{i}", priority=HIGH, group="high") for i in range(2)]
    state = snapshot(NODES, [*waiting, *low([3600] * 4)], [group("high", 2)])
    assert len(evicted(plan_for(state, "high", TEN))) == 2


@pytest.mark.parametrize(
    ("text", "patience", "counts"),
    [("8", 8.0, True), ("20", 10.0, True), ("soon", 10.0, False), ("0", 10.0, False)],
)
def test_members_may_say_that_their_owner_waits_less(
    text: str, patience: float, *, counts: bool
) -> None:
    first, second = cluster()
    state = snapshot(NODES, [first, replace(second, annotations={PATIENCE: text})])
    gang = Resolver(TEN.groups).resolve(GangKey("skypilot", "default", "urgent"), state)
    assert gang.patience == patience
    assert not gang.problems
    assert any("it does not count" in note for note in gang.notes) != counts


def test_members_of_any_dialect_may_say_so() -> None:
    waiting = [
        pod(f"high-{i}", priority=HIGH, group="high", annotations={PATIENCE: "5"}) for i in range(2)
    ]
    state = snapshot(NODES, [*waiting, *low([30] * 4)], [group("high", 2)])
    assert isinstance(plan_for(state, "high"), Refusal)


def test_odd_values_of_the_configuration_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"groups\.patienceSeconds must be at least 1"):
        validate(Settings(groups=GroupSettings(patience_seconds={"skypilot": 0})))
    with pytest.raises(InvalidInput, match=r"groups\.patienceSeconds: 'skypliot' is no dialect"):
        Resolver(GroupSettings(patience_seconds={"skypliot": 10}))


units = st.lists(
    st.tuples(
        st.sampled_from([0, 0, 3, 7]),  # priority
        st.sampled_from([5, 30]),  # grace
        st.lists(st.integers(0, 4), min_size=1, max_size=3),  # nodes of its pods
        st.sampled_from([1, 2, 3]),  # cores
    ),
    max_size=8,
)


@settings(deadline=None)
@given(units, st.integers(1, 4), st.sampled_from([1, 2, 3]))
def test_it_is_as_if_slow_units_were_as_urgent(
    drawn: list[tuple[int, int, list[int], int]], size: int, cpu: int
) -> None:
    """Who takes too long stays exactly as one whom priority lets stay."""
    nodes = [node(f"n{i}", cpu=6) for i in range(5)]
    used = dict.fromkeys(range(5), 0)
    slow: list[Pod] = []
    firm: list[Pod] = []
    groups = []
    for at, (priority, grace, places, cores) in enumerate(drawn):
        whole = len(places) > 1
        for place in places:
            if used[place] + cores > 6:
                continue
            used[place] += cores
            each = pod(
                f"u{at}-{len(slow)}",
                on=f"n{place}",
                cpu=cores,
                priority=priority,
                grace=grace,
                group=f"u{at}" if whole else "",
            )
            slow.append(each)
            firm.append(replace(each, priority=HIGH) if grace > 10 else each)
        if whole:
            groups.append(group(f"u{at}", 1))
    members = [
        pod(f"high-{i}", cpu=cpu, priority=HIGH, group="high", annotations={PATIENCE: "10"})
        for i in range(size)
    ]
    groups.append(group("high", size))
    found = plan_for(snapshot(nodes, [*members, *slow], groups), "high")
    asked = plan_for(snapshot(nodes, [*members, *firm], groups), "high")
    assert isinstance(found, Plan) == isinstance(asked, Plan)
    if isinstance(found, Plan) and isinstance(asked, Plan):
        assert found.proof == asked.proof
        assert _costs(found) == _costs(asked)
        assert all(victim.grace <= 10 for victim in found.victims)


def _costs(plan: Plan) -> dict[str, int]:
    return {cost.level: cost.value for cost in plan.costs if cost.value}
