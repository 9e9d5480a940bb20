"""Who is more urgent: cutoffs, toleration of preemptors, gangs that become less urgent."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.decode.from_json import decode_priority_class
from extender.decode.preemption_toleration import FROM, SECONDS, toleration_of
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.patience import PATIENCE
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey, Pod, PriorityClass
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.model.texts import rfc3339
from extender.sandbox.faults import Fault
from extender.settings.settings import EvictionSettings, GroupSettings, PlanSettings, Settings
from extender.settings.settings_rules import validate
from tests.gang.rig import FAST, HIGH, LOW, PODS, REAL_DELETE, Rig, full_cluster, half_evicted
from tests.gang.test_units_finished import until_warned
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

GROUP = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/high"


async def test_nobody_else_goes_for_a_gang_that_is_less_urgent_by_now() -> None:
    """One of its victims has gone by then, and the other's eviction is tried again and again."""
    async with Rig(FAST) as rig:
        await rig.nodes(2)
        await rig.classes(low=60, high=100)
        await half_evicted(rig)
        await rig.client.patch(GROUP, {"spec": {"priority": 50}})
        await rig.until(
            lambda: any(g.priority == 50 for g in rig.cache.snapshot().groups.values()), "priority"
        )
        rig.server.faults.clear()
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        await rig.rounds()
        assert await rig.names() == {"low-1", *HIGH}


async def test_rest_of_a_unit_that_is_as_urgent_by_now_stays_and_that_is_told() -> None:
    """The owner was told what the API server had said before, and that it would be tried again."""
    async with Rig(FAST) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        rig.server.faults.plan(
            Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
        )
        await rig.preempt("high-0", n0=["low-0"])
        await until_warned(rig, "low-1", "GangBroken")
        await rig.client.patch(GROUP.replace("high", "low"), {"spec": {"priority": 100}})
        await rig.until(
            lambda: "its priority 100 is not below 100" in rig.messages("high"), "it is told"
        )
        (unit,) = rig.coordinator.plans.victims.broken()
        assert unit.error == "default/low-1: its priority 100 is not below 100"
        rig.server.faults.clear()
        await rig.rounds()
        assert "low-1" in await rig.names()


TOLERATION_HIGH = 9000
NODES = [node(f"n{i}") for i in range(4)]


def tolerant(seconds: int = -1, least: int = 10000, value: int = 8000) -> PriorityClass:
    return PriorityClass("steady", value, preemptable_from=least, tolerates_seconds=seconds)


def of_class(found: Pod) -> Pod:
    return replace(found, priority=8000, priority_class="steady")


def state(
    pods: list[Pod],
    *classes: PriorityClass,
    priority: int = TOLERATION_HIGH,
    size: int = 2,
    **extra: Any,
) -> Snapshot:
    waiting = [pod(f"high-{i}", priority=priority, group="high") for i in range(size)]
    groups = [group("high", size), group("train", 2)]
    found = snapshot(NODES, [*waiting, *pods], groups, **extra)
    return replace(found, priority_classes={each.name: each for each in classes})


def steady(**extra: Any) -> list[Pod]:
    return [of_class(pod(f"steady-{i}", on=f"n{i}", **extra)) for i in range(2)]


def others() -> list[Pod]:
    return [pod(f"other-{i}", on=f"n{i + 2}", priority=8500) for i in range(2)]


def test_pods_of_a_class_that_tolerates_stay_and_dearer_ones_go() -> None:
    assert evicted(plan_for(state([*steady(), *others()]), "high")) == {"steady-0", "steady-1"}
    found = plan_for(state([*steady(), *others()], tolerant()), "high")
    assert evicted(found) == {"other-0", "other-1"}


def test_whoever_is_as_urgent_as_it_says_preempts() -> None:
    """For whom they count as pods of 9999: others below that go before them."""
    assert isinstance(plan_for(state(steady(), tolerant(), priority=9999, size=4), "high"), Refusal)
    found = plan_for(state(steady(), tolerant(), priority=10000, size=4), "high")
    assert evicted(found) == {"steady-0", "steady-1"}
    both = state([*steady(), *others()], tolerant(), priority=10000)
    assert evicted(plan_for(both, "high")) == {"other-0", "other-1"}


def test_a_refusal_says_so() -> None:
    answer = plan_for(state(steady(), tolerant(), size=4), "high")
    assert isinstance(answer, Refusal)
    said = "stays on n0: its PriorityClass steady tolerates preemptors below 10000"
    assert any(said in line for line in answer.details)


@pytest.mark.parametrize(("seconds", "goes"), [(100, True), (101, False), (-1, False)])
def test_for_so_long_after_the_start(seconds: int, *, goes: bool) -> None:
    found = plan_for(state(steady(started=NOW - 100), tolerant(seconds), size=4), "high")
    assert isinstance(found, Plan) == goes
    if not goes and seconds > 0:
        assert isinstance(found, Refusal)
        assert found.until == NOW + 1


def test_a_pod_that_never_starts_is_not_spared_for_ever() -> None:
    """The pods were created 200 s ago."""
    for seconds, goes in ((201, False), (200, True)):
        found = plan_for(state(steady(started=0.0), tolerant(seconds), size=4), "high")
        assert isinstance(found, Plan) == goes


def test_a_gang_is_as_old_as_its_oldest_pod() -> None:
    train = [
        of_class(pod(f"train-{i}", on=f"n{i}", group="train", started=NOW - 100 * (i + 1)))
        for i in range(2)
    ]
    assert len(evicted(plan_for(state(train, tolerant(200), size=4), "high"))) == 2
    assert isinstance(plan_for(state(train, tolerant(201), size=4), "high"), Refusal)


def test_what_is_kept_between_snapshots_follows_the_class_and_the_clock() -> None:
    """One planner through changes of class and clock answers as a new one each time."""
    settings = Settings()
    resolver = Resolver(settings.groups)
    kept = Planner(settings, resolver)
    train = [of_class(pod(f"train-{i}", on=f"n{i}", group="train")) for i in range(2)]
    singles = [of_class(pod(f"one-{i}", on=f"n{i + 2}")) for i in range(2)]
    tried = [
        state([*train, *singles], size=4, generation=1),
        state([*train, *singles], tolerant(), size=4, generation=2),
        state([*train, *singles], tolerant(150), size=4, generation=3),
        state([*train, *singles], tolerant(150), size=4, generation=4, now=NOW + 60),
        state([*train, *singles], tolerant(150), size=4, generation=5, now=NOW),
        state([*train, *singles], tolerant(least=TOLERATION_HIGH), size=4, generation=6),
    ]
    seen = []
    for each in tried:
        gang = resolver.resolve(gang_key("high"), each)
        answer = kept.plan(GangQuestion(gang, each))
        assert answer == Planner(settings, resolver).plan(GangQuestion(gang, each))
        seen.append(isinstance(answer, Plan))
    assert seen == [True, False, False, True, False, True]


@pytest.mark.parametrize(
    ("annotations", "found"),
    [
        ({}, (None, 0)),
        ({FROM: "10000"}, (None, 0)),  # tolerates for no time
        ({FROM: "10000", SECONDS: "3600"}, (10000, 3600)),
        ({FROM: "10000", SECONDS: "-1"}, (10000, -1)),
        ({SECONDS: "3600"}, (None, 0)),  # below its value + 1 nobody preempts anyway
        ({FROM: "8001", SECONDS: "60"}, (None, 0)),
        ({FROM: "a", SECONDS: "60"}, (None, 0)),
        ({FROM: "10000", SECONDS: "a"}, (None, 0)),
        ({FROM: "1" * 5000, SECONDS: "60"}, (None, 0)),
    ],
)
def test_annotations_are_read_as_the_plugin_does(
    annotations: dict[str, str], found: tuple[int | None, int]
) -> None:
    assert toleration_of(8000, annotations) == found
    metadata = {"name": "steady", "annotations": annotations}
    record = decode_priority_class({"value": 8000, "metadata": metadata})
    assert (record.preemptable_from, record.tolerates_seconds) == found


async def test_a_gang_is_planned_when_pods_have_run_for_their_least_time() -> None:
    """The cluster does not change then: the refusal stood until something else did."""
    plan = replace(FAST.plan, min_runtime_seconds=8.0, retry_seconds=0.1)
    async with Rig(replace(FAST, plan=plan)) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        started = {"phase": "Running", "startTime": rfc3339(time.time())}
        for name in LOW:
            await rig.client.patch(f"{PODS}/{name}/status", {"status": started})
        await rig.until(lambda: all(rig.cached(name).started for name in LOW), "both have started")
        await rig.gang("high", 2, "high")
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        for name in HIGH:
            await rig.client.patch(f"{PODS}/{name}/status", {"status": {"conditions": [tried]}})
        await rig.until(lambda: "infeasible" in rig.outcomes("high"), "it is refused at first")
        await rig.until(lambda: "plan" in rig.outcomes("high"), "they may go")


PATIENCE_HIGH = 1000
SKY = {"skypilot-cluster-name": "urgent"}
TEN = Settings(groups=GroupSettings(patience_seconds={"skypilot": 10}))
COUNTED = Settings(
    groups=GroupSettings(patience_seconds={"skypilot": 10}),
    plan=PlanSettings(slow_victims="count"),
)


def cluster(size: int = 2, **extra: Any) -> list[Pod]:
    """The pods of a SkyPilot cluster that waits."""
    return [pod(f"urgent-{i}", priority=PATIENCE_HIGH, labels=SKY, **extra) for i in range(size)]


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
    waiting = [pod(f"high-{i}", priority=PATIENCE_HIGH, group="high") for i in range(2)]
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
        pod(f"high-{i}", priority=PATIENCE_HIGH, group="high", annotations={PATIENCE: "5"})
        for i in range(2)
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
            firm.append(replace(each, priority=PATIENCE_HIGH) if grace > 10 else each)
        if whole:
            groups.append(group(f"u{at}", 1))
    members = [
        pod(
            f"high-{i}", cpu=cpu, priority=PATIENCE_HIGH, group="high", annotations={PATIENCE: "10"}
        )
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
