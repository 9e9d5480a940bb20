"""Room that is kept for another pod is no room for less urgent seats, and not kept for nobody."""

from __future__ import annotations

from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.faults import Fault
from tests.gang.rig import HIGH, PODS, REAL_DELETE, Rig, full_cluster


async def waiting(rig: Rig) -> None:
    """A gang of one with a seat where a pod is leaving, and an urgent pod of no gang."""
    await rig.pod("leaving", cls="low", on="n0", grace=60)
    await rig.pod("other", cls="top", on="n1")
    await rig.client.delete(f"{PODS}/leaving", grace=60)
    await rig.until(lambda: bool(rig.cached("leaving").deleting), "it terminates")
    await rig.gang("calm", 1, "high")
    await rig.coordinator.ensure(rig.resolver_key("calm-0"), Verb.LOOP)
    (preemption,) = rig.coordinator.reservations
    assert list(preemption.seats.values()) == ["n0"]
    await rig.pod("urgent", cls="top")


async def nominate(rig: Rig, name: str) -> None:
    """As kube-scheduler does once it was allowed to preempt there."""
    status = {"status": {"nominatedNodeName": "n0"}}
    await rig.client.patch(f"{PODS}/{name}/status", status)
    await rig.until(lambda: rig.cached(name).nominated == "n0", "it is nominated")


async def test_seats_do_not_open_where_another_pod_was_allowed_to_preempt(rig: Rig) -> None:
    await waiting(rig)
    (preemption,) = rig.coordinator.reservations
    answer = await rig.preempt("urgent", n0=["leaving"])
    assert list(answer.candidates) == ["n0"]  # more urgent than the gang
    await rig.remove("leaving")
    await rig.until(lambda: not preemption.waits, "its room is there")
    assert rig.coordinator.preconditions.crowded(preemption)
    assert preemption.state is not PreemptionState.OPEN
    assert (await rig.filter("calm-0", "n0")).node_names == []


async def test_a_plan_is_compared_again_when_its_room_is_kept_for_a_more_urgent_pod(
    rig: Rig,
) -> None:
    await waiting(rig)
    (preemption,) = rig.coordinator.reservations
    await nominate(rig, "urgent")
    await rig.until(lambda: preemption.over, "the plan does not hold any more")


async def test_a_nomination_of_the_less_urgent_is_no_reason(rig: Rig) -> None:
    await waiting(rig)
    (preemption,) = rig.coordinator.reservations
    await rig.pod("small", cls="low")
    await nominate(rig, "small")
    assert not preemption.doubted
    assert rig.coordinator.preconditions.problem(preemption) == ""


async def test_the_nominations_of_a_plan_before_go_with_the_last_one(rig: Rig) -> None:
    """kube-scheduler kept room for a plan that had ended, and so did searches (seed 124370)."""
    await full_cluster(rig)
    refused = Fault(times=10**6, method="DELETE", path=f"low-1{REAL_DELETE}", status=429)
    rig.server.faults.plan(refused)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: all(rig.cached(name).nominated for name in HIGH), "both are nominated")
    reservations = rig.coordinator.reservations
    await rig.nodes(2, first=2)
    await rig.pod("low-2", cls="low", group="low", on="n2")  # low is whole again: it stays
    await rig.until(lambda: [len(f.victims) for f in reservations] == [0], "a plan without victims")
    await rig.remove("high-1")
    await rig.until(lambda: not reservations, "the plan is over")
    await rig.until(lambda: not rig.cached("high-0").nominated, "no node is kept for it")
