"""Nothing that destroys rests on an old picture of the cluster."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.faults import Fault
from tests.event_time import passes
from tests.gang.limited import rigged
from tests.gang.rig import FAST, HIGH, LOW, Rig, full_cluster

REAL_DELETE = r"(?!.*dryRun)"


DOWN = pytest.mark.parametrize("seconds", [0.2, 11.0])
"""For how long a watch has been down: a moment is enough for a node to be cordoned."""


@DOWN
async def test_no_unit_is_begun_while_a_watch_is_down(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A member may be gone by now and nobody here knows: the plan waits, and gives up."""
    await full_cluster(rig)
    mark = rig.server.faults.plan(Fault(times=2, method="PATCH", path="low-./status", delay=0.2))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "victims are being marked")
    monkeypatch.setattr(rig.cache, "stale_for", lambda: seconds)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "it gives up")
    assert await rig.names() == {*LOW, *HIGH}


@DOWN
async def test_no_seats_open_while_a_watch_is_down(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """A seat's node may be closed or taken by now: who is answered then starts in part."""
    await full_cluster(rig)
    mark = rig.server.faults.plan(
        Fault(times=2, method="DELETE", path=f"low-.{REAL_DELETE}", delay=0.5)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "victims are being evicted")
    monkeypatch.setattr(rig.cache, "stale_for", lambda: seconds)
    await rig.until_names(*HIGH)
    preemption = next(iter(rig.coordinator.reservations))
    await rig.until(lambda: not preemption.victims, "the victims are seen gone")
    for _ in range(3):
        await rig.coordinator.tick()
    assert preemption.state is not PreemptionState.OPEN
    monkeypatch.undo()
    await rig.until(lambda: preemption.state is PreemptionState.OPEN, "they open once it is not")


async def test_seats_that_cannot_open_while_a_watch_is_down_are_no_fault_of_the_gang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One plan given up would suspend it."""
    seats = replace(
        FAST.seats, give_ups=1, max_replans=1, bind_seconds=1.0, victim_slack_seconds=0.5
    )
    async with rigged(replace(FAST, seats=seats)) as rig:
        await full_cluster(rig)
        slow = rig.server.faults.plan(
            Fault(times=2, method="DELETE", path=f"low-.{REAL_DELETE}", delay=0.3)
        )
        await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
        await rig.until(lambda: slow.hits > 1, "evictions are sent")
        monkeypatch.setattr(rig.cache, "stale_for", lambda: 0.2)
        await rig.until(lambda: "gave-up" in rig.outcomes("high"), "it gives up")
        assert rig.coordinator.admission.describe()["suspended"] == []


async def test_a_take_over_judges_no_record_by_an_old_picture(rig: Rig) -> None:
    """A standby whose watch was down took the plan's members for gone and its victims for whole:
    the record was dropped, and half of a gang stayed."""
    await rig.gang("low", 2, "low", on="n")
    standby = Rig()
    standby.server = rig.server
    await standby.warm()
    await standby.cache.stop()
    await rig.gang("high", 2, "high")
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until_names("low-1", *HIGH)
    await rig.kill()
    rig.server.faults.clear()
    assert standby.cache.stale_for() > 0
    taking_over = asyncio.create_task(standby.lead())
    try:
        await passes(3)
        assert not standby.coordinator.recovered
        await standby.cache.start()
        await taking_over
        await rig.until(lambda: "low-1" not in names(standby), "the rest of the gang goes")
        assert [preemption.key.name for preemption in standby.coordinator.reservations] == ["high"]
    finally:
        await standby.kill()
        await rig.start()


def names(rig: Rig) -> set[str]:
    return {pod.name for pod in rig.cache.store.pods.by_uid.values()}
