"""Who was evicted is not evicted again too soon, except by somebody more urgent than last time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.core.last_check import KeptGangs
from extender.gang.core.victim_group import Claim, Sent
from extender.gang.fairness.eviction_history import MOST_OF_NAMESPACE, EvictionHistory
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.evicted_before import undisturbed
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.runtime.clocks import Clocks
from extender.groups.resolver import Resolver
from extender.model.errors import InvalidInput
from extender.model.objects import Owner, Pod
from extender.model.plan import Plan, Refusal, Victim
from extender.model.snapshot import Snapshot, SparedPod
from extender.settings.fairness import FairnessSettings, ProtectionSettings
from extender.settings.settings import Settings
from extender.settings.settings_rules import validate
from tests.gang.world import NOW, evicted, gang_key, group, node, plan_for, pod, snapshot

ON = ProtectionSettings(enabled=True, first_seconds=100.0, longest_seconds=350.0)


class Ledger:
    """What is remembered, told of evictions by hand."""

    def __init__(self, settings: ProtectionSettings = ON) -> None:
        self.now = NOW
        self.plans = 0
        resolver = Resolver(Settings().groups)
        self.before = EvictionHistory(
            settings, None, Clocks(wall=lambda: self.now), KeptGangs(resolver)
        )

    def sent(
        self, *pods: Pod, priority: int = 100, by: str = "other", unit: str = ""
    ) -> list[Sent]:
        """What the API server accepts for a new plan."""
        self.plans += 1
        claim = Claim(
            plan_id=f"plan-{self.plans}",
            preemptor=gang_key("high", by),
            priority=priority,
            message="",
            uids=frozenset(each.uid for each in pods),
        )
        return [
            Sent(
                claim,
                name=unit or pods[0].uid,
                whole=bool(unit),
                victim=Victim(each.uid, each.namespace, each.name, each.node, each.priority),
                ours=True,
                claims=(claim,),
            )
            for each in pods
        ]

    def evicts(self, *pods: Pod, priority: int = 100, by: str = "other", unit: str = "") -> None:
        """One plan evicts these pods, and they are gone."""
        self.before.taken(pods)
        sent = self.sent(*pods, priority=priority, by=by, unit=unit)
        for each, told in zip(pods, sent, strict=True):
            self.before.sent(told)
            self.before.observe(each, None)

    def runs(self, each: Pod) -> Pod:
        """A pod that was made and bound just now."""
        made = replace(each, created=self.now, started=self.now)
        self.before.observe(replace(made, node=""), made)
        return made

    @property
    def names(self) -> set[str]:
        return {uid.removeprefix("uid-") for uid in self.before.spared()}


def low(name: str, on: str = "n0", **how: Any) -> Pod:
    return replace(pod(name, on=on, priority=1, started=NOW - 100), **how)


GANG = [low("low-0", pod_group="low"), low("low-1", "n1", pod_group="low")]
UNIT = str(gang_key("low"))


def again(pods: list[Pod], times: int) -> list[Pod]:
    return [replace(each, uid=f"{each.uid}-{times}") for each in pods]


def cluster(ledger: Ledger, running: list[Pod], priority: int) -> Snapshot:
    """The low gang runs on both nodes; a gang of two of this priority wants them."""
    state = snapshot(
        [node("n0"), node("n1")],
        [*running, *(pod(f"high-{i}", priority=priority, group="high") for i in range(2))],
        [group("low", 2, priority=1), group("high", 2, priority=priority)],
        now=ledger.now,
    )
    return replace(state, spared=ledger.before.spared())


def test_a_gang_that_was_evicted_is_spared_from_its_equals_for_a_while() -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT)
    ledger.now += 10
    running = [ledger.runs(each) for each in again(GANG, 1)]
    answer = plan_for(cluster(ledger, running, 100), "high")
    assert isinstance(answer, Refusal)
    told = " ".join((answer.message, *answer.details))
    assert "protected until" in told
    assert "evicted once before, the last time at priority 100" in told
    assert evicted(plan_for(cluster(ledger, running, 101), "high")) == {"low-0", "low-1"}
    ledger.now += 99
    assert isinstance(plan_for(cluster(ledger, running, 100), "high"), Refusal)
    ledger.now += 1
    assert evicted(plan_for(cluster(ledger, running, 100), "high")) == {"low-0", "low-1"}


def test_the_time_doubles_up_to_a_bound() -> None:
    ledger = Ledger()
    running, lasting = GANG, []
    for times in range(4):
        ledger.evicts(*running, unit=UNIT)
        running = [ledger.runs(each) for each in again(GANG, times)]
        [until] = {each.until for each in ledger.before.spared().values()}
        lasting.append(until - ledger.now)
        ledger.now = until
    assert lasting == [100, 200, 350, 350]
    assert undisturbed(10**9, ON) == 350


@pytest.mark.parametrize("slow", [0, 40])
def test_it_may_run_again_before_the_answer_to_its_eviction(slow: int) -> None:
    """The watch may be ahead of the answer, and a gang's pods need not go all at once."""
    ledger = Ledger()
    ledger.before.taken(GANG)
    running = again(GANG, 1)
    sent = ledger.sent(*GANG, unit=UNIT)
    for old, new, told_of in zip(GANG, running, sent, strict=True):
        ledger.before.observe(old, None)
        ledger.runs(new)
        ledger.before.sent(told_of)
        ledger.now += slow
    assert ledger.names == {"low-0-1", "low-1-1"}
    [told] = ledger.before.describe()
    assert told["evicted"] == 1


def test_who_is_still_to_be_evicted_does_not_run_again() -> None:
    ledger = Ledger()
    young = [replace(each, created=NOW) for each in GANG]
    ledger.before.taken(young)
    ledger.before.sent(ledger.sent(*young, unit=UNIT)[0])
    ledger.before.observe(young[1], replace(young[1], labels={"a": "b"}))
    assert ledger.before.spared() == {}


def test_all_is_forgotten_after_a_while() -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT)
    ledger.now += ON.forget_seconds
    ledger.evicts(*GANG, unit=UNIT)
    [told] = ledger.before.describe()
    assert told["evicted"] == 1


def test_the_planner_keeps_up_with_who_is_spared() -> None:
    """One planner all the time: nothing of what it keeps between questions is stale."""
    resolver = Resolver(Settings().groups)
    planner, ledger = Planner(Settings(), resolver), Ledger()
    generation = 0

    def fits(running: list[Pod], spared: Mapping[str, SparedPod], later: float = 0.0) -> bool:
        nonlocal generation
        generation += 1
        state = cluster(ledger, running, 100)
        state = replace(state, generation=generation, spared=spared, now=NOW + later)
        gang = resolver.resolve(gang_key("high"), state)
        return isinstance(planner.plan(GangQuestion(gang, state)), Plan)

    assert fits(GANG, {})
    ledger.evicts(*GANG, unit=UNIT)
    running = [ledger.runs(each) for each in again(GANG, 1)]
    spared = ledger.before.spared()
    assert fits(running, {})
    assert not fits(running, spared)
    assert fits(running, {})
    assert not fits(running, spared)
    assert fits(running, spared, 100)
    assert not fits(running, spared, 50), "a clock that was set back"


# -- tenants ------------------------------------------------------------------------------


def test_evictions_within_a_namespace_protect_nobody() -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT, by="default")
    for each in again(GANG, 1):
        ledger.runs(each)
    assert ledger.before.spared() == {}
    ledger = Ledger(replace(ON, same_namespace=True))
    ledger.evicts(*GANG, unit=UNIT, by="default")
    for each in again(GANG, 1):
        ledger.runs(each)
    assert len(ledger.names) == 2


def test_who_is_made_anew_by_its_owner_gains_no_time() -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT)
    first = [ledger.runs(each) for each in again(GANG, 1)]
    [until] = {each.until for each in ledger.before.spared().values()}
    ledger.now += 90
    for each in first:
        ledger.before.observe(each, None)
    assert ledger.before.spared() == {}
    for each in again(GANG, 2):
        ledger.runs(each)
    assert {each.until for each in ledger.before.spared().values()} == {until}
    ledger.now += 10
    assert ledger.before.spared() == {}


@pytest.mark.parametrize("more", ["pods", "requests"])
def test_no_more_is_spared_than_was_evicted(more: str) -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT)
    larger = again(GANG, 1)
    if more == "pods":
        larger.append(low("low-2", "n2", pod_group="low"))
    else:
        larger[0] = replace(larger[0], requests=(("cpu", 3001), ("pods", 1)))
    for each in larger:
        ledger.runs(each)
    assert ledger.before.spared() == {}


def test_of_an_owner_only_who_came_after_is_spared() -> None:
    owner = Owner("ReplicaSet", "web", "uid-web")
    old = [low(f"web-{i}", owner=owner) for i in range(4)]
    ledger = Ledger()
    ledger.evicts(old[0])
    for each in old[1:]:
        ledger.before.observe(each, replace(each, labels={"a": "b"}))
    ledger.now += 60
    ledger.runs(low("web-4", owner=owner))
    assert ledger.names == {"web-4"}
    ledger.runs(low("web-5", owner=owner))
    assert ledger.names == {"web-4"}, "one was evicted"
    assert ledger.before.spared()["uid-web-4"].gang is False


def test_a_bare_pod_is_known_by_its_name() -> None:
    ledger = Ledger()
    ledger.evicts(low("head"))
    ledger.now += 60
    ledger.runs(low("head", uid="uid-head-again"))
    ledger.runs(low("head", uid="uid-elsewhere", namespace="elsewhere"))
    assert ledger.names == {"head-again"}


def test_one_plan_counts_once_however_many_go() -> None:
    owner = Owner("Job", "j", "uid-j")
    ledger = Ledger()
    ledger.evicts(*(low(f"j-{i}", owner=owner) for i in range(5)))
    [told] = ledger.before.describe()
    assert told["evicted"] == 1


def test_who_makes_up_names_forgets_its_own() -> None:
    ledger = Ledger()
    ledger.evicts(low("keep", namespace="humble"))
    for i in range(2 * MOST_OF_NAMESPACE):
        ledger.evicts(low(f"x{i}", namespace="greedy"))
    kept = [each["namespace"] for each in ledger.before.describe()]
    assert kept.count("greedy") == MOST_OF_NAMESPACE
    assert kept.count("humble") == 1


def test_off_nothing_is_remembered() -> None:
    ledger = Ledger(ProtectionSettings())
    ledger.evicts(*GANG, unit=UNIT)
    assert ledger.before.describe() == []


def test_system_critical_gangs_are_never_kept_waiting() -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT, priority=2_000_000_000)
    running = [ledger.runs(each) for each in again(GANG, 1)]
    assert isinstance(plan_for(cluster(ledger, running, 1_999_999_999), "high"), Refusal)
    assert evicted(plan_for(cluster(ledger, running, 2_000_000_000), "high"))


def test_a_dump_has_who_is_spared() -> None:
    ledger = Ledger()
    ledger.evicts(*GANG, unit=UNIT)
    running = [ledger.runs(each) for each in again(GANG, 1)]
    state = cluster(ledger, running, 100)
    document = dump(state, (), Settings())
    again_ = restore(document, Resolver(Settings().groups).member_key)
    assert again_.spared == state.spared
    assert isinstance(plan_for(again_, "high"), Refusal)


@pytest.mark.parametrize(
    "wrong", [{"first_seconds": 0.0}, {"longest_seconds": 10.0}, {"forget_seconds": 1000.0}]
)
def test_settings_have_their_bounds(wrong: dict[str, float]) -> None:
    protection = ProtectionSettings(**wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"fairness\.protection"):
        validate(Settings(fairness=FairnessSettings(protection=protection)))
