"""Members that are shielded run on beside the unit that goes, in a life after that as well."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from extender.sandbox.faults import Fault
from tests.gang.rig import PODS, REAL_DELETE, Rig, refuse, until_no_records

PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
TOLERATION = "preemption-toleration.scheduling.x-k8s.io"
SHIELDS = ["annotated", "tolerant"]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with Rig() as rig:
        await rig.nodes(3)
        await rig.classes(low=10, high=100)
        await rig.client.create(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "metadata": {
                    "name": "tolerant",
                    "annotations": {
                        f"{TOLERATION}/minimum-preemptable-priority": "1000",
                        f"{TOLERATION}/toleration-seconds": "3600",
                    },
                },
                "value": 10,
            },
        )
        yield rig


async def three_of_whom_one_stays(rig: Rig, shield: str) -> None:
    await rig.group("low", 3, "low")
    classes = ["low", "low", "tolerant" if shield == "tolerant" else "low"]
    for i, cls in enumerate(classes):
        await rig.pod(f"low-{i}", cls=cls, group="low", on=f"n{i}", grace=30)
    if shield == "annotated":
        await rig.client.patch(f"{PODS}/low-2", PROTECTED)
    await rig.gang("high", 2, "high")
    newest = max(pod.created for pod in rig.cache.store.pods.by_uid.values())
    await rig.until(lambda: time.time() >= newest + 2.1, "they are older than the record for sure")


@pytest.mark.parametrize("shield", SHIELDS)
@pytest.mark.parametrize("restart", [False, True])
async def test_the_rest_goes_and_they_stay(rig: Rig, shield: str, *, restart: bool) -> None:
    """After a restart they counted as come late: they went, or the unit was broken for good."""
    await three_of_whom_one_stays(rig, shield)
    rig.server.faults.plan(Fault(10_000, "DELETE", f"low-1{REAL_DELETE}", status=503))
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: bool(rig.cached("low-0").deleting), "one goes")
    if restart:
        await rig.kill()
    rig.server.faults.clear()
    await rig.remove("high-0")
    if restart:
        await rig.start()
    await rig.until(lambda: bool(rig.cached("low-1").deleting), "the rest goes")
    for name in ("low-0", "low-1"):
        await rig.remove(name)
    await rig.rounds(8)
    assert not rig.cached("low-2").deleting
    assert not rig.coordinator.plans.victims.unfinished(), "nothing is owed"
    await asyncio.wait_for(until_no_records(rig), 5)


@pytest.mark.parametrize("shield", SHIELDS)
async def test_they_stay_when_the_leader_changes_while_the_others_terminate(
    rig: Rig, shield: str
) -> None:
    """No fault at all: every eviction has been accepted."""
    await three_of_whom_one_stays(rig, shield)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: all(rig.cached(f"low-{i}").deleting for i in (0, 1)), "both terminate")
    await rig.rounds()
    await rig.restart()
    await rig.rounds(8)
    assert not rig.cached("low-2").deleting


@pytest.mark.parametrize("restart", [False, True])
async def test_they_have_not_come_in_the_place_of_who_went(rig: Rig, *, restart: bool) -> None:
    """The gang had its quorum with one of them, so the rest was let go of: half a unit stayed."""
    await rig.group("low", 2, "low")
    for i in range(3):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}")
    await rig.client.patch(f"{PODS}/low-2", PROTECTED)
    await rig.gang("high", 2, "high")
    refuse(rig, "low-1")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "one has gone")
    if restart:
        await rig.kill()
    await rig.remove("high-0")
    if restart:
        await rig.start()
    await rig.until(lambda: not rig.coordinator.reservations, "the plan is over")
    rig.server.faults.clear()
    await rig.until_names("low-2", "high-1")
