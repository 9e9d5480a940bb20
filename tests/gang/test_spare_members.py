"""A seated member that is deleted before the seats open: another one like it takes its place."""

from __future__ import annotations

import pytest

from tests.gang.rig import PODS, Rig
from tests.gang.test_victims_that_stay import offered, stays


async def two_of_three_wait(rig: Rig, cpu: str = "3") -> str:
    """A gang on n0 and n1 goes for two of three members; return the one without a seat."""
    await rig.gang("low", 2, "low", on="n")
    await stays(rig, "low-0")
    await stays(rig, "low-1")
    await rig.group("high", 2, "high")
    for i in range(3):
        await rig.pod(f"high-{i}", cls="high", group="high", cpu=cpu if i == 2 else "3")
    await rig.until(lambda: rig.cache.pod_named("default", "high-2") is not None, "all are there")
    for i in range(3):
        await rig.preempt(f"high-{i}", n0=["low-0"], n1=["low-1"])
    both = [rig.cached(f"low-{i}").uid for i in range(2)]
    await rig.until(lambda: rig.coordinator.executor.plans.victims.accepted(both[0]), "it goes")
    await rig.until(lambda: rig.coordinator.executor.plans.victims.accepted(both[1]), "it goes")
    (preemption,) = rig.coordinator.reservations
    (spare,) = {f"high-{i}" for i in range(3)} - {seat.name for seat in preemption.plan.seats}
    return spare


async def test_the_plan_goes_on_with_another_member(patient: Rig) -> None:
    """The room that pods were evicted for stays the gang's, and no further pod is evicted."""
    rig = patient
    spare = await two_of_three_wait(rig)
    gone, other = sorted({"high-0", "high-1", "high-2"} - {spare})
    await rig.remove(gone)
    await rig.until(lambda: len(rig.outcomes("high")) > 1, "it is changed")
    assert rig.outcomes("high") == ["plan", "plan"]
    (preemption,) = rig.coordinator.reservations
    assert {seat.name for seat in preemption.plan.seats} == {spare, other}
    for i in range(2):
        await rig.client.patch(f"{PODS}/low-{i}", {"metadata": {"finalizers": None}})
    for name in (spare, other):
        (node,) = await offered(rig, name, "n0", "n1")
        await rig.bind(name, node)
    await rig.until(lambda: "done" in rig.outcomes("high"), "it runs")
    assert rig.outcomes("high") == ["plan", "plan", "done"]


@pytest.mark.parametrize("cpu", ["4", "2"])
async def test_the_plan_ends_where_the_other_member_is_unlike(patient: Rig, cpu: str) -> None:
    """What is searched for then may need other pods to go."""
    rig = patient
    spare = rig.cached(await two_of_three_wait(rig, cpu))
    seated = [rig.cached(f"high-{i}") for i in range(3) if f"high-{i}" != spare.name]
    gone = next(pod.name for pod in seated if pod.requests != spare.requests)
    await rig.remove(gone)
    await rig.until(lambda: len(rig.outcomes("high")) > 1, "it ends")
    assert rig.outcomes("high")[:2] == ["plan", "gave-up"]
    assert f"{gone} went away before it was bound" in rig.messages("high")
