"""Decisions counted by day, also beyond the end of the process."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from extender.gang.runtime.clocks import Clocks
from extender.gang.status.status_map import DAYS_KEY, SELDOM_SECONDS, StatusMap
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.gang.tell.decisions_per_day import MOST_COUNT, MOST_DAYS, MOST_TEXT, SECONDS, Days
from extender.kube.client import KubeClient
from extender.sandbox.apiserver import ApiServer
from extender.sandbox.faults import Fault
from extender.settings.status import StatusSettings
from tests.gang.test_status_reports import PATH, Lease

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


NOW = 20_775.5 * SECONDS


def decided(outcome: Outcome = Outcome.PLAN, ago: float = 0.0) -> Decision:
    return Decision(time=NOW - ago, gang="g", verb=Verb.LOOP, outcome=outcome, message="")


def sums(days: Days) -> dict[Outcome, int]:
    found: dict[Outcome, int] = {}
    for day in days.until(NOW):
        for outcome, count in day.counts.items():
            found[outcome] = found.get(outcome, 0) + count
    return found


class Life:
    """One replica: a lease, what it counts, and its status map."""

    def __init__(self, client: KubeClient) -> None:
        self.now = 1000.0
        self.lease = Lease()
        self.days = Days(NOW)
        clocks = Clocks(lambda: self.now, lambda: NOW)
        settings = StatusSettings()
        self.map = StatusMap(
            client, "kube-system", settings, self.lease, self, days=self.days, clocks=clocks
        )

    async def text(self, since: float) -> str:
        return "gangs: 1\n"

    def decide(self, count: int) -> None:
        for _ in range(count):
            self.days.add(decided())

    async def round(self) -> None:
        self.now += SELDOM_SECONDS
        await self.map.look()


@pytest.fixture
async def api() -> AsyncIterator[ApiServer]:
    one = ApiServer()
    await one.start()
    yield one
    await one.close()


@pytest.fixture
async def client(api: ApiServer) -> AsyncIterator[KubeClient]:
    async with await KubeClient.connect(server=api.url) as one:
        yield one


async def test_a_restart_goes_on_counting(client: KubeClient) -> None:
    first = Life(client)
    first.days.add(decided(Outcome.DONE, ago=3 * SECONDS))
    first.decide(2)
    await first.round()
    assert first.days.lasting
    second = Life(client)
    second.days.since = NOW + 5
    second.decide(1)
    assert not second.days.lasting
    await second.round()
    assert sums(second.days) == {Outcome.DONE: 1, Outcome.PLAN: 3}
    assert second.days.since == NOW
    await second.round()
    assert sums(second.days) == {Outcome.DONE: 1, Outcome.PLAN: 3}


async def test_the_lease_goes_to_and_fro_and_nothing_is_counted_twice(client: KubeClient) -> None:
    mine, other = Life(client), Life(client)
    other.lease.acts = False
    mine.decide(5)
    await mine.round()
    await other.round()
    assert sums(other.days) == {}
    for leads, waits in ((other, mine), (mine, other), (other, mine)):
        waits.lease.acts, leads.lease.acts = False, True
        await waits.round()
        leads.decide(1)
        await leads.round()
        leads.decide(1)
        await leads.round()
    assert sums(other.days) == {Outcome.PLAN: 11}


async def test_what_could_not_be_written_is_written_later(
    api: ApiServer, client: KubeClient
) -> None:
    life = Life(client)
    life.decide(1)
    await life.round()
    for status in (409, 503, 403):
        api.faults.plan(Fault(1, method="PUT", path="configmaps", status=status, reason="No"))
        life.decide(1)
        await life.round()
        api.faults.clear()
    await life.round()
    later = Life(client)
    await later.round()
    assert sums(life.days) == sums(later.days) == {Outcome.PLAN: 4}


async def test_it_is_not_replaced_before_it_is_read(api: ApiServer, client: KubeClient) -> None:
    first = Life(client)
    first.decide(3)
    await first.round()
    second = Life(client)
    api.faults.plan(Fault(1, method="GET", path="configmaps", status=503, reason="No"))
    await second.round()
    api.faults.clear()
    await second.round()
    assert sums(second.days) == {Outcome.PLAN: 3}


GARBAGE = (
    "",
    "{",
    "[]",
    "null",
    "7",
    '{"days": 7, "since": "x"}',
    '{"days": {"20775": 3, "x": {}, "-1": {"plan": 1}, "20775 ": {"plan": 1}}}',
    '{"days": {"20775": {"plan": true, "done": 1.5, "x": 3, "refusal": -4, "broken": null}}}',
    f'{{"days": {{"20775": {{"plan": {MOST_COUNT + 1}}}}}, "since": -1}}',
    '{"days": {"99999999": {"plan": 1}, "20000": {"plan": 1}}, "since": 9e99}',
    '{"days": {"20775": {"plan": 1}}}' + " " * MOST_TEXT,
    "[" * 5000,
)


@pytest.mark.parametrize("text", GARBAGE)
def test_garbage_is_passed_over(text: str) -> None:
    days = Days(NOW)
    days.add(decided())
    days.adopt(text, NOW)
    assert sums(days) == {Outcome.PLAN: 1}
    assert days.since == NOW


async def test_garbage_in_the_map_is_replaced(client: KubeClient) -> None:
    first = Life(client)
    await first.round()
    data: Any = {"data": {DAYS_KEY: "{]"}}
    await client.patch(PATH, data)
    second = Life(client)
    second.decide(2)
    await second.round()
    third = Life(client)
    await third.round()
    assert sums(third.days) == {Outcome.PLAN: 2}


def test_a_month_of_everything_is_small_and_read_back() -> None:
    dice = random.Random(7)
    days = Days(NOW - 60 * SECONDS)
    for back in range(60, -1, -1):
        for outcome in Outcome:
            days.add(decided(outcome, ago=back * SECONDS))
    for counts in days._counts.values():
        for outcome in Outcome:
            counts[outcome] = dice.randrange(MOST_COUNT // 2, MOST_COUNT)
    text = days.take()
    assert len(text) < MOST_TEXT // 2
    later = Days(NOW)
    later.adopt(text, NOW)
    assert later.until(NOW) == days.until(NOW)
    assert len(later.until(NOW)) == MOST_DAYS
    assert later.since == NOW - 60 * SECONDS
