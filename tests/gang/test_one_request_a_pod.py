"""A pod that several plans want gone is asked for once at a time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from extender.model.plan import Victim
from tests.gang.rig import Rig, full_cluster


def victim(name: str) -> Victim:
    return Victim(
        uid=name, namespace="ns", name=name, node="n", priority=1, grace=0, unit="pod-group:ns/low"
    )


async def test_a_pod_that_hangs_takes_one_place_however_many_plans_named_it(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place for all, the plans' requests for it took turns, and nobody else was asked."""
    flights = rig.coordinator.flights
    asked: Counter[str] = Counter()

    async def unanswered(victim: Victim, *, asking: Callable[[], None], **named: Any) -> None:
        asking()
        asked[victim.uid] += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(flights._evictor, "remove", unanswered)
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(lambda: len(rig.coordinator.book) == 1, "a plan is made")
    plan = next(iter(rig.coordinator.book)).plan
    monkeypatch.setattr(flights._check, "of_victim", lambda *args, **named: "")
    monkeypatch.setattr(flights.units, "still_holds", lambda unit: True)
    for name in ("a", "b", "c"):
        flights.evictions.begin(plan, name, [victim("hangs")], frozenset(), "")
    flights.evictions.begin(plan, "d", [victim("other")], frozenset(), "")
    await rig.until(lambda: asked["other"] == 1, "others have their turn")
    assert asked["hangs"] == 1
    assert flights.evictions.takes("hangs")
