"""Planning time, plans given up and evictions, counted by namespace and by gang.

See docs/security.md, rows 5 and 6.
"""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from extender.gang.fairness.fair_lock import FairLock
from extender.gang.plan import fair_turns, suspension
from extender.gang.plan.eviction_budget import HOUR, EvictionBudget
from extender.gang.plan.fair_turns import (
    HALF_LIFE,
    SYSTEM_CRITICAL,
    WINDOW,
    FairTurns,
    Turn,
    TurnLine,
    retry_pause,
)
from extender.gang.plan.suspension import Cause, GiveUps, Suspension, looks_of, overran
from extender.model.gang import Gang
from extender.model.objects import GangKey
from tests.gang.world import pod

A = GangKey("pod-group", "a", "gang")


def turn(namespace: str, priority: int = 0, since: float = 0.0, name: str = "") -> Turn:
    return Turn(namespace, priority, since, name or f"{namespace}/{priority}/{since}")


# -- turns ---------------------------------------------------------------------------------


def test_the_more_urgent_first_then_who_used_least_then_who_waits_longest() -> None:
    turns = FairTurns(1.0)
    turns.spend("a", 3.0, now=0.0)
    turns.spend("b", 1.0, now=0.0)
    waiting = [turn("a", 5), turn("a"), turn("b", since=2.0), turn("b", since=1.0), turn("c")]
    assert turns.order(waiting, 0.0) == [
        waiting[0],
        waiting[4],
        waiting[3],
        waiting[2],
        waiting[1],
    ]


def test_fifteen_dear_gangs_delay_the_others_by_one() -> None:
    """Row 6: each search takes 3 s; whoever else waits comes after at most one of them."""
    turns = FairTurns(0.5)
    waiting = [turn("greedy", since=float(i), name=f"g{i:02}") for i in range(15)]
    waiting += [turn(f"other{i}", since=100.0) for i in range(3)]
    served: list[str] = []
    now = 0.0
    while waiting:
        first = turns.order(waiting, now)[0]
        waiting.remove(first)
        served.append(first.namespace)
        seconds = 3.0 if first.namespace == "greedy" else 0.01
        now += seconds
        turns.spend(first.namespace, seconds, now)
    assert served[:4].count("greedy") <= 1
    assert set(served[4:]) == {"greedy"}


def test_a_line_takes_who_would_be_first_of_all() -> None:
    """Whatever was used meanwhile; and it asks about one gang of each namespace, not about all."""
    rng = random.Random(5)
    for _ in range(50):
        turns, clock = FairTurns(0.5), [0.0]
        waiting = [
            turn(
                rng.choice("abc"),
                rng.choice((0, 7, SYSTEM_CRITICAL)),
                since=float(rng.randrange(3)),
                name=f"g{i}",
            )
            for i in range(12)
        ]

        def order(
            some: list[Turn], turns: FairTurns = turns, clock: list[float] = clock
        ) -> list[Turn]:
            assert len({each.namespace for each in some}) == len(some)
            return turns.order(some, clock[0])

        line = TurnLine(waiting, order)
        while line:
            first = turns.order(waiting, clock[0])[0]
            assert line.take() == first
            waiting.remove(first)
            clock[0] += rng.choice((0.1, 30.0))
            turns.spend(first.namespace, rng.choice((0.0, 1.0, 60.0)), clock[0])
        assert not waiting


def test_what_was_used_fades() -> None:
    turns = FairTurns(0.5)
    turns.spend("a", 8.0, now=0.0)
    assert turns.used("a", HALF_LIFE) == pytest.approx(4.0)
    assert turns.used("a", 20 * HALF_LIFE) < 0.001
    assert turns.totals(20 * HALF_LIFE) == {}


def test_no_namespace_takes_more_than_its_share_while_others_wait() -> None:
    """A namespace that always has the most urgent gang, and never stops."""
    turns = FairTurns(0.5)
    now, used = 0.0, {"greedy": 0.0, "other": 0.0}
    for _ in range(4000):
        waiting = [turn("greedy", 1000), turn("other", 1)]
        able = [one for one in waiting if not turns.must_wait(one, waiting, now)]
        first = turns.order(able, now)[0]
        now += 0.25
        used[first.namespace] += 0.25
        turns.spend(first.namespace, 0.25, now)
    assert 0.45 < used["greedy"] / now < 0.6


def test_alone_a_namespace_has_all_the_time_and_system_critical_gangs_are_never_late() -> None:
    turns = FairTurns(0.5)
    turns.spend("a", 2 * WINDOW, now=0.0)
    mine = turn("a", 7)
    assert not turns.must_wait(mine, [mine, turn("a")], 0.0)
    assert turns.must_wait(mine, [mine, turn("b")], 0.0)
    critical = turn("a", SYSTEM_CRITICAL)
    assert not turns.must_wait(critical, [turn("b")], 0.0)
    assert turns.order([turn("b", 9), mine, critical], 0.0) == [critical, turn("b", 9), mine]


def test_a_share_of_one_is_no_limit() -> None:
    turns = FairTurns(1.0)
    turns.spend("a", 1e6, now=0.0)
    assert not turns.must_wait(turn("a"), [turn("b")], 0.0)


def test_a_dear_refusal_stands_longer() -> None:
    assert retry_pause(0.01, 2.0, 30.0, 10) == pytest.approx(0.1)
    assert retry_pause(1.0, 2.0, 30.0, 10) == pytest.approx(10.0)
    assert retry_pause(9.0, 2.0, 30.0, 10) == 30.0


async def test_the_lock_lets_them_in_by_turns() -> None:
    admission: Any = SimpleNamespace(
        order=lambda turns: sorted(turns, key=lambda one: -one.priority)
    )
    lock = FairLock(admission)
    served: list[int] = []

    async def one(priority: int | None) -> None:
        async with lock.turn(None if priority is None else lambda: turn("a", priority)):
            await asyncio.sleep(0)
            served.append(-1 if priority is None else priority)

    async with lock.turn(lambda: turn("a")):
        tasks = [asyncio.create_task(one(p)) for p in (1, 5, 3)]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(one(None)))
        await asyncio.sleep(0)
        assert [waiter.priority for waiter in lock.waiters()] == [1, 5, 3]
        tasks[1].cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert served == [-1, 3, 1]
    async with lock.turn(lambda: turn("a")):
        served.append(0)
    assert served[-1] == 0


async def test_who_is_let_in_and_cancelled_at_once_passes_the_lock_on() -> None:
    admission: Any = SimpleNamespace(order=lambda turns: turns)
    lock = FairLock(admission)

    async def wait() -> None:
        async with lock.turn(lambda: turn("a")):
            pass

    async with lock.turn(lambda: turn("a")):
        first, second = asyncio.create_task(wait()), asyncio.create_task(wait())
        await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert first.cancelled()
    assert second.exception() is None


# -- suspension ----------------------------------------------------------------------------


def test_three_plans_given_up_in_a_row_suspend_a_gang() -> None:
    give_ups = GiveUps(3, 3600.0)
    assert give_ups.gave_up(A, "x", "members did not bind", 0.0) is None
    assert give_ups.gave_up(A, "x", "members did not bind", 10.0) is None
    found = give_ups.gave_up(A, "x", "members did not bind", 20.0)
    assert found is not None
    assert found.cause is Cause.GAVE_UP
    assert "members did not bind" in found.why
    assert found.holds("x", 3619.0)
    assert not found.holds("x", 3620.0)
    assert not found.holds("y", 21.0)


def test_a_change_earns_one_try_and_a_seated_gang_begins_anew() -> None:
    give_ups = GiveUps(3, 3600.0)
    for _ in range(3):
        found = give_ups.gave_up(A, "x", "w", 0.0)
    assert found is not None
    assert give_ups.gave_up(A, "y", "w", 1.0) is not None
    give_ups.seated(A)
    assert give_ups.gave_up(A, "y", "w", 2.0) is None


@pytest.mark.parametrize(("passed", "counts"), [(99.0, True), (100.0, False), (200.0, False)])
def test_what_was_long_ago_does_not_count(passed: float, *, counts: bool) -> None:
    give_ups, began = GiveUps(2, 100.0), 1e9
    assert give_ups.gave_up(A, "x", "w", began) is None
    assert (give_ups.gave_up(A, "x", "w", began + passed) is not None) is counts
    assert GiveUps(0, 100.0).gave_up(A, "x", "w", began) is None


def test_no_change_lifts_what_an_endless_search_led_to() -> None:
    found = overran(A, 13.0, 0.0, 3600.0)
    assert found.holds("anything", 3599.0)
    assert not found.holds("anything", 3600.0)


def test_made_anew_a_gang_looks_the_same_and_changed_it_does_not() -> None:
    def gang(*cpu: float, count: int = 2, names: str = "ab") -> Gang:
        members = [pod(f"{n}", cpu=c, group="g") for n, c in zip(names, cpu, strict=True)]
        return Gang(key=A, members=tuple(members), min_count=count)

    looks = looks_of(gang(1, 1))
    assert looks_of(gang(1, 1, names="cd")) == looks
    assert looks_of(gang(1, 2)) != looks
    assert looks_of(gang(1, 1, count=1)) != looks


# -- evictions -----------------------------------------------------------------------------


def test_evictions_of_the_last_hour_count_for_the_namespace() -> None:
    budget = EvictionBudget(10)
    budget.spend("a", 6, 0.0)
    budget.spend("b", 9, 0.0)
    assert budget.exceeded("a", 4, 0, 1.0) == ""
    assert "perNamespaceHour" in budget.exceeded("a", 5, 0, 1.0)
    assert budget.exceeded("a", 4, 1, 1.0)
    assert budget.totals(1.0) == {"a": 6, "b": 9}
    assert budget.exceeded("a", 10, 0, HOUR) == ""
    assert budget.totals(HOUR) == {}


def test_without_a_limit_nothing_is_refused_and_all_is_counted() -> None:
    budget = EvictionBudget(0)
    budget.spend("a", 1_000_000, 0.0)
    assert budget.exceeded("a", 1_000_000, 0, 0.0) == ""
    assert budget.used("a", 1.0) == 1_000_000


# -- at the bounds -------------------------------------------------------------------------


def gang_of(name: str) -> GangKey:
    return GangKey("pod-group", "a", name)


def gives_up(counted: GiveUps, name: str, now: float = 0.0) -> Suspension | None:
    return counted.gave_up(gang_of(name), "looks", "why", now)


def test_a_suspension_of_a_life_before_leaves_one_try() -> None:
    before = GiveUps(3, 60.0)
    gives_up(before, "x")
    gives_up(before, "x")
    suspended = gives_up(before, "x")
    assert suspended is not None
    counted = GiveUps(3, 60.0)
    counted.adopt(suspended)
    assert gives_up(counted, "x") is not None
    other = GiveUps(3, 60.0)
    other.adopt(overran(gang_of("x"), 1.0, 0.0, 60.0))
    assert gives_up(other, "x") is None
    milder = GiveUps(4, 60.0)
    milder.adopt(suspended)
    assert gives_up(milder, "x") is not None


def test_of_too_many_gangs_those_are_forgotten_that_gave_up_longest_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(suspension, "MOST_GANGS", 2)
    counted = GiveUps(2, 60.0)
    for name in ("x", "y"):
        assert gives_up(counted, name) is None
    counted.seated(gang_of("y"))
    gives_up(counted, "y")
    assert gives_up(counted, "x") is not None  # two are not too many; x stands last now
    assert gives_up(counted, "z") is None  # y is forgotten
    assert gives_up(counted, "x") is not None
    assert gives_up(counted, "y") is None


def test_what_is_too_old_is_swept() -> None:
    counted = GiveUps(2, 60.0)
    gives_up(counted, "old")
    gives_up(counted, "new", 1.0)
    counted.sweep(60.0)
    assert set(counted._failed) == {gang_of("new")}


def test_a_plan_without_victims_needs_no_budget() -> None:
    budget = EvictionBudget(3)
    budget.spend("a", 5, 0.0)
    assert budget.exceeded("a", 0, 0, 1.0) == ""
    assert budget.exceeded("a", 1, 0, 1.0) != ""
    assert EvictionBudget(0).exceeded("a", 9, 9, 1.0) == ""


def test_one_eviction_counts_and_none_does_not() -> None:
    budget = EvictionBudget(3)
    budget.spend("a", 1, 0.0)
    budget.spend("b", 0, 0.0)
    budget.spend("c", -1, 0.0)
    assert budget.totals(1.0) == {"a": 1}
    assert list(budget._sent) == ["a"]


def test_of_too_many_namespaces_the_one_served_longest_ago_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_turns, "MOST_NAMESPACES", 2)
    turns = FairTurns(0.5)
    for name in ("a", "b"):
        turns.spend(name, 1.0, 0.0)
    assert set(turns.totals(0.0)) == {"a", "b"}
    turns.spend("a", 1.0, 0.0)
    turns.spend("c", 1.0, 0.0)
    assert turns.totals(0.0) == {"a": 2.0, "c": 1.0}
