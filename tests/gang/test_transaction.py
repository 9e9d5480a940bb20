"""Nothing is left half done: whatever ends a plan, at whatever moment.

Each test plays one case in which a written promise was once found broken. kube-scheduler's
part is played by asking the verbs.
"""

from __future__ import annotations

import asyncio
import threading

import pytest
from msgspec.structs import replace

from extender.gang.core import victim_group
from extender.gang.core.victim_group import Phase
from extender.sandbox.faults import Fault
from extender.settings.settings import SeatSettings
from tests.gang.rig import (
    FAST,
    HIGH,
    LOW,
    PODS,
    REAL_DELETE,
    Rig,
    full_cluster,
    held_back,
    let_go,
    until_no_records,
)


async def test_a_failed_eviction_of_a_more_urgent_plan_makes_nobody_a_victim(wide: Rig) -> None:
    """Priority 20 never evicts priority 100, although somebody at 1000 once asked for it."""
    rig = wide
    for i in range(4):
        await rig.pod(f"busy-{i}", cls="high", on=f"n{i}")
    await rig.gang("top", 4, "top")
    slow = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"busy-{REAL_DELETE}", status=503)
    )
    await rig.preempt("top-0", n0=["busy-0"])
    await rig.until(lambda: slow.hits >= 4, "real evictions are asked for")
    await rig.remove("top-0")
    await rig.until(lambda: not len(rig.coordinator.reservations), "the urgent plan ends")
    units = rig.coordinator.plans.victims.unfinished
    await rig.until(
        lambda: not any(unit.phases.get(Phase.ASKED) for unit in units()),
        "no request of it is under way",
    )
    rig.server.faults.clear()
    await rig.gang("mid", 2, "mid")
    for _ in range(2):
        await rig.preempt("mid-0", n0=["busy-0"])
        await rig.rounds()
    assert {f"busy-{i}" for i in range(4)} <= await rig.names()


async def test_a_recorded_plan_that_does_not_fit_any_more_evicts_nobody(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(victim_group, "WATCH_SECONDS", 0.5)  # else a minute, as its record
    await full_cluster(rig)
    asked = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-{REAL_DELETE}", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: asked.hits > 0, "evictions are asked for")
    await rig.kill()
    await rig.client.patch("/api/v1/nodes/n0", {"spec": {"unschedulable": True}})
    rig.server.faults.clear()
    await rig.start()
    await rig.rounds(10)
    assert await rig.names() == {*LOW, *HIGH}
    await until_no_records(rig)


async def test_a_record_written_with_a_lost_answer_is_one_plan_not_two(rig: Rig) -> None:
    await full_cluster(rig)
    rig.server.faults.plan(Fault(times=1, method="POST", path="configmaps", drop="after"))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names(*HIGH)
    assert len(await rig.records()) == 1
    assert rig.outcomes("high") == ["plan"]


async def test_a_record_nobody_could_read_back_comes_to_nothing(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The POST was done, the answer and every reading lost: "nothing is evicted" stays true."""
    monkeypatch.setattr(victim_group, "WATCH_SECONDS", 0.5)  # else a minute, as its record
    await full_cluster(rig)
    rig.server.faults.plan(Fault(times=1, method="POST", path="configmaps", drop="after"))
    lost = rig.server.faults.plan(Fault(times=10_000, path="configmaps", status=500))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: "api" in rig.outcomes("high"), "the plan is given up")
    for name in HIGH:
        await rig.remove(name)
    await rig.until_names(*LOW)
    assert lost.hits
    rig.server.faults.clear()
    await rig.restart()
    await rig.rounds()
    assert await rig.names() == set(LOW)
    await until_no_records(rig)


async def test_seats_of_a_gang_that_is_being_seated_are_not_taken_over(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = await rig.filter("high-0", "n0", "n1")
    assert len(first.node_names) == 1
    await rig.gang("top", 2, "top")
    await rig.filter("top-0", "n0", "n1")
    await rig.preempt("top-0")
    assert [preemption.key.name for preemption in rig.coordinator.reservations] == ["high"]
    await rig.bind("high-0", first.node_names[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "the first member sits")
    await rig.rounds()
    await rig.preempt("top-0")
    assert [preemption.key.name for preemption in rig.coordinator.reservations] == ["high"]
    second = await rig.filter("high-1", *({"n0", "n1"} - set(first.node_names)))
    await rig.bind("high-1", second.node_names[0])
    await rig.until(lambda: not len(rig.coordinator.reservations), "the first gang sits")
    for _ in range(60):  # now it goes whole
        await rig.preempt("top-0")
        if await rig.names() == {"top-0", "top-1"}:
            break
        await asyncio.sleep(0.1)
    assert await rig.names() == {"top-0", "top-1"}


async def test_the_slow_end_of_one_plans_record_leaves_the_next_plans_alone(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    slow = held_back(rig, "DELETE", "configmaps")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).deleting for name in LOW), "victims terminate")
    await rig.remove("high-1")
    await rig.until(lambda: slow.hits == 1, "the first record is being deleted")
    await rig.pod("high-1", cls="high", group="high")
    for _ in range(50):
        await rig.preempt("high-0", n0=["low-0"])
        if len(rig.coordinator.reservations):
            break
        await asyncio.sleep(0.05)
    preemption = next(iter(rig.coordinator.reservations))
    let_go(slow)
    await rig.rounds()
    assert await rig.records()
    assert not preemption.over
    await rig.kill()
    await rig.start()
    assert len(rig.coordinator.reservations) == 1


async def test_deadlines_do_not_wait_for_a_search() -> None:
    settings = replace(FAST, seats=SeatSettings(bind_seconds=2.0))
    async with Rig(settings) as rig:
        await rig.nodes(4)
        await rig.classes(high=100)
        await rig.gang("held", 2, "high")
        await rig.filter("held-0", "n0", "n1", "n2", "n3")
        assert len(rig.coordinator.reservations) == 1
        planner = rig.coordinator.thread.planner
        search = planner.plan
        searching, seats_back = threading.Event(), threading.Event()

        def plan(*args: object, **more: object) -> object:
            searching.set()
            seats_back.wait(60)
            return search(*args, **more)  # type: ignore[arg-type]

        planner.plan = plan  # type: ignore[method-assign, assignment]
        await rig.gang("other", 2, "high")
        tried = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        # The loop itself plans what kube-scheduler has tried in vain.
        await rig.client.patch(f"{PODS}/other-0/status", {"status": {"conditions": [tried]}})
        await rig.until(searching.is_set, "the other gang is searched for")
        try:
            await rig.until(lambda: "gave-up" in rig.outcomes("held"), "the seats go back")
        finally:
            seats_back.set()


async def test_a_hanging_record_keeps_nobody_else_waiting(wide: Rig) -> None:
    rig = wide
    await rig.gang("slow", 2, "high")
    await rig.gang("quick", 2, "high")
    hung = held_back(rig, "POST", "configmaps")
    first = asyncio.create_task(rig.filter("slow-0", "n0", "n1", "n2", "n3"))
    await rig.until(lambda: hung.hits == 1, "the first record hangs")
    answer = await rig.filter("quick-0", "n0", "n1", "n2", "n3")
    assert len(answer.node_names) == 1
    assert not first.done()
    let_go(hung)
    await first


async def test_nominations_are_cleared_even_when_that_fails_at_first(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).nominated for name in HIGH), "nominated")
    rig.server.faults.plan(Fault(times=3, method="PATCH", path="high-0/status", status=503))
    await rig.remove("high-1")
    await rig.until(lambda: not rig.cached("high-0").nominated, "the nomination is cleared")


async def test_nominations_left_by_a_life_before_are_cleared(rig: Rig) -> None:
    await full_cluster(rig, grace=30)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).nominated for name in HIGH), "nominated")
    await rig.kill()
    await rig.remove("high-1")
    await rig.start()
    await rig.until(lambda: not rig.cached("high-0").nominated, "the nomination is cleared")


async def test_a_single_pod_does_not_evict_who_is_just_being_seated(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = await rig.filter("high-0", "n0", "n1")
    await rig.bind("high-0", first.node_names[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "one member sits")
    await rig.pod("urgent", cls="top")
    answer = await rig.preempt("urgent", **{first.node_names[0]: ["high-0"]})
    assert answer.candidates == {}


async def test_a_gang_that_loses_a_seated_member_is_not_seated_in_part(rig: Rig) -> None:
    await rig.gang("high", 2, "high")
    first = await rig.filter("high-0", "n0", "n1")
    await rig.bind("high-0", first.node_names[0])
    await rig.until(lambda: bool(rig.cached("high-0").node), "one member sits")
    await rig.remove("high-0")
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan is over")
    left = ({"n0", "n1"} - set(first.node_names)).pop()
    assert (await rig.filter("high-1", left)).node_names == []


async def test_a_request_whose_fate_cannot_be_read_back_is_not_forgotten(rig: Rig) -> None:
    """Neither answer nor reading back: until it is known, nobody is evicted in its place."""
    await full_cluster(rig)
    uid = rig.cached("low-1").uid
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-{REAL_DELETE}", status=500)
    )
    unread = rig.server.faults.plan(
        Fault(times=10_000, method="GET", path="pods/low-1$", status=503)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: unread.hits > 0, "the pod cannot be read")
    evictions = rig.coordinator.plans.victims
    seen = unread.hits

    def still_unread() -> bool:
        assert uid in evictions.expected()
        return unread.hits > seen + 3

    await rig.until(still_unread, "it is read back again and again")
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan is over")
    await rig.rounds()  # what was on its way when the plan ended has its answer
    assert uid in evictions.expected()
    rig.server.faults.clear()
    await rig.until(lambda: uid not in evictions.expected(), "it is seen unharmed")
    assert await rig.names() == {*LOW, "high-0"}
