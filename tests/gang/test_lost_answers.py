"""An eviction whose answer was lost is ours, whatever the next look or the next try says."""

from __future__ import annotations

from contextlib import suppress

import pytest

from extender.gang.core import victim_group
from extender.gang.core.victim_group import Phase, VictimGroup
from extender.kube.api_errors import NotFound
from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, Rig, full_cluster

REAL_DELETE = r"(?!.*dryRun)"


async def lose_an_answer(rig: Rig) -> VictimGroup:
    """low-0 is deleted and the answer lost; low-1 cannot be; nobody has seen low-0 go yet."""
    await full_cluster(rig)
    lost = rig.server.faults.plan(
        Fault(times=1, method="DELETE", path=f"low-0{REAL_DELETE}", drop="after")
    )
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    )
    rig.server.faults.stall()  # the watch is behind the answers
    ours = rig.coordinator.plans.victims
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: any(unit.phases.get(Phase.ACCEPTED) for unit in ours.unfinished()),
        "low-0 is known to go",
    )
    assert lost.hits == 1
    (unit,) = ours.unfinished()
    return unit


@pytest.mark.parametrize("looks", [True, False])
async def test_a_pod_gone_by_a_request_without_an_answer_has_gone_by_our_hand(
    rig: Rig, *, looks: bool
) -> None:
    """Sent again, by the HTTP client or by us, the DELETE is answered with 404."""
    if not looks:
        rig.server.faults.plan(Fault(times=1, method="GET", path=r"pods/low-0$", status=500))
    unit = await lose_an_answer(rig)
    assert unit.touched
    rig.server.faults.flow()
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "it is seen gone")
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    rig.server.faults.clear()
    await rig.until_names("high-0")


async def _killed_in_doubt(rig: Rig) -> None:
    """Every real DELETE is lost, the user takes the gang away, and then we are killed."""
    await full_cluster(rig)
    lost = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-.{REAL_DELETE}", drop="before")
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: lost.hits > 0, "one is lost")
    await rig.remove("high-1")
    keeper = rig.coordinator.executor._keeper
    await rig.until(
        lambda: any(kept.over and kept.written for kept in keeper._kept.values()),
        "the record says that the unit may be gone in part",
    )
    await rig.kill()
    rig.server.faults.clear()


async def test_a_request_that_arrives_after_a_restart_is_ours(rig: Rig) -> None:
    """The unit was unharmed when the next life looked, and half gone for good a moment later."""
    await _killed_in_doubt(rig)
    await rig.start()
    await rig.remove("low-0")  # what was under way all the time
    await rig.until_names("high-0")


async def test_a_request_that_arrives_before_a_plan_goes_on_is_ours(rig: Rig) -> None:
    """The plan went on after the restart and ended by its rehearsal, before it claimed the unit."""
    await full_cluster(rig)
    lost = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-.{REAL_DELETE}", drop="before")
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: lost.hits > 0, "one is lost")
    await rig.kill()
    rig.server.faults.clear()
    rig.server.faults.plan(Fault(times=10_000, method="DELETE", path="low-1.*dryRun", status=403))
    await rig.start()
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the rehearsal is refused")
    await rig.remove("low-0")  # what was under way all the time
    await rig.until_names(*HIGH)


async def test_a_unit_in_doubt_is_let_go_of_when_nothing_arrives_after_a_restart(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _killed_in_doubt(rig)
    monkeypatch.setattr(victim_group, "WATCH_SECONDS", 0.5)
    await rig.start()
    await rig.until(lambda: not rig.coordinator.plans.victims.unfinished(), "it is let go of")
    await rig.until(lambda: not rig.coordinator.executor._keeper._kept, "its record is dropped")
    assert await rig.names() == {"low-0", "low-1", "high-0"}


async def _killed_with_a_request_under_way(rig: Rig) -> None:
    """The only DELETE that has left hangs, and we are killed: the record is of a plan under way."""
    await full_cluster(rig)
    hangs = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-.{REAL_DELETE}", drop="before", delay=600)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: hangs.hits > 0, "one is under way")
    await rig.kill()
    rig.server.faults.clear()


async def test_a_request_of_a_plan_that_is_dropped_after_a_restart_is_ours(rig: Rig) -> None:
    await _killed_with_a_request_under_way(rig)
    await rig.remove("high-1")
    await rig.start()
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan does not hold any more")
    await rig.remove("low-0")  # what was under way all the time
    await rig.until_names("high-0")


async def test_a_request_of_a_plan_that_goes_on_after_a_restart_is_ours(rig: Rig) -> None:
    await _killed_with_a_request_under_way(rig)
    stuck = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-.{REAL_DELETE}", status=429)
    )
    await rig.start()
    await rig.until(lambda: stuck.hits > 0, "the plan goes on")
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    rig.server.faults.clear()
    with suppress(NotFound):  # a retry of ours may be on its way at that moment
        await rig.remove("low-0")
    await rig.until_names("high-0")
