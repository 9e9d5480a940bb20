"""What one eviction costs does not grow with how many are under way, nor does what a turn does."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller import nominations
from extender.gang.controller.dispatch import Dispatch
from extender.gang.controller.record_writer import RecordWriter
from extender.gang.controller.records import Records
from extender.gang.core import flight_units
from extender.gang.core.evictions import Evictions
from extender.gang.core.record import Record
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.core.unit import EvictionUnit, Fate, Fates
from extender.gang.leader_election.leadership import Alone
from extender.gang.runtime.background import Background, each
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey
from extender.model.plan import Plan, Seat, Victim
from extender.model.settings import EvictionSettings
from extender.model.snapshot import Snapshot
from extender.sandbox.faults import Fault
from tests.gang.rig import FAST, Rig
from tests.gang.showing import Showing
from tests.gang.world import pod

MANY = 500


def test_a_plan_in_preemption_is_not_counted_through_after_each_eviction() -> None:
    """Two thousand single victims once cost 8 ms of the event loop for each answer."""
    keeper = RecordWriter(Records(None, "ns"), Alone(), Background())  # type: ignore[arg-type]
    plan = Plan(gang=GangKey("pod-group", "ns", "g"), priority=1, seats=(), victims=())
    keeper.adopt(Record(id="1", plan=plan, made=time.time()))
    asked = []

    def units(plan_id: str) -> list[EvictionUnit]:
        asked.append(plan_id)
        return []

    keeper.settle("1", units)
    assert asked == []


class Turns:
    """Counts the turns of the event loop, and what is done in each."""

    def __init__(self) -> None:
        self.number = 0
        self.done: Counter[int] = Counter()
        self._loop = asyncio.get_running_loop()
        self._next()

    def _next(self) -> None:
        self.number += 1
        self._handle = self._loop.call_soon(self._next)

    def note(self) -> None:
        """Something was done in this turn."""
        self.done[self.number] += 1

    def stop(self) -> None:
        """Count no more."""
        self._handle.cancel()


async def test_units_are_begun_so_many_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand once took 0.7 s, in which no verb was answered."""
    monkeypatch.setattr(flight_units, "BEGIN_UNITS", 4)
    begin = Evictions.begin
    # A busy machine may stand still for longer than the second after which FAST gives up.
    patient = replace(FAST, seats=replace(FAST.seats, victim_slack_seconds=30.0))
    async with Rig(patient) as rig:
        await rig.nodes(18)
        await rig.classes(low=1, high=100)
        for i in range(18):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
        await rig.gang("high", 18, "high")
        turns = Turns()

        def counted(self: Evictions, *args: Any, **named: Any) -> EvictionUnit:
            turns.note()
            return begin(self, *args, **named)

        monkeypatch.setattr(Evictions, "begin", counted)
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(
            lambda: any(
                preemption.state is PreemptionState.OPEN
                for preemption in rig.coordinator.reservations
            ),
            "open",
        )
        turns.stop()
    assert turns.done.total() == 18
    assert max(turns.done.values()) <= 4


def unit(name: str, count: int, *, touched: bool = False) -> EvictionUnit:
    victims = {
        f"{name}-{i}": Victim(
            uid=f"{name}-{i}", namespace="ns", name=f"{name}-{i}", node="n", priority=0, grace=0
        )
        for i in range(count)
    }
    return EvictionUnit(
        plan_id="1",
        preemptor=GangKey("pod-group", "ns", "g"),
        priority=1,
        name=name,
        whole=True,
        size=count,
        beside=frozenset(),
        victims=victims,
        fates=Fates(dict.fromkeys(victims, Fate.WAITING)),
        budgeted=frozenset(),
        message="",
        must_go=set(victims) if touched else set(),
    )


class Work:
    """Evictions that go on until they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: set[str] = set()
        self.wanted = True
        self.fails = False
        self.go = asyncio.Event()
        self.background = Background()
        self.dispatch = Dispatch(8, self.background.spawn, self._wanted, self._work)

    def _wanted(self, unit: EvictionUnit, victim: Victim) -> bool:
        return self.wanted and victim.uid not in self.done

    async def _work(self, unit: EvictionUnit, victim: Victim) -> None:
        self.begun.append(victim.uid)
        if self.fails:
            raise RuntimeError
        await self.go.wait()
        self.done.add(victim.uid)

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


async def test_only_so_many_evictions_are_worked_on_at_a_time() -> None:
    work = Work()
    tasks = len(asyncio.all_tasks())
    work.dispatch.add(unit("a", MANY))
    await work.settle()
    assert len(work.begun) == 8
    assert len(asyncio.all_tasks()) == tasks + 8
    work.go.set()
    while work.dispatch.waiting:
        await work.settle()
        assert len(asyncio.all_tasks()) <= tasks + 8
    await work.settle()
    assert sorted(work.begun) == sorted(unit("a", MANY).victims)


async def test_what_is_left_of_a_unit_gone_in_part_comes_first() -> None:
    work = Work()
    late = unit("late", 3)
    work.dispatch.add(unit("a", MANY))
    work.dispatch.add(late)
    await work.settle()
    late.must_go = set(late.victims)
    work.dispatch.hurry(late)
    work.go.set()
    while work.dispatch.waiting:
        await work.settle()
    assert work.begun[8:11] == list(late.victims)
    assert len(work.begun) == MANY + 3  # and none of them twice


async def test_who_waits_to_try_again_keeps_nobody_waiting() -> None:
    work = Work()

    async def refused(unit: EvictionUnit, victim: Victim) -> None:
        work.begun.append(victim.uid)
        await work.dispatch.rest(_forever(work.go))

    work.dispatch._work = refused
    work.dispatch.add(unit("a", 40))
    await work.settle()
    assert len(work.begun) == 40
    work.go.set()
    await work.settle()


async def _forever(go: asyncio.Event) -> None:
    await go.wait()


async def test_an_eviction_nobody_looks_after_any_more_is_found_again() -> None:
    work = Work()
    work.fails = True
    one = unit("a", 20)
    work.dispatch.add(one)
    await work.settle()
    assert sorted(work.begun) == sorted(one.victims)
    work.fails = False
    work.dispatch.add(one)
    await work.settle()
    assert len(work.begun) == 28
    work.dispatch.add(one)
    await work.settle()
    assert len(work.begun) == 28  # they are worked on, or queued already
    work.go.set()
    await work.settle()


async def test_evictions_that_are_not_wanted_any_more_are_passed_over() -> None:
    work = Work()
    work.dispatch.add(unit("a", MANY))
    await work.settle()
    work.wanted = False
    work.go.set()
    await work.settle()
    assert len(work.begun) == 8
    assert not work.dispatch.waiting


class Slow:
    """A notifier whose writes end when they are let go."""

    def __init__(self) -> None:
        self.busy = self.most = 0
        self.cleared: Counter[str] = Counter()
        self.fails: set[str] = set()

    async def nominate(self, pod: Any, node: str) -> bool:
        self.busy += 1
        self.most = max(self.most, self.busy)
        await asyncio.sleep(0)
        self.busy -= 1
        if not node:
            self.cleared[pod.uid] += 1
        return pod.uid not in self.fails


def seated(count: int) -> tuple[Preemption, Snapshot]:
    pods = {each.uid: each for each in (pod(f"m{i}") for i in range(count))}
    plan = Plan(
        gang=GangKey("pod-group", "ns", "g"),
        priority=1,
        seats=tuple(Seat(uid=u, namespace="ns", name=p.name, node="n") for u, p in pods.items()),
        victims=(),
    )
    preemption = Preemption(
        plan=plan,
        pods=pods,
        seats=dict.fromkeys(pods, "n"),
        state=PreemptionState.EVICTING,
        since=0.0,
    )
    return preemption, Snapshot(generation=1, pending=pods)


async def test_hints_have_no_task_for_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand nominations once left at the same time as the evictions."""
    monkeypatch.setattr(nominations, "CLEAR_PAUSE", 0.001)
    preemption, snapshot = seated(MANY)
    reservations, slow = Reservations(), Slow()
    reservations.open_preemption(preemption, [])
    background = Background()
    made = nominations.Nominations(
        slow,  # type: ignore[arg-type]
        reservations,
        Showing(lambda: snapshot),
        background,
        asyncio.Semaphore(100),
        32,
    )
    tasks = len(asyncio.all_tasks())
    await made.write(preemption)
    assert slow.most == 32
    reservations.close(preemption.key)
    slow.fails, slow.most = {"uid-m0"}, 0
    made.clear(preemption.pods.values())
    made.clear(preemption.pods.values())
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) - tasks <= nominations.CLEARING
    while len(slow.cleared) < MANY or slow.cleared["uid-m0"] < 3:
        await asyncio.sleep(0.001)
    slow.fails.clear()
    while len(asyncio.all_tasks()) > tasks:
        await asyncio.sleep(0.001)
    assert slow.most <= nominations.CLEARING
    assert {count for uid, count in slow.cleared.items() if uid != "uid-m0"} == {1}


async def test_evictions_go_before_the_hints() -> None:
    # A busy machine may stand still for longer than the second after which FAST gives up.
    patient = replace(FAST.seats, victim_slack_seconds=30.0)
    async with Rig(replace(FAST, eviction=EvictionSettings(concurrency=1), seats=patient)) as rig:
        await rig.nodes(4)
        await rig.classes(low=1, high=100)
        for i in range(4):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}", grace=30)
        await rig.gang("high", 4, "high")
        rig.server.faults.plan(
            Fault(times=4, method="DELETE", path=r"low-\d(?!.*dryRun)", delay=0.1)
        )
        await rig.preempt("high-0", n0=["low-0"])
        await rig.until(
            lambda: all(rig.cached(f"high-{i}").nominated for i in range(4)), "nominated"
        )
        asked = [
            "hint" if "high" in path else "eviction"
            for method, path in rig.server.requests
            if (method == "DELETE" and "dryRun" not in path)
            or (method == "PATCH" and "/pods/high" in path and path.endswith("/status"))
        ]
    # The last eviction does not wait for its turn any more: it may leave beside the hints.
    assert asked[:3] == ["eviction"] * 3
    assert sorted(asked) == ["eviction"] * 4 + ["hint"] * 4


async def test_after_a_failure_nothing_else_is_begun() -> None:
    begun: list[int] = []

    async def work(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        if item == 5:
            raise ValueError(item)

    with pytest.raises(ValueError, match="5"):
        await each(range(MANY), 4, work)
    assert len(begun) <= 12
