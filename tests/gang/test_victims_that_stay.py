"""Pods that a plan waits for and that do not terminate: it goes on where it can do without them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from extender.gang.controller.planner_thread import PlannerThread
from extender.model.plan import Plan, Refusal
from tests.gang.rig import PODS, Rig, held_back

FINALIZER = {"metadata": {"finalizers": ["example.com/stays"]}}


async def stays(rig: Rig, name: str) -> None:
    """Once it is evicted, the pod keeps its deletionTimestamp and its place."""
    await rig.client.patch(f"{PODS}/{name}", FINALIZER)


async def half_of_a_gang_stays(rig: Rig, members: int = 1) -> None:
    """Of a gang on n0 and n1 low-1 does not go, and a plan for the gang high waits for it."""
    await rig.gang("low", 2, "low", on="n")
    for n in (2, 3):
        await rig.pod(f"same-{n}", cls="top", on=f"n{n}")
    await stays(rig, "low-1")
    await rig.until(lambda: rig.cache.pod_named("default", "same-3") is not None)
    await rig.gang("high", members, "high")
    for i in range(members):
        await rig.preempt(f"high-{i}", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 is gone")


async def half_of_a_gang_stays_beside_another_pod(rig: Rig) -> None:
    """Pod "beside" has the place of "same-3": another plan could evict it."""
    await half_of_a_gang_stays(rig)
    await rig.remove("same-3")
    await rig.pod("beside", cls="low", on="n3")


async def offered(rig: Rig, name: str, *nodes: str) -> list[str]:
    """Ask for a pod until it has a node, and return which."""
    for _ in range(100):
        answer = await rig.filter(name, *nodes)
        if answer.node_names:
            return answer.node_names
        await rig.rounds(1)
    raise AssertionError(f"{name} has no node")


@pytest.mark.parametrize("node_goes", [False, True])
async def test_the_gang_gets_the_room_of_the_rest_of_its_gang(
    wide: Rig,
    node_goes: bool,  # noqa: FBT001
) -> None:
    """n1, with the pod that stays, has no seat: it is held by a finalizer, or its node is gone."""
    rig = wide
    await half_of_a_gang_stays(rig)
    if node_goes:
        await rig.client.delete("/api/v1/nodes/n1")
    await rig.pod("anew", cls="low")
    await rig.until(lambda: rig.outcomes("high").count("plan") == 2, "another plan is made")
    assert not (await rig.filter("anew", "n0")).node_names
    assert await offered(rig, "high-0", "n0") == ["n0"]
    await rig.bind("high-0", "n0")
    await rig.until(lambda: "done" in rig.outcomes("high"), "it runs")
    assert "gave-up" not in rig.outcomes("high")
    assert "low-1 did not go away within the grace period" in rig.messages("high")
    assert "low-1" in await rig.names()


async def test_no_pod_is_evicted_where_that_plan_is_changed_later(wide: Rig) -> None:
    """The node of the plan without victims is cordoned: "no other pod" holds for it too."""
    rig = wide
    await half_of_a_gang_stays_beside_another_pod(rig)
    await rig.until(lambda: rig.outcomes("high").count("plan") == 2, "another plan is made")
    (preemption,) = rig.coordinator.reservations
    assert set(preemption.seats.values()) == {"n0"}
    await rig.client.patch("/api/v1/nodes/n0", {"spec": {"unschedulable": True}})
    await rig.until(lambda: len(rig.outcomes("high")) > 2, "its end or its change is told")
    assert rig.outcomes("high")[:3] == ["plan", "plan", "gave-up"]
    assert "would have to be evicted, because others do not terminate" in rig.messages("high")


async def test_a_pod_that_goes_during_the_search_leaves_its_room(
    wide: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both members need a node, and n1 is free only once the finalizer is taken off."""
    rig = wide
    search = PlannerThread.plan

    async def plan(*asked: Any) -> Plan | Refusal:
        found = await search(*asked)
        pod = rig.cache.pod_named("default", "low-1")
        if isinstance(found, Refusal) and pod is not None and pod.deleting:
            await rig.client.patch(f"{PODS}/low-1", {"metadata": {"finalizers": None}})
            await rig.until(lambda: rig.cache.pod_named("default", "low-1") is None, "it is gone")
        return found

    monkeypatch.setattr(PlannerThread, "plan", plan)
    await half_of_a_gang_stays(rig, members=2)
    await rig.until(lambda: len(rig.outcomes("high")) > 2, "it is searched for again")
    assert rig.outcomes("high")[:3] == ["plan", "infeasible", "plan"]
    await rig.pod("anew", cls="low")
    assert not (await rig.filter("anew", "n0", "n1")).node_names
    assert await offered(rig, "high-0", "n0", "n1")


async def test_room_elsewhere_does_as_well(wide: Rig) -> None:
    """The victim's own node has the seat, and another pod has gone by itself meanwhile."""
    rig = wide
    for n in range(4):
        await rig.pod(f"pod-{n}", cls="top" if n else "low", on=f"n{n}")
    await stays(rig, "pod-0")
    await rig.gang("high", 1, "high")
    await rig.preempt("high-0", n0=["pod-0"])
    await rig.until(lambda: rig.cached("pod-0").deleting is not None, "it is evicted")
    await rig.remove("pod-3")
    assert await offered(rig, "high-0", "n3") == ["n3"]
    assert "gave-up" not in rig.outcomes("high")
    assert await rig.names() == {"pod-0", "pod-1", "pod-2", "high-0"}


async def test_a_pod_that_terminated_before_and_stays_is_waited_for_no_longer(wide: Rig) -> None:
    """Nothing is evicted for the plan: it waits for room that was to come in any case."""
    rig = wide
    for n in range(4):
        await rig.pod(f"pod-{n}", cls="top" if n else "low", on=f"n{n}", grace=1)
    await stays(rig, "pod-0")
    await rig.client.delete(f"{PODS}/pod-0")
    await rig.until(lambda: rig.cached("pod-0").deleting is not None, "it terminates")
    await rig.gang("high", 1, "high")
    await rig.preempt("high-0", n0=["pod-0"])
    (preemption,) = rig.coordinator.reservations
    assert preemption.waits
    assert not preemption.victims
    await rig.remove("pod-3")
    assert await offered(rig, "high-0", "n3") == ["n3"]
    assert "gave-up" not in rig.outcomes("high")
    assert await rig.names() == {"pod-0", "pod-1", "pod-2", "high-0"}


async def test_no_other_pod_is_evicted_in_its_place(wide: Rig) -> None:
    """The plan is given up where only another eviction would make room."""
    rig = wide
    for n in range(4):
        await rig.pod(f"pod-{n}", cls=("low", "mid")[n > 0], on=f"n{n}")
    await stays(rig, "pod-0")
    await rig.gang("high", 1, "high")
    await rig.preempt("high-0", n0=["pod-0"])
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan is given up")
    why = "1 more pod would have to be evicted, because others do not terminate"
    assert why in rig.messages("high")
    assert await rig.names() == {"pod-0", "pod-1", "pod-2", "pod-3", "high-0"}


async def test_a_restart_before_the_new_record_is_written_goes_on_with_the_old_one(
    wide: Rig,
) -> None:
    """The room was evicted for the gang: nobody else gets it in between."""
    rig = wide
    await half_of_a_gang_stays(rig)
    held = held_back(rig, "POST", "configmaps", times=1000)
    await rig.until(lambda: rig.outcomes("high").count("plan") == 2, "another plan is made")
    await rig.until(lambda: held.hits > 0, "its record is on its way")
    await rig.kill()
    rig.server.faults.clear()
    await rig.start()
    await rig.pod("anew", cls="low")
    assert not (await rig.filter("anew", "n0")).node_names
    assert await offered(rig, "high-0", "n0") == ["n0"]


async def no_pod_goes_once_the_seat_s_node_is_cordoned(rig: Rig) -> None:
    """Another plan would have to evict "beside", though an evicted pod has not gone in time."""
    (preemption,) = rig.coordinator.reservations
    (node,) = preemption.seats.values()
    await rig.client.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "it ends")
    assert "would have to be evicted, because others do not terminate" in rig.messages("high")
    assert "beside" in await rig.names()


async def test_no_pod_is_evicted_after_a_restart_either(wide: Rig) -> None:
    """What the plan with the late victim became is in the record, and so is why."""
    rig = wide
    await half_of_a_gang_stays_beside_another_pod(rig)
    await rig.until(lambda: rig.outcomes("high").count("plan") == 2, "another plan is made")
    await rig.until(lambda: any(p.recorded for p in rig.coordinator.reservations), "it is recorded")
    await rig.restart()
    await no_pod_goes_once_the_seat_s_node_is_cordoned(rig)


async def test_no_pod_is_evicted_after_a_restart_with_the_old_record(wide: Rig) -> None:
    """It does not say that a victim is late: the victim's deletionTimestamp does."""
    rig = wide
    await half_of_a_gang_stays_beside_another_pod(rig)
    held = held_back(rig, "POST", "configmaps", times=1000)
    await rig.until(lambda: rig.outcomes("high").count("plan") == 2, "another plan is made")
    await rig.until(lambda: held.hits > 0, "its record is on its way")
    late = rig.cached("low-1").deleting + 2
    await rig.until(lambda: time.time() > late, "its slack is over, by the clock in seconds")
    await rig.kill()
    rig.server.faults.clear()
    await rig.start()
    await no_pod_goes_once_the_seat_s_node_is_cordoned(rig)


async def test_a_pod_of_no_gang_takes_free_room_after_a_restart_too(wide: Rig) -> None:
    """Where kube-scheduler would have it preempt is not recorded, and not asked where no pod is
    evicted."""
    rig = wide
    await rig.gang("low", 2, "low", on="n")
    for n in (2, 3):
        await rig.pod(f"same-{n}", cls="top", on=f"n{n}")
    await stays(rig, "low-1")
    await rig.pod("high", cls="high")
    await rig.until(lambda: rig.cache.pod_named("default", "same-3") is not None)
    await rig.preempt("high", n0=["low-0"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "low-0 is gone")
    await rig.restart()
    await rig.until(lambda: len(rig.outcomes("high")) > 1, "it is changed")
    assert rig.outcomes("high") == ["plan", "plan"]
    assert await offered(rig, "high", "n0") == ["n0"]
