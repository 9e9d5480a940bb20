"""A gang that went in part and has become whole again is not broken a second time."""

from __future__ import annotations

import pytest

from extender.gang.act import driver
from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, Rig, full_cluster
from tests.gang.test_transaction import REAL_DELETE


@pytest.mark.parametrize("status", [403, 504])
async def test_what_is_left_of_it_stays(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """Its rest was evicted as soon as the API server allowed it, for a plan long over."""
    monkeypatch.setattr(driver, "WATCH_SECONDS", 0.5)
    monkeypatch.setattr(driver, "LOOK_SECONDS", 0.05)
    await full_cluster(rig)
    evictions = rig.coordinator.flights.evictions
    refused = rig.server.faults.plan(
        Fault(times=10**6, method="DELETE", path=f"low-1{REAL_DELETE}", status=status)
    )
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: refused.hits > 0, "low-1 is asked for")
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 is gone")
    for name in HIGH:
        await rig.remove(name)
    await rig.until(lambda: not rig.coordinator.book, "the plan is over")
    assert {uid for unit in evictions.unfinished() for uid in unit.must_go}
    await rig.pod("low-2", cls="low", group="low", on="n0")
    await rig.until(lambda: not evictions.unfinished(), "the unit is let go of")
    rig.server.faults.clear()
    assert await rig.names() == {"low-1", "low-2"}
    assert not evictions.broken()
