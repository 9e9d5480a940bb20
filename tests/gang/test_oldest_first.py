"""Among equals that wait for the same room the oldest is planned first."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from operator import add
from typing import Any

import pytest

from extender.gang.controller import scheduling_cycle, waiting
from extender.gang.controller.planner_thread import PlannerThread
from extender.gang.core.reservations import Preemption
from extender.gang.tell.decisions import SearchInput, Verb
from extender.model.gang import Gang
from extender.model.plan import Plan, Refusal
from tests.gang.limited import rigged
from tests.gang.rig import FAST, Rig


@asynccontextmanager
async def queued(
    patch: pytest.MonkeyPatch, older: str, size: int, cls: str = "low", more: int = 0
) -> AsyncIterator[Rig]:
    """Two nodes with a low gang, which ends when all wait: an older gang that was refused, and
    whose refusal stands, and gang young."""
    patch.setattr(waiting, "retry_pause", lambda *given: 3600.0)
    async with rigged(FAST) as rig:
        now = rig.server.api.clock()
        await rig.gang("run", 2, "low", on="n")
        for number, name in enumerate([older, *(f"{older}-{i}" for i in range(more)), "young"]):
            rig.server.api.clock = partial(add, now, 10 * (number + 1))
            await rig.gang(name, 2 if name == "young" else size, cls if name == older else "low")
            if name != "young":
                answer = await rig.coordinator.ensure(rig.resolver_key(f"{name}-0"), Verb.FILTER)
                assert isinstance(answer, Refusal)
        for i in range(2):
            await rig.remove(f"run-{i}")
        await rig.until(lambda: rig.cache.pod_named("default", "run-1") is None, "it has ended")
        await rig.until(lambda: rig.cache.pod_named("default", "run-0") is None, "it has ended")
        yield rig


async def ask(rig: Rig, name: str) -> Preemption | Refusal:
    return await rig.coordinator.ensure(rig.resolver_key(f"{name}-0"), Verb.FILTER)


async def test_an_older_equal_is_planned_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name comes later, so that it is not the name that decides."""
    async with queued(monkeypatch, "z-old", 2) as rig:
        assert isinstance(await ask(rig, "young"), Refusal)
        preemption = await ask(rig, "z-old")
        assert isinstance(preemption, Preemption)
        assert len(preemption.seats) == 2


async def test_nodes_do_not_idle_for_an_older_one_that_does_not_fit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with queued(monkeypatch, "z-old", 3) as rig:
        assert isinstance(await ask(rig, "young"), Preemption)
        assert isinstance(await ask(rig, "z-old"), Refusal)


async def test_a_younger_one_does_not_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    async with queued(monkeypatch, "old", 2, more=1) as rig:
        rig.coordinator._reading.waiting.repaired(rig.resolver_key("old-0"))  # it may ask again
        assert isinstance(await ask(rig, "old"), Preemption)
        assert isinstance(await ask(rig, "old-0"), Refusal)


async def test_so_many_are_looked_at_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_cycle, "MOST_AHEAD", 3)
    async with queued(monkeypatch, "z-old", 3, more=4) as rig:
        searched = rig.coordinator.decisions.searched
        asked: list[str] = []

        def noted(question: SearchInput) -> None:
            asked.append(question.gang.name)
            searched(question)

        monkeypatch.setattr(rig.coordinator.decisions, "searched", noted)
        assert isinstance(await ask(rig, "young"), Preemption)
        assert asked == ["young", "z-old", "z-old-0", "z-old-1"]


async def test_one_whose_searches_are_dear_waits_for_its_own_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduling_cycle, "AHEAD_SECONDS", 0.0)
    async with queued(monkeypatch, "z-old", 2) as rig:
        assert isinstance(await ask(rig, "young"), Preemption)


async def test_a_mistake_that_the_older_one_finds_fails_no_other_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with queued(monkeypatch, "z-old", 2) as rig:
        real = PlannerThread.plan

        async def plan(self: PlannerThread, gang: Gang, *given: Any) -> Plan | Refusal:
            if gang.key.name == "z-old":
                raise ZeroDivisionError
            return await real(self, gang, *given)

        monkeypatch.setattr(PlannerThread, "plan", plan)
        assert isinstance(await ask(rig, "young"), Preemption)
