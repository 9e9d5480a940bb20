"""No pod is evicted for a gang of a namespace that is being deleted: none can be bound there."""

from __future__ import annotations

from msgspec.structs import replace

from extender.decode.from_json import decode_namespace
from extender.gang.plan.assemble import dump, restore
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.single import single_gang
from extender.groups.resolver import Resolver
from extender.model.objects import Namespace
from extender.model.plan import Code, Refusal
from extender.settings.settings import Settings
from tests.gang.rig import Rig, held_back
from tests.gang.world import evicted, gang_key, group, node, plan_for, pod, snapshot

MADE = {"name": "default", "uid": "d"}


def test_a_namespace_is_ending_from_its_deletion_on() -> None:
    deleted = {**MADE, "deletionTimestamp": "2026-10-01T09:00:00Z"}
    assert decode_namespace({"metadata": deleted}).ending
    assert not decode_namespace({"metadata": MADE}).ending


async def test_a_plan_ends_when_its_namespace_is_being_deleted() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        hung = held_back(rig, "POST", "configmaps", times=10_000)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: hung.hits > 0, "the record hangs")
        rig.cache.store.namespaces.put(Namespace("default", uid="d", ending=True, version=10**9))
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "namespace default is being deleted" in rig.messages("high")
        assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


def test_a_dump_of_a_decision_replays_it() -> None:
    pods = [pod("low", on="n0", priority=1), pod("high", group="high", priority=100)]
    state = snapshot([node("n0")], pods, [group("high", 1, priority=100)])
    assert evicted(plan_for(state, "high")) == {"low"}
    ending = replace(state, ending=frozenset({"default"}))
    again = restore(dump(ending, (), Settings()), Resolver(Settings().groups).member_key)
    for each in (ending, again):
        refusal = plan_for(each, "high")
        assert isinstance(refusal, Refusal)
        assert refusal.code == Code.CONFLICT


def test_a_pod_of_no_gang_is_refused_too_and_a_gang_that_runs_is_not_told_of_it() -> None:
    ending = frozenset({"default"})
    lone = pod("lone", priority=100)
    runs = pod("high", on="n0", group="high", priority=100)
    state = snapshot([node("n0")], [lone, runs], [group("high", 1, priority=100)])
    state = replace(state, ending=ending)
    resolver = Resolver(Settings().groups)
    planner = Planner(Settings(), resolver)
    for gang, code in (
        (single_gang(lone), Code.CONFLICT),
        (resolver.resolve(gang_key("high"), state), Code.NOT_NEEDED),
    ):
        refusal = planner.plan(GangQuestion(gang, state))
        assert isinstance(refusal, Refusal)
        assert refusal.code == code


async def test_kube_scheduler_evicts_no_pod_for_a_pod_of_no_gang_there() -> None:
    async with Rig() as rig:
        await rig.nodes(1)
        await rig.classes(low=1, high=100)
        await rig.pod("low", cls="low", on="n0")
        await rig.pod("lone", cls="high")
        await rig.until(lambda: rig.cache.pod_named("default", "low") is not None, "low is cached")
        assert list((await rig.preempt("lone", n0=["low"])).candidates) == ["n0"]
        rig.cache.store.namespaces.put(Namespace("default", uid="d", ending=True, version=10**9))
        assert not (await rig.preempt("lone", n0=["low"])).candidates
        assert not rig.coordinator.hints.held_back.pods()
