"""Pods that we keep off every node are woken once that is over.

kube-scheduler tries them of itself, but only after five minutes.
"""

from __future__ import annotations

import pytest

from extender.gang.controller.notifier import WAKE_ANNOTATION
from extender.gang.tell.decisions import Verb
from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.faults import Fault
from tests.gang.limited import tried
from tests.gang.rig import (
    HIGH,
    LOW,
    PODS,
    REAL_DELETE,
    Rig,
    full_cluster,
    held_back,
    let_go,
)
from tests.gang.test_promised_victims import (
    GROUPS,
    STARTS_ONE_BY_ONE,
    newcomer_waits_for_the_rest,
    pair,
)
from tests.gang.test_room_of_others import Gate

MID = ("mid-0", "mid-1")


async def until_woken(rig: Rig, name: str) -> None:
    await rig.until(lambda: WAKE_ANNOTATION in rig.cached(name).annotations, f"{name} is woken")


async def test_who_is_beyond_the_quorum_of_a_gang_that_stays_after_all(rig: Rig) -> None:
    """It was refused with its gang, for which nobody looks: it has its quorum."""
    await full_cluster(rig)
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="top", on="n2", cpu="2")
    await rig.until(lambda: rig.cache.pod_named("default", "busy") is not None)
    marks = held_back(rig, "PATCH", "low-.*/status", times=1000)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: marks.hits > 0, "evictions are about to be sent")
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    assert not (await rig.filter("low-2", "n2")).node_names
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")
    let_go(marks)
    await rig.until(lambda: not rig.coordinator.plans.victims.unfinished(), "it is let go of")
    assert {*LOW} <= await rig.names()
    await until_woken(rig, "low-2")
    assert (await rig.filter("low-2", "n2")).node_names == ["n2"]


@pytest.mark.parametrize("together", [True, False])
async def test_who_is_asked_about_in_preempt_alone(rig: Rig, *, together: bool) -> None:
    """filter is not asked where every node is full, and preempt noted nobody."""
    await pair(rig, together=together)
    deletes = held_back(rig, "DELETE", f"low-.*{REAL_DELETE}", times=1000)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: deletes.hits > 0, "evictions are sent")
    await rig.pod("low-2", cls="low", group="low", cpu="1")
    assert not (await rig.preempt("low-2", n1=["low-1"])).candidates
    let_go(deletes)
    await rig.until_names("low-2", "high-0", "high-1")
    await until_woken(rig, "low-2")


async def test_who_waits_for_a_unit_that_is_broken(rig: Rig) -> None:
    """Its rest was refused for good and nobody was kept away any more, nor told."""
    await pair(rig, together=False)
    await rig.nodes(1, first=2)
    await newcomer_waits_for_the_rest(rig)
    await rig.until(lambda: bool(rig.coordinator.plans.victims.broken()), "its rest stays")
    await until_woken(rig, "low-2")
    assert rig.coordinator.plans.victims.unfinished()


async def other_victims(rig: Rig, gate: Gate) -> None:
    """Have the plan changed that takes low-0 and low-1, right before its record is written."""
    note = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}
    for name in LOW:
        await rig.client.patch(f"{PODS}/{name}", note)
    await rig.until(lambda: all(rig.cached(name).annotations for name in LOW), "both stay")
    gate.opened.set()
    await rig.until(
        lambda: any(
            {v.name for v in f.victims.values()} == set(MID) for f in rig.coordinator.reservations
        ),
        "another plan takes its place",
    )


async def about_to_take_low(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Gate:
    """A plan that takes low-0 and low-1 on n0 and n1, with others who could go on n2 and n3, and
    who take ten minutes for it."""
    for i, name in enumerate(MID):
        await rig.pod(name, cls="mid", on=f"n{i + 2}", grace=600)
    await rig.group("high", 2, "high")
    for name in HIGH:
        await rig.pod(name, cls="high", group="high", cpu="4")
    await rig.until(lambda: len(rig.cache.store.pods.by_uid) == 6, "six pods")
    rig.coordinator.evidence._freed.clear()  # no node is new
    gate = Gate(rig.coordinator.executor._keeper.write, after=False)
    monkeypatch.setattr(rig.coordinator.executor._keeper, "write", gate)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: gate.reached, "its record is about to be written")
    (preemption,) = rig.coordinator.reservations
    assert {victim.name for victim in preemption.victims.values()} == set(LOW)
    return gate


async def test_who_waits_for_a_unit_that_another_plan_leaves_alone(
    wide: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing had been asked for when the plan was changed, so no unit ended."""
    await wide.client.create(GROUPS, STARTS_ONE_BY_ONE)
    for i, name in enumerate(LOW):
        await wide.pod(name, cls="low", group="low", on=f"n{i}")
    gate = await about_to_take_low(wide, monkeypatch)
    await wide.pod("low-2", cls="low", group="low", cpu="1")
    assert not (await wide.filter("low-2", "n0")).node_names
    await other_victims(wide, gate)
    await until_woken(wide, "low-2")
    assert wide.coordinator.reservations, "its victims still go"


async def test_who_is_kept_off_seats_that_another_plan_does_not_hold(
    wide: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan was changed, and did not end."""
    for i, name in enumerate(LOW):
        await wide.pod(name, cls="low", on=f"n{i}")
    gate = await about_to_take_low(wide, monkeypatch)
    await wide.pod("p", cls="low", cpu="1")
    assert not (await wide.filter("p", "n0", "n1")).node_names
    await other_victims(wide, gate)
    await until_woken(wide, "p")
    assert wide.coordinator.reservations, "its victims still go"
    assert (await wide.filter("p", "n0", "n1")).node_names == ["n0", "n1"]


@pytest.mark.parametrize("dropped", [True, False])
async def test_who_was_kept_off_by_a_life_before(rig: Rig, *, dropped: bool) -> None:
    """Its plan was dropped by the next life, or ended in it, which knew nobody to be woken."""
    await rig.gang("high", 2, "high")
    await rig.coordinator.ensure(rig.resolver_key("high-0"), Verb.LOOP)
    (preemption,) = rig.coordinator.reservations
    await rig.until(lambda: preemption.state is PreemptionState.OPEN)
    for name in ("p", "elsewhere"):
        await rig.pod(name, cls="low", cpu="3")
        await tried(rig, name)
    await rig.client.patch(f"{PODS}/elsewhere", {"spec": {"schedulerName": "another"}})
    await rig.until(lambda: rig.cached("elsewhere").shape.scheduler == "another")
    assert not (await rig.filter("p", "n0", "n1")).node_names
    await rig.kill()
    woken = rig.server.faults.plan(Fault(times=100, method="PATCH", path="pods/p/status"))
    elsewhere = rig.server.faults.plan(Fault(times=100, method="PATCH", path="pods/elsewhere"))
    if dropped:
        await rig.remove("high-0")
    await rig.start()
    if not dropped:
        await rig.remove("high-0")
    await rig.until(lambda: woken.hits >= 2, "p is nominated, and is not any more")
    await rig.rounds()
    assert not elsewhere.hits
