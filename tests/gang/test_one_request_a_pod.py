"""A pod that several plans want gone is asked for once at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller.evictor import Removal
from extender.gang.core.unit import Fate
from extender.model.plan import Plan, Victim
from tests.gang.rig import Rig, full_cluster


def victim(name: str) -> Victim:
    return Victim(
        uid=name, namespace="ns", name=name, node="n", priority=1, grace=0, unit="pod-group:ns/low"
    )


async def some_plan(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, remove: Callable[..., Awaitable[Removal | None]]
) -> Plan:
    """A plan whose victims may go whatever they are; ``remove`` sends what evicts one."""
    preemptions = rig.coordinator.preemptions
    monkeypatch.setattr(preemptions._evictor, "remove", remove)
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: len(rig.coordinator.reservations) == 1, "a plan is made")
    plan = next(iter(rig.coordinator.reservations)).plan
    monkeypatch.setattr(preemptions._check, "of_victim", lambda *args, **named: "")
    monkeypatch.setattr(preemptions.units, "still_holds", lambda unit: True)
    return plan


async def test_a_pod_that_hangs_takes_one_place_however_many_plans_named_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place for all, the plans' requests for it took turns, and nobody else was asked."""
    preemptions = rig.coordinator.preemptions
    asked: Counter[str] = Counter()

    async def unanswered(victim: Victim, *, asking: Callable[[], None], **named: Any) -> None:
        asking()
        asked[victim.uid] += 1
        await asyncio.Event().wait()

    plan = await some_plan(rig, monkeypatch, unanswered)
    for name in ("a", "b", "c"):
        preemptions.evictions.begin(plan, name, [victim("hangs")], frozenset(), "")
    preemptions.evictions.begin(plan, "d", [victim("other")], frozenset(), "")
    await rig.until(lambda: asked["other"] == 1, "others have their turn")
    assert asked["hangs"] == 1
    assert preemptions.evictions.takes("hangs")


async def test_a_pod_whose_eviction_is_accepted_is_not_asked_for_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had to go by another plan's hand, so that the unit of one that was over still wanted it as
    long as it was not seen going (seed 837679 with sparing)."""
    evictions = rig.coordinator.preemptions.evictions
    asked: Counter[str] = Counter()
    answer = asyncio.Event()

    async def accepted(victim: Victim, *, asking: Callable[[], None], **named: Any) -> Removal:
        asking()
        asked[victim.uid] += 1
        await answer.wait()
        return Removal.ACCEPTED

    plan = await some_plan(rig, monkeypatch, accepted)
    for name in ("a", "b"):
        evictions.begin(plan, name, [replace(victim("one"), unit="")], frozenset(), "")
    await rig.until(lambda: asked["one"] == 1, "it is asked for")
    answer.set()
    await rig.until(lambda: evictions.accepted("one"), "it is accepted")
    evictions.release("b")
    await rig.rounds(4)
    assert asked["one"] == 1
    assert all(set(u.fates.values()) == {Fate.ACCEPTED} for u in evictions.unfinished())
