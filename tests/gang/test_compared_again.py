"""What happens during a search, or before a request leaves or seats open, is seen in time."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from extender.gang.core.preemption import DoesNotHold
from extender.gang.core.victim_group import VictimGroup
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.plan import Refusal
from extender.sandbox.faults import Fault
from extender.settings.settings import EvictionSettings
from tests.gang.rig import FAST, HIGH, LOW, PODS, REAL_DELETE, Rig, full_cluster, held_back, let_go


async def cordon(rig: Rig, node: str) -> None:
    await rig.client.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    await rig.until(lambda: rig.cache.snapshot().nodes[node].unschedulable, "the cordon is seen")


async def _while_searching(rig: Rig, happens: str) -> None:
    """Let a pod go while the search is under way, and the cache learn of it."""
    thread = rig.coordinator.thread
    search = thread.plan
    done: list[str] = []

    async def plan(*args: object, **more: object) -> object:
        answer = await search(*args, **more)  # type: ignore[arg-type]
        if not done:
            done.append(happens)
            await rig.remove(happens)
            await rig.until(lambda: rig.cache.pod_named("default", happens) is None)
        return answer

    thread.plan = plan  # type: ignore[method-assign, assignment]


async def test_nobody_goes_for_a_gang_that_became_incomplete_during_the_search(rig: Rig) -> None:
    await full_cluster(rig)
    await _while_searching(rig, "high-1")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.rounds()
    assert await rig.names() == {*LOW, "high-0"}
    assert not len(rig.coordinator.reservations)


async def test_a_victim_that_left_during_the_search_is_not_waited_for(rig: Rig) -> None:
    await full_cluster(rig)
    await _while_searching(rig, "low-0")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: any(f.state.value == "open" for f in rig.coordinator.reservations), "open"
    )


async def test_a_pod_waited_for_that_left_during_the_search_is_not_waited_for(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    for name in LOW:
        await rig.client.delete(f"{PODS}/{name}")
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "both terminate")
    await _while_searching(rig, "low-0")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: len(rig.coordinator.reservations) == 1, "there is a plan")
    await rig.remove("low-1")
    await rig.until(
        lambda: any(f.state.value == "open" for f in rig.coordinator.reservations), "open"
    )


@pytest.mark.parametrize("delete", [False, True])
async def test_seats_do_not_open_on_a_node_that_was_closed_meanwhile(
    rig: Rig, *, delete: bool
) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "victims terminate")
    if delete:
        await rig.client.delete("/api/v1/nodes/n1")
        await rig.until(lambda: "n1" not in rig.cache.snapshot().nodes, "the node is gone")
    else:
        await cordon(rig, "n1")
    for name in LOW:
        await rig.remove(name)
    await rig.rounds()
    for name in HIGH:
        assert (await rig.filter(name, "n0")).node_names == []
    assert all(preemption.state.value != "open" for preemption in rig.coordinator.reservations)


async def test_a_protected_pod_is_spared_at_the_last_moment(rig: Rig) -> None:
    """Protection that came after the plan counts: each eviction is checked on present objects."""
    await full_cluster(rig)
    mark = held_back(rig, "PATCH", "low-./status", times=2)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "the victims are being marked")
    before = {name: rig.cached(name) for name in LOW}
    for name in LOW:
        await rig.client.patch(
            f"{PODS}/{name}",
            {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}},
        )
    await rig.until(lambda: all(rig.cached(name) != before[name] for name in LOW), "protected")
    let_go(mark)
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan is over")
    await rig.rounds()
    assert await rig.names() == {*LOW, *HIGH}
    assert not len(rig.coordinator.reservations)


async def test_a_node_that_closes_between_record_and_eviction_spares_the_victims(rig: Rig) -> None:
    await full_cluster(rig)
    mark = held_back(rig, "PATCH", "low-./status", times=2)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "the victims are being marked")
    await cordon(rig, "n1")
    let_go(mark)
    await rig.rounds()
    assert await rig.names() == {*LOW, *HIGH}


async def test_a_plan_that_is_being_changed_evicts_nobody_when_its_rehearsal_ends(
    rig: Rig,
) -> None:
    await full_cluster(rig)
    slow = held_back(rig, "DELETE", "dryRun", times=2)
    await rig.preempt("high-0", n0=["low-0"])
    preemption = next(iter(rig.coordinator.reservations))
    await rig.until(lambda: slow.hits > 0, "it is rehearsed")
    preemption.enter(PreemptionState.CHANGING, rig.coordinator.clocks.monotonic())
    let_go(slow)
    await rig.rounds()
    assert preemption.state is PreemptionState.CHANGING
    assert set(LOW) <= await rig.names()


async def test_a_victim_that_goes_by_itself_is_not_asked_to_go_sooner() -> None:
    """Its owner's longer grace period was cut short while our request waited its turn."""
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=1))) as rig:
        await rig.nodes(3)
        await rig.classes(low=1, high=100)
        for i in range(3):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}", grace=30)
        await rig.gang("high", 3, "high")
        slow = held_back(rig, "DELETE", f"low-{REAL_DELETE}")
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(lambda: slow.hits == 1, "the first eviction is on its way")
        evictions = rig.coordinator.plans.victims
        later, _ = [u.name for u in evictions.unfinished() if "waiting" in fates_of(u)]
        name = next(p.name for p in rig.cache.store.pods.by_uid.values() if p.uid == later)
        await rig.client.delete(f"{PODS}/{name}", grace=60)
        await rig.until(lambda: rig.cached(name).deleting > 0, "it goes by itself")
        counted = rig.server.faults.plan(
            Fault(times=10, method="DELETE", path=f"{name}{REAL_DELETE}", delay=0.01)
        )
        let_go(slow)
        await rig.rounds()
        assert counted.hits == 0


async def test_nothing_is_planned_on_a_cache_that_went_stale_in_the_queue(rig: Rig) -> None:
    """A search waits its turn for seconds; what it begins with must be fresh then."""
    await full_cluster(rig)
    turns = rig.coordinator.turns
    async with turns.lock.turn(None):
        asked = asyncio.create_task(rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP))
        await rig.until(lambda: bool(turns.lock.waiters()), "it waits for its turn")
        rig.cache.stale_for = lambda: 60.0  # type: ignore[method-assign]
    answer = await asked
    assert isinstance(answer, Refusal)
    assert answer.code == "stale"
    assert not len(rig.coordinator.reservations)


async def test_no_plan_is_changed_on_a_cache_that_went_stale_in_the_queue(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    preemption = next(iter(rig.coordinator.reservations))
    await rig.until(lambda: preemption.state is PreemptionState.WAITING, "evictions are sent")
    searches: list[bool] = []
    thread, fresh = rig.coordinator.thread, rig.cache.stale_for
    search = thread.plan

    async def plan(*args: object, **more: object) -> object:
        searches.append(rig.coordinator.stale() is None)
        return await search(*args, **more)  # type: ignore[arg-type]

    thread.plan = plan  # type: ignore[method-assign, assignment]
    lock = rig.coordinator.turns.lock
    async with lock.turn(None):
        rig.coordinator.executor.feed(DoesNotHold(preemption, "for a test"))
        await rig.until(lambda: bool(lock._urgent), "it waits for its turn")
        rig.cache.stale_for = lambda: 60.0  # type: ignore[method-assign]
    await rig.rounds()
    assert searches == []
    assert preemption.state is PreemptionState.CHANGING
    rig.cache.stale_for = fresh  # type: ignore[method-assign]
    await rig.until(lambda: preemption.over, "another plan takes its place")
    assert searches == [True]


def fates_of(unit: VictimGroup) -> set[str]:
    return {each.phase.value for each in unit.victims.values()}
