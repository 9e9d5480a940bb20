"""A step that fails for one gang or pod ends for that one; the others are planned.

See docs/security.md, row 4. What a tenant wrote may find a defect of ours in any of these steps:
here each is made to fail for one gang, pod or unit.
"""

from __future__ import annotations

from typing import Any

import pytest

from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import DisruptionBudget, GangKey, LabelSelector, Pod
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.gang.limited import tried
from tests.gang.rig import FAST, Rig
from tests.gang.world import evicted, gang_key, group, node, pod, snapshot

BAD = "bad"


def concerns(value: object) -> bool:
    """Whether a step's argument is about the gang or pod at fault."""
    if isinstance(value, Pod):
        return value.name.startswith(BAD)
    if isinstance(value, GangKey):
        return value.name == BAD
    if isinstance(value, tuple | list):
        return any(map(concerns, value))
    inner = [getattr(value, name, None) for name in ("key", "pods", "gang")]
    return any(isinstance(each, GangKey | tuple) and concerns(each) for each in inner)


def fail(monkeypatch: pytest.MonkeyPatch, target: str) -> list[str]:
    """Make a step fail where it concerns the one at fault; return where it did so far."""
    failed: list[str] = []
    path, _, name = target.rpartition(".")
    owner = _imported(path)
    step = getattr(owner, name)

    def failing(*given: Any, **named: Any) -> Any:
        if any(map(concerns, (*given, *named.values()))):
            failed.append(target)
            raise TypeError("a defect")
        return step(*given, **named)

    monkeypatch.setattr(owner, name, failing)
    return failed


def _imported(path: str) -> Any:
    module, _, last = path.rpartition(".")
    if last[:1].isupper():
        return getattr(__import__(module, fromlist=[last]), last)
    return __import__(path, fromlist=["_"])


RESOLVING = [
    "extender.groups.resolver.Resolver._priorities",
    "extender.groups.resolver.topology_of",
    "extender.groups.resolver.Resolver._membership_problems",
    "extender.groups.pod_group.PodGroupDialect.declare",
]
JUDGING = [
    "extender.gang.incremental.preemptability.Preemptability._judge",
    "extender.gang.incremental.preemptability.Preemptability._shields",
    "extender.gang.incremental.preemptability.oldest_start",
    "extender.gang.incremental.protection.Protections.shields",
    "extender.gang.incremental.victim_costs.VictimCosts.of",
    "extender.gang.plan.budgets.budget_use",
]
TELLING = [
    "extender.gang.plan.victim_reasons.asked_to_stay",
]


def cluster() -> Snapshot:
    """The gang at fault runs on n0 and n1, somebody else on n2 and n3; all are less urgent."""
    budget = DisruptionBudget("uid-b", "default", "b", LabelSelector(()), 9)
    return snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            *(pod(f"{BAD}-{i}", on=f"n{i}", group=BAD) for i in range(2)),
            *(pod(f"low-{i}", on=f"n{i + 2}", group="low") for i in range(2)),
            *(pod(f"high-{i}", group="high", priority=10) for i in range(2)),
        ],
        [group(BAD, 2), group("low", 2), group("high", 2)],
        budgets=[budget],
    )


def plan(state: Snapshot, planner: Planner, resolver: Resolver, name: str) -> Plan | Refusal:
    return planner.plan(GangQuestion(resolver.resolve(gang_key(name), state), state))


@pytest.mark.parametrize("step", [*RESOLVING, *JUDGING])
def test_others_are_planned_although_a_step_fails_for_one(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = fail(monkeypatch, step)
    state, resolver = cluster(), Resolver(Settings().groups)
    planner = Planner(Settings(), resolver)
    answer = plan(state, planner, resolver, "high")
    assert failed
    if step in JUDGING:  # nobody goes of whom it is not known whether they may
        assert evicted(answer) == {"low-0", "low-1"}
        told = [each.name for each, _ in planner.take_aside()]
        assert set(told) == {f"{BAD}-0", f"{BAD}-1"}
        assert len(told) == 2, "each once"
        assert planner.take_aside() == []
    assert isinstance(answer, Plan)


@pytest.mark.parametrize("step", TELLING)
def test_a_plan_whose_reasons_cannot_be_told_is_a_plan(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, resolver = cluster(), Resolver(Settings().groups)
    state = snapshot(
        [node("n0"), node("n1")],
        [
            *(pod(f"{BAD}-{i}", on=f"n{i}", group=BAD) for i in range(2)),
            *(pod(f"high-{i}", group="high", priority=10) for i in range(2)),
        ],
        [group(BAD, 2), group("high", 2)],
    )
    failed = fail(monkeypatch, step)
    answer = plan(state, Planner(Settings(), resolver), resolver, "high")
    assert failed
    assert evicted(answer) == {f"{BAD}-0", f"{BAD}-1"}


def test_a_pod_that_stays_for_a_defect_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, JUDGING[0])
    state, resolver = cluster(), Resolver(Settings().groups)
    both = snapshot(
        [node(f"n{i}") for i in range(4)],
        [
            *(each for pods in state.bound.values() for each in pods),
            *(pod(f"high-{i}", group="high", priority=10) for i in range(4)),
        ],
        [group(BAD, 2), group("low", 2), group("high", 4)],
    )
    answer = plan(both, Planner(Settings(), resolver), resolver, "high")
    assert isinstance(answer, Refusal)
    assert any("TypeError" in line and BAD in line for line in answer.details), answer


@pytest.mark.parametrize("step", RESOLVING)
def test_a_gang_that_cannot_be_resolved_has_a_problem(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail(monkeypatch, step)
    state, resolver = cluster(), Resolver(Settings().groups)
    gang = resolver.resolve(gang_key(BAD), state)
    assert len(gang.members) == 2
    assert gang.problems == ("what it states cannot be understood (TypeError); please report this",)
    assert resolver.resolve(gang_key("low"), state).problems == ()


def test_a_dialect_that_fails_on_a_pod_does_not_name_its_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fail(monkeypatch, "extender.groups.pod_group.PodGroupDialect.key")
    resolver = Resolver(Settings().groups)
    labels = {"scheduling.x-k8s.io/pod-group": "other"}
    assert resolver.member_key(pod(f"{BAD}-0", group=BAD)) is None
    found = resolver.member_key(pod(f"{BAD}-0", group=BAD, labels=labels))
    assert found is not None
    assert found.name == "other"
    assert resolver.member_key(pod("fine", group="fine")) == gang_key("fine")


def test_a_planner_that_failed_knows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was half brought up to a snapshot must not answer for it."""
    state, resolver = cluster(), Resolver(Settings().groups)
    planner = Planner(Settings(), resolver)
    planner.see(state)
    more = snapshot(
        [node(f"n{i}") for i in range(4)],
        [pod("keeps", on="n2", priority=20), pod("high-0", group="high", priority=10)],
        [group("high", 1)],
        generation=2,
    )
    with monkeypatch.context() as patched:
        patched.setattr(
            "extender.gang.incremental.planning_cache.PlanningCache._put",
            lambda *given: 1 / 0,
        )
        with pytest.raises(ZeroDivisionError):
            planner.see(more)
    answer = plan(more, planner, resolver, "high")
    assert isinstance(answer, Plan)
    assert answer.victims == ()
    assert answer.seats[0].node != "n2"


IN_THE_LOOP = [
    "extender.gang.core.last_check.KeptGangs.resolve",
    "extender.gang.fairness.admission.Admission.turn_of",
    "extender.gang.controller.waiting.Waiting.kept",
    "extender.gang.controller.scheduling_cycle.SchedulingCycle.plan",
]


@pytest.mark.parametrize("step", IN_THE_LOOP)
async def test_the_loop_goes_on_with_the_others(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round was ended, and so was the next one: nobody behind the gang at fault had a turn."""
    async with Rig(FAST) as rig:
        await rig.nodes(4)
        await rig.classes(high=10, higher=20)
        failed = fail(monkeypatch, step)
        await rig.gang(BAD, 2, "higher")
        await rig.gang("fine", 2, "high")
        for name in (BAD, "fine"):
            for i in range(2):
                await tried(rig, f"{name}-{i}")
        await rig.until(lambda: rig.outcomes("fine")[:1] == ["plan"], "the other one is planned")
        assert failed
        assert "plan" not in rig.outcomes(BAD)
