"""An eviction that waited for its turn at the API server is asked about once more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.core.victim_group import Phase
from extender.gang.tell.listener import Removal
from extender.model.plan import Victim
from extender.sandbox.faults import Fault
from extender.settings.settings import EvictionSettings
from tests.gang.rig import FAST, HIGH, LOW, Rig, full_cluster, held_back, let_go


async def held_at_the_gate(rig: Rig) -> Fault:
    """Evictions are asked for and wait for a place; returns what counts those that got through."""
    await full_cluster(rig)
    sent = rig.server.faults.plan(Fault(times=1000, method="DELETE", path=r"pods/low-\d$"))
    marks = held_back(rig, "PATCH", r"low-\d/status", times=1000)
    await rig.preempt("high-0", n0=["low-0"])
    units = rig.coordinator.plans.victims.unfinished
    await rig.until(lambda: marks.hits == 2, "the marks are on their way")
    gate = rig.own.gate
    gate._per_second, gate._tokens = 1e-6, 0.0
    let_go(marks)
    await rig.until(
        lambda: units()[0].phases.get(Phase.ASKED) == 2 and gate.waiting()["act"] >= 2,
        "both evictions wait for a place",
    )
    return sent


async def let_through(rig: Rig) -> None:
    rig.own.gate._per_second = 0.0
    rig.own.gate._admit()
    units = rig.coordinator.plans.victims.unfinished
    await rig.until(
        lambda: not any(unit.phases.get(Phase.ASKED) for unit in units()), "nobody waits"
    )


async def test_a_request_that_waited_until_the_lease_was_lost_is_not_sent(rig: Rig) -> None:
    sent = await held_at_the_gate(rig)
    rig.coordinator.leadership.acts = False  # type: ignore[misc]
    await let_through(rig)
    assert sent.hits == 0
    assert {*LOW, *HIGH} == await rig.names()


async def test_a_request_whose_connection_took_until_the_lease_was_lost_is_not_sent(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await held_at_the_gate(rig)
    connector = rig.own._session.connector
    assert connector is not None
    connects, connecting, go_on = connector.connect, asyncio.Event(), asyncio.Event()

    async def slow(*args: Any, **named: Any) -> Any:
        connecting.set()
        await go_on.wait()
        return await connects(*args, **named)

    monkeypatch.setattr(connector, "connect", slow)
    rig.own.gate._per_second = 0.0
    rig.own.gate._admit()
    await connecting.wait()
    rig.coordinator.leadership.acts = False  # type: ignore[misc]
    go_on.set()
    units = rig.coordinator.plans.victims.unfinished
    await rig.until(
        lambda: not any(unit.phases.get(Phase.ASKED) for unit in units()), "nobody waits"
    )
    assert sent.hits == 0
    assert {*LOW, *HIGH} == await rig.names()


async def test_a_request_that_waited_until_its_plan_was_over_is_not_sent(rig: Rig) -> None:
    sent = await held_at_the_gate(rig)
    await rig.remove("high-1")
    await rig.until(lambda: not len(rig.coordinator.reservations), "the plan is over")
    await let_through(rig)
    assert sent.hits == 0
    await rig.until(lambda: not rig.coordinator.plans.victims.unfinished(), "all is let go of")
    assert {*LOW, "high-0"} == await rig.names()


async def test_rehearsals_that_take_long_do_not_keep_an_eviction_waiting() -> None:
    """What has gone in part is finished, however many new plans are being rehearsed."""
    settings = replace(FAST, eviction=EvictionSettings(concurrency=2))
    async with Rig(settings) as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await full_cluster(rig)
        slow = rig.server.faults.plan(
            Fault(times=1000, method="DELETE", path="low-0.*dryRun", delay=2.0)
        )
        evictor = rig.coordinator.executor._evictor
        first, second = (
            Victim(rig.cached(name).uid, "default", name, "n0", 1, grace=0) for name in LOW
        )
        rehearsing = [
            asyncio.create_task(evictor.rehearse([first] * 2, frozenset(), lambda _: True))
            for _ in range(4)
        ]
        await rig.until(lambda: slow.hits == 2, "rehearsals are under way", 5)
        evicting = evictor.remove(
            second, budgeted=False, mark="", allowed=lambda: True, asking=lambda: None
        )
        assert await evicting is Removal.ACCEPTED
        assert not any(each.done() for each in rehearsing)
        for each in rehearsing:
            each.cancel()
        await asyncio.gather(*rehearsing, return_exceptions=True)
