"""Pods that terminate, but not soon: neither room that comes nor pods that nobody may evict.

See docs/security.md, row 5.
"""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace

from extender.gang.controller.requests import Evictor
from extender.gang.incremental.protection import Protections
from extender.gang.plan.validity import unit_problem
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.resolver import Resolver
from extender.model.objects import Pod
from extender.model.plan import Plan, Refusal, Victim
from extender.model.texts import rfc3339
from extender.settings.policy import SYSTEM_CRITICAL
from extender.settings.settings import EvictionSettings, Settings
from tests.gang.rig import FAST, PODS, Rig, held_back, let_go
from tests.gang.world import NOW, evicted, group, node, plan_for, pod, snapshot

YEARS = 10 * 365 * 24 * 3600


def given_years(low: Pod) -> Pod:
    """Deleted by its owner with ten years to end."""
    return replace(low, deleting=NOW + YEARS)


@pytest.mark.parametrize("priority", [9, SYSTEM_CRITICAL])
def test_a_terminating_pod_with_ten_years_left_is_a_victim_as_any_other(priority: int) -> None:
    state = snapshot(
        [node("n0")],
        [given_years(pod("low", on="n0")), pod("high", group="high", priority=priority)],
        [group("high", 1, priority=priority)],
    )
    answer = plan_for(state, "high")
    assert isinstance(answer, Plan)
    assert [(victim.name, victim.grace) for victim in answer.victims] == [("low", 30)]
    assert not answer.waits_for
    equal = given_years(pod("low", on="n0", priority=priority))
    answer = plan_for(
        snapshot(
            [node("n0")],
            [equal, pod("high", group="high", priority=priority)],
            [group("high", 1, priority=priority)],
        ),
        "high",
    )
    assert isinstance(answer, Refusal)


def test_a_terminating_pod_is_let_end_where_an_eviction_would_not_be_quicker() -> None:
    high, gang = pod("high", group="high", priority=9), group("high", 1, priority=9)
    for left, least in ((50, True), (200, False), (3600, False)):
        low = replace(pod("low", on="n0", grace=3600), deleting=NOW + left)
        answer = plan_for(snapshot([node("n0")], [low, high], [gang]), "high")
        assert evicted(answer) == set() if least else isinstance(answer, Refusal), left
    stuck = replace(pod("low", on="n0"), deleting=NOW - 200)
    assert isinstance(plan_for(snapshot([node("n0")], [stuck, high], [gang]), "high"), Refusal)


def test_a_terminating_member_with_ten_years_left_spares_nobody_of_its_gang() -> None:
    """It goes by itself, and the rest of the gang as what it is now."""
    low = [pod(f"low-{i}", on=f"n{i}", group="low") for i in range(3)]
    low[0] = given_years(low[0])
    high = [pod(f"high-{i}", group="high", priority=9) for i in range(3)]
    groups = [group("high", 3, priority=9), group("low", 2)]
    state = snapshot([node(f"n{i}") for i in range(3)], [*low, *high], groups)
    answer = plan_for(state, "high")
    assert isinstance(answer, Plan)
    assert evicted(answer) == {"low-0", "low-1", "low-2"}
    assert {victim.name: bool(victim.unit) for victim in answer.victims} == {
        "low-0": False,
        "low-1": True,
        "low-2": True,
    }
    resolver = Resolver(Settings().groups)
    protections = Protections(Settings())
    for each in ([v for v in answer.victims if v.unit], [v for v in answer.victims if not v.unit]):
        assert unit_problem(each, 9, state, resolver, protections) == ""


async def test_the_years_of_a_terminating_pod_end_with_its_eviction() -> None:
    async with Rig(FAST) as rig:
        await rig.nodes(1)
        await rig.classes(low=1, high=10)
        await rig.pod("low-0", cls="low", on="n0", grace=1)
        await rig.client.delete(f"{PODS}/low-0", grace=YEARS)
        await rig.group("high", 1, "high")
        await rig.pod("high-0", cls="high", group="high")
        await rig.preempt("high-0")
        await rig.until(lambda: "plan" in rig.outcomes("high"), "there is a plan")
        await rig.until(lambda: rig.cached("low-0").deleting < time.time() + 60, "it is evicted")
        meta = (await rig.client.get(f"{PODS}/low-0"))["metadata"]
        assert meta["deletionGracePeriodSeconds"] == 1
        await rig.remove("low-0")
        await rig.bind("high-0", "n0")
        await rig.until(lambda: "done" in rig.outcomes("high"), "it sits")
        assert rig.outcomes("high").count("plan") == 1


@pytest.mark.parametrize(("seconds", "goes"), [(20, True), (YEARS, False)])
async def test_an_unclear_answer_about_it_is_no_yes(seconds: int, *, goes: bool) -> None:
    """It terminates already; only an end as soon as its eviction's says that this arrived."""

    class Client:
        async def get(self, path: str) -> dict[str, object]:
            return {"metadata": {"uid": "u", "deletionTimestamp": rfc3339(NOW + seconds)}}

    clocks = Clocks(wall=lambda: NOW)
    evictor = Evictor(Client(), EvictionSettings(), clocks=clocks)  # type: ignore[arg-type]
    victim = Victim(uid="u", namespace="default", name="low", node="n0", priority=0, grace=30)
    assert await evictor.leaving(victim) is goes


async def test_a_victim_that_is_given_years_meanwhile_is_evicted_all_the_same() -> None:
    """Its owner sees that it is to go (the plan is recorded, nothing is sent) and is quick."""
    async with Rig(FAST) as rig:
        await rig.nodes(1)
        await rig.classes(low=1, high=10)
        await rig.pod("low-0", cls="low", on="n0", grace=1)
        await rig.group("high", 1, "high")
        await rig.pod("high-0", cls="high", group="high")
        recording = held_back(rig, "POST", "configmaps")
        await rig.preempt("high-0")
        await rig.until(lambda: len(rig.coordinator.reservations) == 1, "there is a plan")
        await rig.client.delete(f"{PODS}/low-0", grace=YEARS)
        let_go(recording)
        await rig.until(
            lambda: 0 < rig.cached("low-0").deleting < time.time() + 60, "it is evicted"
        )
        await rig.remove("low-0")
        await rig.until(
            lambda: any(
                preemption.state is PreemptionState.OPEN
                for preemption in rig.coordinator.reservations
            ),
            "open",
        )
