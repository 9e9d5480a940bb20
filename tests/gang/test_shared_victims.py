"""Two plans that want one unit gone: whom the one has only asked for, the other asks for too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from extender.gang.core.preemption import _Step, drafted
from extender.gang.core.reservations import Preemption
from extender.gang.core.victim_group import Answer, Answered, Phase
from extender.gang.tell.preemption_state import PreemptionState
from tests.gang.rig import Rig, full_cluster


async def test_a_request_under_way_is_no_accepted_one(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be refused yet. Counted as accepted it would never be sent for the second plan, and
    once another pod of the unit is gone, nobody would ask for the rest."""
    executor = rig.coordinator.executor
    evictions = executor.plans.victims

    async def unanswered(*args: Any, asking: Callable[[], None], **named: Any) -> None:
        asking()
        await asyncio.Event().wait()

    monkeypatch.setattr(executor._evictor, "remove", unanswered)
    await full_cluster(rig)
    await rig.preempt("high-0", n0=["low-0"])
    await rig.until(
        lambda: any(unit.phases.get(Phase.ASKED) for unit in evictions.unfinished()),
        "evictions are under way",
    )
    first = next(iter(rig.coordinator.reservations))
    second = drafted(first.plan, "second", 0.0, rig.coordinator.preconditions.shown())
    second.state = PreemptionState.EVICTING
    claimed(rig, second)
    (group,) = evictions.of_plan(second.id)
    assert not group.phases.get(Phase.ACCEPTED)
    assert not second.sent
    # What the API server has accepted for the one plan is not asked for again.
    assert evictions.of_plan(first.id) == [group], "one group, that both plans claim"
    uid = next(iter(group.victims))
    executor.feed(Answered(uid, Answer.ACCEPTED))
    third = drafted(first.plan, "third", 0.0, rig.coordinator.preconditions.shown())
    third.state = PreemptionState.EVICTING
    claimed(rig, third)
    assert uid in third.sent


def claimed(rig: Rig, preemption: Preemption) -> None:
    """The plan claims all its victims, without a place among those under way."""
    plans, view = rig.coordinator.plans, rig.coordinator.preconditions
    step = _Step(plans, rig.coordinator.clocks.monotonic(), view, [])
    victims = tuple(preemption.victims.values())
    rig.coordinator.executor.feed(step._claimed(preemption, victims))
