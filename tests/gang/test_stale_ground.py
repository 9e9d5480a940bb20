"""Nothing that destroys rests on an old picture of the cluster."""

from __future__ import annotations

import pytest

from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, LOW, Rig, full_cluster


async def test_no_unit_is_begun_while_the_cache_is_stale(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member may be gone by now and nobody here knows: the plan waits, and gives up."""
    await full_cluster(rig)
    mark = rig.server.faults.plan(Fault(times=2, method="PATCH", path="low-./status", delay=2.0))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: mark.hits > 0, "victims are being marked")
    monkeypatch.setattr(rig.cache, "stale_for", lambda: 11.0)
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "it gives up")
    assert await rig.names() == {*LOW, *HIGH}
