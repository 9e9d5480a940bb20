"""A nomination that we have written keeps room: nobody keeps one to a seat that he has not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from extender.gang.core.preemption import End
from extender.gang.tell.preemption_state import PreemptionState
from extender.settings.settings import SeatSettings
from tests.gang.rig import FAST, LOW, PODS, Rig
from tests.gang.test_single_candidates import whole_gang_on_n0


async def test_a_member_whose_seat_another_member_has_now(patient: Rig) -> None:
    """kube-scheduler kept the room for it, and refused the other there."""
    rig = patient
    for i in range(2):
        await rig.pod(f"low-{i}", cls="low", on=f"n{i}", grace=30)
    await rig.group("high", 2, "high")
    for i in range(3):
        await rig.pod(f"high-{i}", cls="high", group="high")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 5)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    (first,) = rig.coordinator.reservations
    seats = {first.pods[uid].name: node for uid, node in first.seats.items()}
    await rig.until(lambda: all(rig.cached(n).nominated == node for n, node in seats.items()))
    bigger = min(seats)
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}
    await rig.client.patch(f"{PODS}/{bigger}", {"spec": {"containers": [container]}})
    await rig.until(
        lambda: any(each is not first for each in rig.coordinator.reservations), "another plan"
    )
    (second,) = rig.coordinator.reservations
    assert bigger not in {second.pods[uid].name for uid in second.seats}
    await rig.until(lambda: rig.cached(bigger).nominated == "", "it keeps nobody's room")


@pytest.mark.parametrize("nominate", [True, False])
async def test_a_pod_that_a_plan_without_victims_seats_elsewhere(*, nominate: bool) -> None:
    """kube-scheduler had nominated it to another node; the plan's own nomination stayed."""
    seats = SeatSettings(bind_seconds=30.0, victim_slack_seconds=1.0, nominate=nominate)
    async with Rig(replace(FAST, seats=seats)) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100, top=1000)
        await rig.pod("leaving", cls="top", on="n1")
        await whole_gang_on_n0(rig, 1, cpu="2")
        await rig.client.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n0"}})
        await rig.until(lambda: rig.cached("p").nominated == "n0")
        await rig.remove("leaving")
        await rig.until(lambda: rig.cache.pod_named("default", "leaving") is None)
        await rig.preempt("p", n0=[*LOW])
        (preemption,) = rig.coordinator.reservations
        assert not preemption.plan.victims
        await rig.until(lambda: preemption.state is PreemptionState.OPEN, "its seat is open")
        await rig.rounds(2)
        assert rig.cached("p").nominated == ("n1" if nominate else "n0")
        rig.coordinator.executor.feed(End(preemption, "not bound in time", penal=True))
        await rig.until(lambda: rig.cached("p").nominated == "", "it is taken back")


async def test_a_member_whose_nomination_could_not_be_taken_back_keeps_its_gangs_own_room(
    rig: Rig,
) -> None:
    """The other's list lacked that node, and somebody went beside it (seed 897415 with sparing)."""
    await rig.nodes(1, first=2)
    await rig.pod("low-0", cls="low", on="n0")
    await rig.gang("high", 2, "high")
    await rig.client.patch(f"{PODS}/high-0/status", {"status": {"nominatedNodeName": "n1"}})
    await rig.until(lambda: rig.cached("high-0").nominated == "n1")
    rig.coordinator.evidence._freed.clear()  # its nodes are not new
    await rig.filter("high-1", "n2")
    (preemption,) = rig.coordinator.reservations
    assert set(preemption.seats.values()) == {"n1", "n2"}
    assert not preemption.plan.victims
