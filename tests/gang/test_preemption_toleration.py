"""PriorityClasses that tolerate preemptors (scheduler-plugins' PreemptionToleration)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from extender.decode.from_json import decode_priority_class
from extender.decode.preemption_toleration import FROM, SECONDS, toleration_of
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import Pod, PriorityClass
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

HIGH = 9000
NODES = [node(f"n{i}") for i in range(4)]


def tolerant(seconds: int = -1, least: int = 10000, value: int = 8000) -> PriorityClass:
    return PriorityClass("steady", value, preemptable_from=least, tolerates_seconds=seconds)


def of_class(found: Pod) -> Pod:
    return replace(found, priority=8000, priority_class="steady")


def state(
    pods: list[Pod], *classes: PriorityClass, priority: int = HIGH, size: int = 2, **extra: Any
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
        state([*train, *singles], tolerant(least=HIGH), size=4, generation=6),
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
