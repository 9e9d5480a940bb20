"""A pod that somebody else deletes in the moment in which we ask for it has not gone by our hand.

The unit is untouched then, and let go of with its plan.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.gang.core.unit import EvictionUnit, Fate
from extender.gang.tell.preemption_state import PreemptionState
from extender.sandbox.faults import Fault
from tests.gang.rig import (
    HIGH,
    LOW,
    PODS,
    REAL_DELETE,
    Rig,
    answered_later,
    full_cluster,
    held_back,
    let_go,
    refuse,
)

GRACE = 30
"""Of the victims: who is deleted is there for the rest of the test."""


@pytest.fixture
def rig(patient: Rig) -> Rig:
    return patient


def unit_of(rig: Rig) -> EvictionUnit:
    (unit,) = rig.coordinator.preemptions.evictions.unfinished()
    return unit


def known_to_go(rig: Rig) -> bool:
    """Whether nobody asks for low-0 any more, as it goes; another plan may be searched for."""
    return all(
        unit.fates[v.uid] is Fate.ACCEPTED
        for unit in rig.coordinator.preemptions.evictions.unfinished()
        for v in unit.victims.values()
        if v.name == "low-0"
    )


async def begun(rig: Rig, method: str, path: str) -> Fault:
    """Let the plan come to the eviction of low-0, which is held back on its way."""
    await full_cluster(rig, grace=GRACE)
    refuse(rig, "low-1")
    held = held_back(rig, method, path)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: held.hits == 1, "it is on its way")
    return held


async def the_user_deletes(rig: Rig, *, seen: bool) -> None:
    if not seen:
        rig.server.faults.stall()
    await rig.client.delete(f"{PODS}/low-0")
    if seen:
        await rig.until(lambda: bool(rig.cached("low-0").deleting), "it is seen terminating")


async def the_plan_ends(rig: Rig) -> None:
    await rig.remove("high-1")
    await rig.until(lambda: "gave-up" in rig.outcomes("high"), "the plan ends")


async def until_let_go(rig: Rig) -> None:
    evictions = rig.coordinator.preemptions.evictions
    await rig.until(lambda: not evictions.unfinished(), "the unit is let go of")
    rig.server.faults.clear()
    await rig.rounds()
    assert await rig.names() == {*LOW, "high-0"}
    assert not rig.cached("low-1").deleting


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize(
    ("method", "path"), [("PATCH", "low-0/status"), ("DELETE", f"low-0{REAL_DELETE}")]
)
async def test_who_was_deleted_before_our_request_has_not_gone_by_our_hand(
    rig: Rig, method: str, path: str, *, seen: bool
) -> None:
    """Before its condition was written, or after that; the watch is as fast, or behind."""
    held = await begun(rig, method, path)
    await the_user_deletes(rig, seen=seen)
    let_go(held)
    await rig.until(lambda: known_to_go(rig), "its answer is there")
    assert not any(unit.touched for unit in rig.coordinator.preemptions.evictions.unfinished())
    rig.server.faults.flow()
    await the_plan_ends(rig)
    await until_let_go(rig)


async def test_the_unit_is_kept_until_it_is_known_by_whose_hand_its_pod_goes(rig: Rig) -> None:
    held = await begun(rig, "DELETE", f"low-0{REAL_DELETE}")
    await the_user_deletes(rig, seen=True)
    await the_plan_ends(rig)
    assert unit_of(rig).released
    assert {victim.name for victim in unit_of(rig).owed} == {"low-1"}
    let_go(held)
    await until_let_go(rig)


def goes(rig: Rig, name: str) -> bool:
    pod = rig.cache.pod_named("default", name)
    return pod is None or bool(pod.deleting)


@pytest.mark.parametrize("grace", [0, GRACE])
async def test_who_goes_by_our_request_is_ours_when_its_answer_is_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, grace: int
) -> None:
    """The watch is ahead of the answer, and the plan ends in between: the rest goes as well."""
    await full_cluster(rig, grace=grace)
    refused = refuse(rig, "low-1")
    answer = answered_later(rig, monkeypatch)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: goes(rig, "low-0") and refused.hits > 0, "it is seen going")
    await the_plan_ends(rig)
    assert not unit_of(rig).touched
    answer.set()
    await rig.until(lambda: unit_of(rig).touched, "the rest must go")
    rig.server.faults.clear()
    await rig.until(lambda: goes(rig, "low-1"), "it goes")


async def with_a_late_member(rig: Rig) -> None:
    """A third one of "low" may have n2 and waits; nobody else has room there."""
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="high", on="n2")
    await rig.gang("low", 2, "low", on="n", grace=GRACE)
    await rig.pod("low-late", cls="low", group="low", cpu="1", grace=GRACE)
    await rig.gang("high", 2, "high")
    assert (await rig.filter("low-late", "n2")).node_names == ["n2"]
    refuse(rig, "low-1")


async def late_member_sits(rig: Rig) -> None:
    await rig.bind("low-late", "n2")
    await rig.until(lambda: bool(rig.cached("low-late").node), "it is seen bound")


async def test_who_came_before_the_answer_goes_with_the_rest(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was on its way to a node when its gang went in part."""
    await with_a_late_member(rig)
    answer = answered_later(rig, monkeypatch)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: goes(rig, "low-0"), "it is seen going")
    await the_plan_ends(rig)
    await late_member_sits(rig)
    answer.set()
    await rig.until(lambda: goes(rig, "low-late"), "it goes")
    rig.server.faults.clear()
    await rig.until(lambda: goes(rig, "low-1"), "and so does the rest")


async def test_who_came_before_the_answer_stays_where_it_was_not_our_hand(rig: Rig) -> None:
    await with_a_late_member(rig)
    held = held_back(rig, "DELETE", f"low-0{REAL_DELETE}")
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: held.hits == 1, "it is on its way")
    await the_user_deletes(rig, seen=True)
    await the_plan_ends(rig)
    await late_member_sits(rig)
    let_go(held)
    evictions = rig.coordinator.preemptions.evictions
    await rig.until(lambda: not evictions.unfinished(), "the unit is let go of")
    rig.server.faults.clear()
    await rig.rounds()
    assert not goes(rig, "low-late")
    assert not goes(rig, "low-1")


async def test_who_comes_after_all_others_have_gone_stays_when_the_answer_is_there(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it was our hand was known when they went; the answer took the one that was made anew
    along, and nothing was recorded any more (seed 263163)."""
    await rig.nodes(1, first=2)
    await rig.pod("busy", cls="high", on="n2", cpu="2")
    await rig.gang("low", 2, "low", on="n")
    await rig.gang("high", 2, "high")
    refuse(rig, "low-1")
    answer, delete = answered_later(rig, monkeypatch), rig.own.delete

    async def in_doubt(path: str, **named: Any) -> Any:
        """Another request for the unit is lost sight of when this one is on its way."""
        if path.endswith("low-0") and not named["dry_run"]:
            unit_of(rig).doubtful_until = asyncio.get_running_loop().time() + 1000.0
        return await delete(path, **named)

    monkeypatch.setattr(rig.own, "delete", in_doubt)
    await rig.preempt("high-0", n0=["low-0"], n1=["low-1"])
    await rig.until(lambda: rig.cache.pod_named("default", "low-0") is None, "it is seen gone")
    rig.server.faults.clear()
    await rig.until(lambda: rig.cache.pod_named("default", "low-1") is None, "all have gone")
    offered = asyncio.get_running_loop().time()
    await rig.pod("low-2", cls="low", group="low", cpu="1", on="n2", grace=GRACE)
    await rig.until(lambda: rig.cache.pod_named("default", "low-2") is not None, "it is seen bound")
    evictions = rig.coordinator.preemptions.evictions
    evictions.joined("pod-group:default/low", rig.cached("low-2"), offered)
    answer.set()
    await rig.rounds()
    assert not goes(rig, "low-2")


async def test_a_pod_that_has_changed_in_between_goes_at_the_second_try(rig: Rig) -> None:
    """Its version is another one, it is not: it goes as it is, at once, and by our hand."""
    held = await begun(rig, "DELETE", f"low-0{REAL_DELETE}")
    await rig.client.patch(f"{PODS}/low-0", {"metadata": {"annotations": {"a": "b"}}})
    let_go(held)
    await rig.until(lambda: unit_of(rig).touched, "it goes by our hand")
    assert "low-0" in {p.name for p in rig.cache.store.pods.by_uid.values()}
    await the_plan_ends(rig)
    rig.server.faults.clear()
    await rig.until(lambda: goes(rig, "low-1"), "and so does the rest")


async def test_without_the_condition_the_pod_is_read_first(rig: Rig) -> None:
    """What its answer would have told is asked for."""
    rig.server.faults.plan(Fault(times=1, method="PATCH", path="low-0/status", status=403))
    held = await begun(rig, "GET", "pods/low-0$")
    await the_user_deletes(rig, seen=False)
    let_go(held)
    await rig.until(lambda: known_to_go(rig), "it is read")
    assert not any(unit.touched for unit in rig.coordinator.preemptions.evictions.unfinished())
    rig.server.faults.flow()
    await the_plan_ends(rig)
    await until_let_go(rig)


async def test_a_pod_that_cannot_be_read_is_not_asked_for_and_in_no_doubt(rig: Rig) -> None:
    """Nothing has left: who takes a pod of the unit later is not us."""
    rig.server.faults.plan(Fault(times=1, method="PATCH", path="low-0/status", status=403))
    unread = rig.server.faults.plan(
        Fault(times=10_000, method="GET", path="pods/low-0$", status=503)
    )
    asked = rig.server.faults.plan(
        Fault(times=10_000, method="DELETE", path=f"low-0{REAL_DELETE}", status=503)
    )
    await full_cluster(rig, grace=GRACE)
    refuse(rig, "low-1")
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: unread.hits > 1, "it cannot be read")
    assert not asked.hits
    assert not unit_of(rig).doubtful_until
    await the_plan_ends(rig)
    await until_let_go(rig)


async def test_a_plan_goes_on_with_whom_somebody_else_has_taken(rig: Rig) -> None:
    """Less is evicted, never more: the rest of the unit is still a victim of its plan."""
    held = await begun(rig, "DELETE", f"low-0{REAL_DELETE}")
    await the_user_deletes(rig, seen=True)
    let_go(held)
    rig.server.faults.clear()
    await rig.until(lambda: goes(rig, "low-1"), "the rest goes")
    (preemption,) = rig.coordinator.reservations
    assert preemption.state is PreemptionState.WAITING
    assert {p.name for p in rig.cache.store.pods.by_uid.values()} == {*LOW, *HIGH}
