"""Repairs that a second reader found wanting: each brought what these tests show."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from extender.gang.core.victim_group import Phase
from extender.gang.runtime.clocks import Clocks
from extender.sandbox.faults import Fault
from tests.gang.rig import LOW, PODS, REAL_DELETE, Rig, refuse
from tests.gang.test_single_candidates import whole_gang_on_n0

NAMESPACES = "/api/v1/namespaces"
PROTECTED = {"metadata": {"annotations": {"podgroup-extender.io/protected": "true"}}}


def hurry(rig: Rig, seconds: float) -> None:
    """Let evictions be tried again after a while, and not at once."""

    async def short(_: float) -> None:
        await asyncio.sleep(seconds)

    rig.coordinator.executor._evictor._clocks = Clocks(sleep=short)


async def test_a_gang_that_is_whole_again_while_another_plan_wants_it(patient: Rig) -> None:
    """The other plan knew who had come, so the gang was not whole by others, and was evicted for
    two plans that were over."""
    rig = patient
    await rig.nodes(2, first=2)
    await rig.group("low", 2, "low")
    for i in range(3):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}", grace=300 if i == 0 else 0)
    await rig.pod("busy", cls="high", on="n3")
    await rig.gang("high", 1, "high")
    evictions = rig.coordinator.plans.victims
    for name in ("low-1", "low-2"):
        path = f"{name}{REAL_DELETE}"
        rig.server.faults.plan(Fault(10**6, "DELETE", path, status=403, reason="Forbidden"))
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: bool(rig.cached("low-0").deleting), "it terminates")
    (unit,) = evictions.unfinished()
    rest = [rig.cached(name).uid for name in ("low-1", "low-2")]
    await rig.until(
        lambda: all(unit.victims[uid].phase is Phase.REFUSED for uid in rest), "refused"
    )
    await rig.remove("high-0")
    await rig.until(lambda: not rig.coordinator.reservations, "its plan is over")
    await rig.pod("low-3", cls="low", group="low", cpu="1")
    await rig.client.patch(f"{PODS}/low-3", PROTECTED)
    await rig.bind("low-3", "n3")
    await rig.until(lambda: bool(rig.cached("low-3").node and rig.cached("low-3").annotations))
    hurry(rig, 0.5)
    for uid in rest:
        evictions.refusals.forget(uid)
    await rig.gang("next", 2, "high")
    await rig.preempt("next-0", n1=["low-1"], n2=["low-2"])
    await rig.until(lambda: len(unit.claims) == 2, "a second plan has begun")
    await rig.remove("next-0")
    await rig.until(lambda: not rig.coordinator.reservations, "it is over too")
    await rig.remove("low-0")
    await rig.until(lambda: not evictions.unfinished(), "the rest is let go of")
    assert {"low-1", "low-2", "low-3"} <= await rig.names()


async def test_pods_that_come_to_a_node_that_was_not_named_are_no_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks free to us and a plugin of kube-scheduler's refuses it: three plans for one."""
    await rig.pod("top", cls="top", on="n1", cpu="4")
    await rig.nodes(1, first=2)
    await whole_gang_on_n0(rig, 1, cpu="1")
    keeper: Any = rig.coordinator.executor._keeper
    write, plans = keeper.write, 0

    async def slow(*args: Any) -> None:
        nonlocal plans
        plans += 1
        name = f"came-{plans}"
        await rig.pod(name, cls="low", on="n2", cpu="1m")
        await rig.until(lambda: rig.cache.pod_named("default", name) is not None, name)
        await write(*args)

    monkeypatch.setattr(keeper, "write", slow)
    await rig.preempt("p", n0=[*LOW])
    await rig.until(lambda: not any(rig.cache.pod_named("default", n) for n in LOW), "they go")
    assert plans == 1


async def test_a_unit_is_not_broken_any_more_once_all_of_it_is_accepted(
    patient: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod that had been refused was gone before it was answered, and others took their time."""
    rig = patient
    await rig.nodes(1, first=2)
    await rig.group("low", 3, "low")
    for i, grace in enumerate((300, 0, 300)):
        await rig.pod(f"low-{i}", cls="low", group="low", on=f"n{i}", grace=grace)
    await rig.gang("high", 3, "high")
    refuse(rig, "low-1")
    delete = rig.own.delete

    async def late(path: str, **named: Any) -> Any:
        answer = await delete(path, **named)
        if path.endswith("low-1") and not named["dry_run"]:
            await rig.until(lambda: rig.cache.pod_named("default", "low-1") is None, "gone")
        return answer

    monkeypatch.setattr(rig.own, "delete", late)
    evictions = rig.coordinator.plans.victims
    monkeypatch.setattr(evictions, "refused_seconds", 0.3)
    await rig.preempt("high-0", **{f"n{i}": [f"low-{i}"] for i in range(3)})
    await rig.until(lambda: bool(evictions.broken()), "it is told")
    rig.server.faults.clear()
    await rig.until(lambda: not evictions.broken(), "it is in order")
    assert all(u.phases.get(Phase.ACCEPTED) == len(u.victims) for u in evictions.unfinished())
