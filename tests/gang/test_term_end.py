"""A closed coordinator decides nothing any more, though the lease may come back to its process."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from structlog.testing import capture_logs

from extender.gang.controller import planner_thread
from extender.gang.controller.rounds import Heartbeats, run_rounds
from extender.model.errors import NotReady
from tests.gang.rig import Rig, full_cluster


async def test_a_plan_found_as_the_term_ends_is_not_acted_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next term of the process reads the records; a plan that it does not know would
    evict beside its own, since the process may act again."""
    coordinator, loop = rig.coordinator, asyncio.get_running_loop()
    planner = coordinator.thread.planner
    search = planner.plan
    closing: list[asyncio.Task[None]] = []

    def close() -> None:
        closing.append(asyncio.ensure_future(coordinator.close()))

    def found_too_late(*args: Any, **named: Any) -> Any:
        answer = search(*args, **named)
        loop.call_soon_threadsafe(close)
        return answer

    monkeypatch.setattr(planner, "plan", found_too_late)
    await full_cluster(rig)
    with pytest.raises(NotReady):
        await rig.preempt("high-0", n0=["low-0"])
    await asyncio.gather(*closing)
    assert len(coordinator.reservations) == 0
    assert not coordinator._telling.background._tasks
    assert await rig.records() == []


async def test_a_search_cut_off_by_the_end_of_the_term_suspends_nobody(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not take too long: nobody waits for its answer any more."""
    coordinator = rig.coordinator
    planner = coordinator.thread.planner
    begun, killed = threading.Event(), threading.Event()

    def endless(*args: Any, **named: Any) -> Any:
        begun.set()
        killed.wait(60)
        raise planner_thread._Killed

    monkeypatch.setattr(planner, "plan", endless)
    # Told, not raised from outside: under a tracer CPython 3.11 repeats an instruction of the main
    # thread for as long as another thread has not taken its exception.
    monkeypatch.setattr(planner_thread, "kill", lambda thread: killed.set())
    await full_cluster(rig)
    asking = asyncio.ensure_future(rig.preempt("high-0", n0=["low-0"]))
    await asyncio.to_thread(begun.wait, 10)
    await coordinator.close()
    with pytest.raises(NotReady):
        await asking
    assert coordinator.admission.suspensions.present() == []
    assert await rig.records() == []


async def test_nothing_begins_in_a_closed_background(rig: Rig) -> None:
    begun = []

    async def work() -> None:
        begun.append(True)

    await rig.coordinator.close()
    rig.coordinator._telling.background.spawn(work())
    await asyncio.sleep(0)
    assert not begun
    assert not rig.coordinator._telling.background._tasks


async def test_a_round_that_the_end_of_the_term_cuts_off_is_no_failure() -> None:
    stop = asyncio.Event()
    rounds: list[str] = []

    async def ends() -> None:
        rounds.append("round")
        if len(rounds) > 1:
            stop.set()
        raise NotReady("the term is over")

    with capture_logs() as logs:
        await run_rounds({"planning": ends}, stop, 0.01, Heartbeats())
    assert len(rounds) == 2
    assert [log["log_level"] for log in logs] == ["info", "info"]
