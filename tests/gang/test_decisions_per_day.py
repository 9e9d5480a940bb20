"""Decisions counted by day (gang.tell.decisions_per_day)."""

from __future__ import annotations

from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.decisions_per_day import MOST_DAYS, SECONDS, Days

NOON = 20_000 * SECONDS + SECONDS / 2


def made(time: float, outcome: Outcome = Outcome.PLAN) -> Decision:
    return Decision(time=time, gang="pod-group:a/b", verb=Verb.LOOP, outcome=outcome, message="x")


def test_each_day_has_what_was_decided_on_it() -> None:
    days = Days(NOON - 2 * SECONDS)
    days.add(made(NOON - SECONDS))
    days.add(made(NOON, Outcome.DONE))
    days.add(made(NOON, Outcome.DONE))
    told = days.until(NOON)
    assert len(told) == MOST_DAYS
    assert [day.start for day in told[-2:]] == [19_999 * SECONDS, 20_000 * SECONDS]
    assert told[-2].counts == {Outcome.PLAN: 1}
    assert told[-1].counts == {Outcome.DONE: 2}
    assert not any(day.counts for day in told[:-2])


def test_it_stays_small_however_long_it_counts() -> None:
    days = Days(NOON)
    for day in range(100):
        days.add(made(NOON + day * SECONDS))
    assert len(days._counts) == MOST_DAYS
    told = days.until(NOON + 99 * SECONDS)
    assert [day.counts for day in told] == [{Outcome.PLAN: 1}] * MOST_DAYS


def test_a_clock_that_goes_back_loses_nothing_newer() -> None:
    days = Days(NOON)
    for day in range(MOST_DAYS):
        days.add(made(NOON + day * SECONDS))
    days.add(made(NOON - 5 * SECONDS))
    assert all(day.counts for day in days.until(NOON + (MOST_DAYS - 1) * SECONDS))
