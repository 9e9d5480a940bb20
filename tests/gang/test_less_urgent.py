"""A gang that becomes less urgent while its plan evicts, or one of its victims more urgent."""

from __future__ import annotations

from extender.sandbox.faults import Fault
from tests.gang.rig import FAST, HIGH, REAL_DELETE, Rig, full_cluster, half_evicted
from tests.gang.test_units_finished import until_warned

GROUP = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups/high"


async def test_nobody_else_goes_for_a_gang_that_is_less_urgent_by_now() -> None:
    """One of its victims has gone by then, and the other's eviction is tried again and again."""
    async with Rig(FAST) as rig:
        await rig.nodes(2)
        await rig.classes(low=60, high=100)
        await half_evicted(rig)
        await rig.client.patch(GROUP, {"spec": {"priority": 50}})
        await rig.until(
            lambda: any(g.priority == 50 for g in rig.cache.snapshot().groups.values()), "priority"
        )
        rig.server.faults.clear()
        await rig.until(lambda: not list(rig.coordinator.reservations), "the plan ends")
        await rig.rounds()
        assert await rig.names() == {"low-1", *HIGH}


async def test_rest_of_a_unit_that_is_as_urgent_by_now_stays_and_that_is_told() -> None:
    """The owner was told what the API server had said before, and that it would be tried again."""
    async with Rig(FAST) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        rig.server.faults.plan(
            Fault(times=10_000, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
        )
        await rig.preempt("high-0", n0=["low-0"])
        await until_warned(rig, "low-1", "GangBroken")
        await rig.client.patch(GROUP.replace("high", "low"), {"spec": {"priority": 100}})
        await rig.until(
            lambda: "its priority 100 is not below 100" in rig.messages("high"), "it is told"
        )
        (unit,) = rig.coordinator.plans.victims.broken()
        assert unit.error == "default/low-1: its priority 100 is not below 100"
        rig.server.faults.clear()
        await rig.rounds()
        assert "low-1" in await rig.names()
