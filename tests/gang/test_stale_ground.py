"""Nothing rests on an old picture of the cluster, nor on an old answer."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from extender.gang.plan.candidates import Candidates
from extender.gang.plan.ends import MOST_KEPT, UNKNOWN, RunTimes, end_of
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.gang import Gang
from extender.model.objects import Owner
from extender.model.plan import Plan, Refusal
from extender.sandbox.faults import Fault
from tests.event_time import passes
from tests.gang.limited import rigged
from tests.gang.rig import FAST, HIGH, LOW, PODS, Rig, full_cluster
from tests.gang.world import NOW, pod

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


NODE = {
    "metadata": {"name": "n2", "labels": {"kubernetes.io/hostname": "n2"}},
    "status": {"allocatable": {"cpu": "4", "pods": "110"}},
}
PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}


async def test_a_victim_that_was_protected_during_the_search_is_not_allowed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.client.create("/api/v1/nodes", NODE)
    await full_cluster(rig)
    await rig.pod("single", cls="low", on="n2")
    await rig.pod("urgent", cls="top")
    ask = rig.coordinator.ask

    async def slow(single: Gang, candidates: Candidates) -> Plan | Refusal | None:
        answer = await ask(single, candidates)
        await rig.client.patch(f"{PODS}/single", PROTECTED)
        await rig.until(lambda: bool(rig.cached("single").annotations), "it is protected")
        return answer

    before = await rig.preempt("urgent", n0=["low-0"], n2=["single"])
    assert list(before.candidates) == ["n2"]
    monkeypatch.setattr(rig.coordinator, "ask", slow)
    answer = await rig.preempt("urgent", n0=["low-0"], n2=["single"])
    assert "n2" not in answer.candidates


SAID = {"podgroup-extender.io/expected-run-seconds": "600"}


def test_those_noted_after_they_were_gone_are_not_kept_for_ever() -> None:
    """Planning sees a cluster of up to a second ago: nobody says of them again that they went."""
    times = RunTimes()
    one = pod("one", on="n0", started=NOW, annotations=SAID)
    for i in range(MOST_KEPT):
        times.late(replace(one, uid=f"u{i}"))
    assert end_of(replace(one, uid="u0"), NOW, times, 3600.0) == UNKNOWN
    times.late(replace(one, uid="u0"))
    times.late(one)
    known = [i for i in range(MOST_KEPT) if times.is_late(replace(one, uid=f"u{i}"))]
    assert len(known) < MOST_KEPT
    assert known[:2] == [0, 2], "what was noted again is not the oldest"
    assert times.is_late(one)


def test_a_namespace_with_thousands_of_owners_takes_no_run_times_from_others() -> None:
    times = RunTimes()
    other = replace(pod("other", on="n0", started=NOW - 300), owner=Owner("Job", "a", "a"))
    times.ended(other, NOW)
    late = replace(other, uid="late")
    times.late(late)
    crowd = pod("crowd", on="n0", started=NOW - 60, namespace="crowd")
    for i in range(MOST_KEPT + 10):
        times.ended(replace(crowd, owner=Owner("Job", f"o{i}", f"o{i}")), NOW)
        times.late(replace(crowd, uid=f"u{i}"))
    assert times.longest(other) == 300
    assert times.is_late(late)
    assert not times.is_late(replace(crowd, uid="u0"))
    assert times.is_late(replace(crowd, uid=f"u{MOST_KEPT + 9}"))
    assert times.longest(crowd) == 60, "its namespace's are those of its newest"
