"""A plan under way ends when the deletion of its gang's PodGroup or owner begins."""

from __future__ import annotations

from msgspec.structs import replace

from extender.model.plan import Code, Refusal
from tests.gang.rig import Rig, half_evicted, held_back
from tests.gang.world import evicted, group, node, plan_for, pod, snapshot


def delete(rig: Rig) -> None:
    """The PodGroup gets a deletionTimestamp; its protection keeps it while pods of it are there."""
    table = rig.cache.store.groups["core"]
    row = table.rows["core", "default", "high"]
    table.put(replace(row, ending=True, version=10**9))


def test_nothing_is_evicted_for_it_and_a_gang_that_runs_is_not_told_of_it() -> None:
    pods = [pod("low", on="n0", priority=1), pod("high", group="high", priority=100)]
    row = group("high", 1, priority=100)
    assert evicted(plan_for(snapshot([node("n0")], pods, [row]), "high")) == {"low"}
    state = snapshot([node("n0")], pods, [replace(row, ending=True)])
    refusal = plan_for(state, "high")
    assert isinstance(refusal, Refusal)
    assert refusal.code == Code.CONFLICT
    assert refusal.message == "PodGroup default/high is being deleted"


async def test_before_the_first_eviction_the_plan_ends() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        hung = held_back(rig, "POST", "configmaps", times=10_000)
        await rig.gang("high", 2, "high")
        await rig.filter("high-0", "n0", "n1")
        await rig.until(lambda: hung.hits > 0, "the record hangs")
        delete(rig)
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "PodGroup default/high is being deleted" in rig.messages("high")
        assert await rig.names() == {"low-0", "low-1", "high-0", "high-1"}


async def test_between_two_evictions_the_second_is_not_sent() -> None:
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await half_evicted(rig)
        delete(rig)
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        assert "PodGroup default/high is being deleted" in rig.messages("high")
        rig.server.faults.clear()
        await rig.rounds()
        assert await rig.names() == {"low-1", "high-0", "high-1"}
