"""A gang that went in part and has become whole again is not broken a second time."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from extender.gang.core import victim_group
from extender.gang.core.victim_group import Claim, Claimed, Released
from extender.gang.plan.validity import whole_again
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import UNIT_ALL, Gang
from extender.sandbox.faults import Fault
from extender.settings.settings import SeatSettings
from tests.gang.rig import FAST, HIGH, PODS, REAL_DELETE, Rig, full_cluster
from tests.gang.world import gang_key, pod


async def _begun_in_part(rig: Rig, status: int) -> None:
    """low-0 goes for the high gang, and the eviction of low-1 is answered with the status."""
    planned = rig.server.faults.plan(
        Fault(times=10**6, method="DELETE", path=f"low-1{REAL_DELETE}", status=status)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: planned.hits > 0, "low-1 is asked for")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 is gone")


@contextlib.asynccontextmanager
async def _patient() -> AsyncIterator[Rig]:
    """A rig of two nodes whose plans stay under way."""
    seats = SeatSettings(bind_seconds=30.0, victim_slack_seconds=60.0)
    async with Rig(replace(FAST, seats=seats)) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        yield rig


@pytest.mark.parametrize("status", [403, 504])
async def test_what_is_left_of_it_stays(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Its rest was evicted as soon as the API server allowed it, for a plan long over."""
    monkeypatch.setattr(victim_group, "WATCH_SECONDS", 0.5)
    monkeypatch.setattr(victim_group, "LOOK_SECONDS", 0.05)
    await full_cluster(rig)
    evictions = rig.coordinator.plans.victims
    await _begun_in_part(rig, status)
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
    assert all(unit.touched for unit in evictions.unfinished())
    await rig.pod("low-2", cls="low", group="low", on="n0")
    await rig.until(lambda: not evictions.unfinished(), "the unit is let go of")
    rig.server.faults.clear()
    assert await rig.names() == {"low-1", "low-2"}
    assert not evictions.broken()


async def test_who_evicts_it_anew_evicts_all_of_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a lost request might still arrive its old members had to go, and its new one had not:
    a plan that changed left the new one alone (seed 101457)."""
    monkeypatch.setattr(victim_group, "WATCH_SECONDS", 300.0)
    monkeypatch.setattr(victim_group, "LOOK_SECONDS", 0.05)
    await full_cluster(rig)
    evictions = rig.coordinator.plans.victims
    await _begun_in_part(rig, 504)
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
    await rig.pod("low-2", cls="low", group="low", on="n0")
    await rig.until(
        lambda: [unit.touched for unit in evictions.unfinished()] == [False],
        "nobody has to go, and the request that was lost is remembered",
    )
    assert not evictions.broken()


async def test_who_evicts_it_anew_at_once_evicts_all_of_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old member had to go until the next try for it; the new plan's end left the other."""
    pause = asyncio.Event()

    async def long(seconds: float) -> None:
        await pause.wait()

    await full_cluster(rig)
    evictions = rig.coordinator.plans.victims
    await _begun_in_part(rig, 403)
    await rig.until(lambda: bool(evictions.broken()), "it is refused")
    evictor = rig.coordinator.executor._evictor
    monkeypatch.setattr(evictor, "_clocks", replace(evictor._clocks, sleep=long))
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
    (unit,) = evictions.unfinished()
    await rig.until(lambda: not evictions.owes("pod-group:default/low"), "it is not tried now")
    assert unit.touched
    await rig.pod("low-2", cls="low", group="low", on="n0")
    await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "it is whole")
    old = next(iter(unit.victims.values())).victim
    new = rig.cached("low-2")
    both = (old, replace(old, uid=new.uid, name=new.name, node=new.node))
    claim = Claim(
        plan_id="other",
        preemptor=gang_key("other"),
        priority=100,
        message="preempted",
        uids=frozenset(each.uid for each in both),
    )
    executor = rig.coordinator.executor
    executor.feed(Claimed(claim, both))
    assert not unit.touched
    executor.feed(Released("other"))
    assert not evictions.of_plan("other")
    pause.set()


async def test_who_is_protected_after_an_unclear_answer_is_not_counted_as_going(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was sent any more, nor read: it was on its way out for ever (seed 109712)."""
    monkeypatch.setattr(victim_group, "LOOK_SECONDS", 0.05)
    await full_cluster(rig)
    evictions = rig.coordinator.plans.victims
    unreadable = Fault(times=10**6, method="GET", path=r"pods/low-1$", status=500)
    rig.server.faults.plan(unreadable)
    await _begun_in_part(rig, 504)
    await rig.until(lambda: unreadable.hits > 0, "it cannot be read either")
    patch = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
    await rig.client.patch(f"{PODS}/low-1", patch)
    await rig.until(lambda: "protected" in str(rig.cached("low-1").annotations), "it is protected")
    rig.server.faults.clear()
    await rig.until(lambda: not evictions.expected(), "it is known to stay")
    assert evictions.broken()
    assert "low-1" in await rig.names()


async def test_a_plan_in_preemption_is_searched_for_anew() -> None:
    """A plan that still wanted the rest broke the gang that others had made whole again."""
    async with _patient() as rig:
        await full_cluster(rig)
        await _begun_in_part(rig, 429)
        evictions, reservations = (
            rig.coordinator.plans.victims,
            rig.coordinator.reservations,
        )
        await rig.nodes(2, first=2)
        await rig.pod("low-2", cls="low", group="low", on="n2")
        await rig.until(
            lambda: (
                [set(preemption.seats.values()) for preemption in reservations] == [{"n0", "n3"}]
            ),
            "seats that cost nobody anything",
        )
        await rig.until(lambda: not evictions.unfinished(), "the unit is let go of")
        rig.server.faults.clear()
        await rig.until(
            lambda: all(f.state is PreemptionState.OPEN for f in reservations), "the seats are open"
        )
        assert await rig.names() == {"low-1", "low-2", *HIGH}


async def _another_waits(rig: Rig) -> None:
    """low-2 is made, has nodes with room, and is held back for the rest of its gang."""
    await rig.nodes(2, first=2)
    await rig.pod("low-2", cls="low", group="low")
    await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "it is there")
    answer = await rig.filter("low-2", "n2", "n3")
    assert not answer.node_names
    assert "the rest is still being evicted" in answer.failed_and_unresolvable["n2"]


async def test_who_takes_the_place_of_some_waits_until_the_others_are_gone() -> None:
    """A member that must still go was counted as running: then it went, and half a gang ran."""
    async with _patient() as rig:
        await full_cluster(rig)
        await _begun_in_part(rig, 429)
        await _another_waits(rig)
        rig.server.faults.clear()
        await rig.until(lambda: rig.cache.pod_named("default", "low-1") is None, "low-1 is gone")
        await rig.pod("low-3", cls="low", group="low")
        await rig.until(lambda: rig.cache.pod_named("default", "low-3") is not None, "it is there")
        deadline = time.monotonic() + 60
        while not any(preemption.key.name == "low" for preemption in rig.coordinator.reservations):
            assert time.monotonic() < deadline, "both have no seats"
            await rig.filter("low-2", "n2", "n3")
            await asyncio.sleep(0.05)


async def test_who_takes_the_place_of_some_waits_until_no_request_can_arrive(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One was told to stay after unclear answers: a request of before went through when its gang
    had been completed with it, and half a gang ran (seed 243243)."""

    async def short(seconds: float) -> None:
        await asyncio.sleep(0.2)  # between two tries there are pauses

    async with _patient() as rig:
        evictions = rig.coordinator.plans.victims
        evictor = rig.coordinator.executor._evictor
        monkeypatch.setattr(evictor, "_clocks", replace(evictor._clocks, sleep=short))
        monkeypatch.setattr(evictions, "refused_seconds", 0.5)
        await full_cluster(rig)
        await _begun_in_part(rig, 504)
        await rig.until(lambda: "broken" in rig.outcomes("high"), "it is told to stay")
        rig.server.faults.clear()
        refused = Fault(
            times=10**6,
            method="DELETE",
            path=f"low-1{REAL_DELETE}",
            status=403,
            reason="Forbidden",
        )
        rig.server.faults.plan(refused)
        (unit,) = evictions.unfinished()
        unit.watched_until = time.monotonic() + 1000
        await rig.until(lambda: refused.hits > 1, "it is refused for good")
        for name in HIGH:
            await rig.remove(name)
        await _another_waits(rig)
        unit.watched_until = time.monotonic()
        deadline = time.monotonic() + rig.patience
        while not (await rig.filter("low-2", "n2", "n3")).node_names:
            assert time.monotonic() < deadline, rig.messages("low")
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(("starts_whole", "enough"), [(True, 2), (False, 3)])
def test_how_many_make_a_gang_whole_again(*, starts_whole: bool, enough: int) -> None:
    """One that starts one by one has no quorum: a single newcomer made it whole (seed 11789)."""
    stayed, *came = (pod(f"low-{i}", on="n0") for i in range(3))
    for count in (2, 3):
        gang = Gang(
            key=gang_key("low"),
            members=(stayed, *came[: count - 1]),
            min_count=2,
            unit=UNIT_ALL,
            starts_whole=starts_whole,
        )
        assert whole_again(gang, {stayed.uid}, size=3) is (count >= enough)
