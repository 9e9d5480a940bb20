"""An eviction whose answer was lost is ours, whatever the next look or the next try says."""

from __future__ import annotations

import pytest

from extender.gang.act.unit import Fate, Unit
from extender.sandbox.faults import Fault
from tests.gang.rig import Rig, full_cluster

REAL_DELETE = r"(?!.*dryRun)"


async def lose_an_answer(rig: Rig) -> Unit:
    """low-0 is deleted and the answer lost; low-1 cannot be; nobody has seen low-0 go yet."""
    await full_cluster(rig)
    lost = rig.server.faults.plan(
        Fault(times=1, method="DELETE", path=f"low-0{REAL_DELETE}", drop="after")
    )
    rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    )
    rig.server.faults.stall()  # the watch is behind the answers
    evictions = rig.coordinator.flights.evictions
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: any(Fate.ACCEPTED in unit.fates.values() for unit in evictions.unfinished()),
        "low-0 is known to go",
    )
    assert lost.hits == 1
    (unit,) = evictions.unfinished()
    return unit


@pytest.mark.parametrize("looks", [True, False])
async def test_a_pod_gone_by_a_request_without_an_answer_has_gone_by_our_hand(
    rig: Rig, looks: bool
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
