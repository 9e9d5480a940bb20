"""What one eviction costs does not grow with how many are under way, nor does what a turn does."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from extender.gang.controller import hints
from extender.gang.controller.records import Records, RecordWriter
from extender.gang.core import preemption
from extender.gang.core.record import Record
from extender.gang.core.refusals import Refusals
from extender.gang.core.reservations import Preemption, Reservations
from extender.gang.core.victim_group import (
    Answer,
    Answered,
    Claim,
    Claimed,
    Effect,
    Event,
    Evict,
    Leaves,
    Released,
    Rested,
    SeenGone,
    Tables,
    permits,
    step,
)
from extender.gang.leader_election.lease import Alone
from extender.gang.runtime.background import Background, each
from extender.gang.tell.preemption_state import PreemptionState
from extender.model.objects import GangKey
from extender.model.plan import Plan, Seat, Victim
from extender.model.snapshot import Snapshot
from extender.sandbox.faults import Fault
from extender.settings.settings import EvictionSettings
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

    def owed(plan_id: str) -> list[Victim]:
        asked.append(plan_id)
        return []

    keeper.settle("1", owed)
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
    monkeypatch.setattr(preemption, "AT_ONCE", 4)
    handed = preemption._Step._victims
    # A busy machine may stand still for longer than the second after which FAST gives up.
    patient = replace(FAST, seats=replace(FAST.seats, victim_slack_seconds=30.0))
    async with Rig(patient) as rig:
        await rig.nodes(18)
        await rig.classes(low=1, high=100)
        for i in range(18):
            await rig.pod(f"low-{i}", cls="low", on=f"n{i}")
        await rig.gang("high", 18, "high")
        turns = Turns()

        def counted(self: Any, event: Event) -> None:
            if isinstance(event, Claimed):
                turns.note()
            handed(self, event)

        monkeypatch.setattr(preemption._Step, "_victims", counted)
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


def claimed(name: str, count: int, plan_id: str = "1") -> Claimed:
    victims = tuple(
        Victim(
            uid=f"{name}-{i}",
            namespace="ns",
            name=f"{name}-{i}",
            node="n",
            priority=0,
            grace=0,
            unit=name,
        )
        for i in range(count)
    )
    claim = Claim(
        plan_id=plan_id,
        preemptor=GangKey("pod-group", "ns", "g"),
        priority=1,
        message="",
        uids=frozenset(victim.uid for victim in victims),
    )
    return Claimed(claim, victims)


class Willing:
    """A view in which nothing speaks against an eviction."""

    def victim_problem(self, victim: Victim, priority: int, *, alone: bool) -> str:
        return ""

    def there(self, victim: Victim) -> bool:
        return True

    def on_its_way(self, name: str) -> bool:
        return False

    def whole_again(self, victim: Victim, known: object, size: int) -> bool:
        return False

    def completing(self, name: str) -> bool:
        return False


class Machine:
    """Tables, and what was asked for so far."""

    def __init__(self, limit: int = 8) -> None:
        self.tables = Tables(limit, 5, 1.0, Refusals(lambda: 0.0))
        self.asked: list[str] = []

    def feed(self, event: Event) -> list[Effect]:
        effects = step(self.tables, event, 0.0, Willing())
        self.asked += [each.victim.uid for each in effects if isinstance(each, Evict)]
        return effects

    def answer_all(self, answer: Answer) -> None:
        """Answer what was asked for, and what is asked for then."""
        answered = 0
        while answered < len(self.asked):
            uid = self.asked[answered]
            answered += 1
            self.feed(Leaves(uid))
            self.feed(Answered(uid, answer))


def test_only_so_many_evictions_are_under_way_at_a_time() -> None:
    machine = Machine()
    machine.feed(claimed("a", MANY))
    assert len(machine.asked) == 8
    machine.feed(Leaves("a-0"))
    machine.feed(Answered("a-0", Answer.ACCEPTED))
    assert len(machine.asked) == 9
    del machine.asked[0]
    machine.answer_all(Answer.ACCEPTED)
    assert sorted({"a-0", *machine.asked}) == sorted(
        each.uid for each in claimed("a", MANY).victims
    )


def test_what_is_left_of_a_group_gone_in_part_comes_first() -> None:
    machine = Machine()
    machine.feed(claimed("a", MANY))
    machine.feed(claimed("late", 3)._replace(begun=True))
    for uid in machine.asked[:3]:
        machine.feed(Answered(uid, Answer.NOT_SENT))
    assert machine.asked[8:] == ["late-0", "late-1", "late-2"]


def test_a_pod_that_rests_takes_no_place() -> None:
    machine = Machine()
    machine.feed(claimed("a", 40))
    machine.answer_all(Answer.NOT_SENT)
    assert len(machine.asked) == 40
    machine.feed(Rested("a-3"))
    assert machine.asked[40:] == ["a-3"]


def test_pods_that_no_plan_wants_any_more_are_let_go_of_without_a_request() -> None:
    machine = Machine()
    machine.feed(claimed("a", MANY))
    machine.feed(Released("1"))
    for uid in list(machine.asked):
        assert permits(machine.tables, uid, Willing()) is False
        machine.feed(Answered(uid, Answer.NOT_SENT))
    assert len(machine.asked) == 8
    assert not machine.tables.victims
    assert not machine.tables.plans


@pytest.mark.parametrize("names", [1, 100])
def test_ten_thousand_victims_cost_what_ten_times_a_thousand_do(names: int) -> None:
    """``names``: how many groups they are in."""
    took = {}
    for count in (1_000, 10_000):
        tries = []
        for _ in range(3):
            machine, began = Machine(), time.process_time()
            for name in range(names):
                machine.feed(claimed(f"g{name}", count // names))
            machine.answer_all(Answer.ACCEPTED)
            for uid in machine.asked:
                machine.feed(SeenGone(uid))
            tries.append(time.process_time() - began)
            assert len(machine.asked) == count
            assert not machine.tables.groups
        took[count] = min(tries)
    assert took[10_000] < 30 * took[1_000]


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
    monkeypatch.setattr(hints, "CLEAR_PAUSE", 0.001)
    preemption, snapshot = seated(MANY)
    reservations, slow = Reservations(), Slow()
    reservations.open_preemption(preemption, [])
    background = Background()
    made = hints.Nominations(
        slow,  # type: ignore[arg-type]
        reservations,
        Showing(lambda: snapshot),
        background,
        asyncio.Semaphore(100),
    )
    tasks = len(asyncio.all_tasks())
    await made.write(preemption)
    assert slow.most == 32
    reservations.close(preemption.key)
    slow.fails, slow.most = {"uid-m0"}, 0
    made.clear(preemption.pods.values())
    made.clear(preemption.pods.values())
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) - tasks <= hints.CLEARING
    while len(slow.cleared) < MANY or slow.cleared["uid-m0"] < 3:
        await asyncio.sleep(0.001)
    slow.fails.clear()
    while len(asyncio.all_tasks()) > tasks:
        await asyncio.sleep(0.001)
    assert slow.most <= hints.CLEARING
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
