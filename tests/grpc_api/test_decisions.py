"""WatchDecisions: every decision once, in order, at the reader's pace."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.grpc_api.decision_feed import DecisionFeed
from extender.model.plan import Code
from extender.pb.podgroup.v1 import watch_pb2
from tests.grpc_api.site import calling, serving
from tests.grpc_api.test_seats import Terms, ended
from tests.server.doubles import Echo


def made(number: int, gang: str = "g") -> Decision:
    return Decision(
        time=1.5 + number,
        gang=gang,
        verb=Verb.LOOP,
        outcome=Outcome.REFUSAL,
        code=Code.INFEASIBLE,
        message=str(number),
        seconds=0.25,
    )


def numbers(feed: DecisionFeed, seen: int) -> list[int]:
    found: list[int] = []
    while True:
        decision, seen = feed.after(seen)
        if decision is None:
            return found
        found.append(int(decision.message))


def test_readers_go_through_the_ring_at_their_own_pace() -> None:
    feed = DecisionFeed(size=4)
    assert feed.after(0) == (None, 0)
    for i in range(1, 4):
        feed.add(made(i))
    assert numbers(feed, 0) == [1, 2, 3]
    assert numbers(feed, 2) == [3]
    for i in range(4, 11):
        feed.add(made(i))
    assert numbers(feed, 2) == [7, 8, 9, 10], "the ring keeps four"
    found, number = feed.after(2)
    assert found is not None
    assert number == 7
    assert [int(each.message) for each in feed] == [10, 9, 8, 7]


def test_a_backlog_counts_decisions_about_the_gang() -> None:
    feed = DecisionFeed(size=8)
    for i in range(1, 13):
        feed.add(made(i, "odd" if i % 2 else "even"))
    assert numbers(feed, feed.start(0, "")) == []
    assert numbers(feed, feed.start(3, "")) == [10, 11, 12]
    assert numbers(feed, feed.start(100, "")) == list(range(5, 13))
    assert numbers(feed, feed.start(2, "odd")) == [9, 10, 11, 12]
    assert numbers(feed, feed.start(2, "nobody")) == []


async def test_decisions_are_told_as_they_are_made() -> None:
    async with serving(Echo(), context=Terms()) as site, calling(site.target) as callers:
        site.feed.add(made(1))
        site.feed.add(made(2))
        call = callers.watch.WatchDecisions(watch_pb2.WatchDecisionsRequest(backlog=1))
        first = await read(call)
        assert first.decision.message == "2"
        assert (first.decision.gang, first.decision.code) == ("g", "infeasible")
        assert first.decision.outcome == "refusal"
        assert first.decision.time.ToNanoseconds() == 3_500_000_000
        assert first.decision.took.ToNanoseconds() == 250_000_000
        site.feed.add(made(3))
        assert (await read(call)).decision.message == "3"
        site.reasons.append("another replica leads")
        assert (await ended(call))[0] is grpc.StatusCode.UNAVAILABLE


async def test_only_the_gang_asked_for_is_told() -> None:
    async with serving(Echo(), context=Terms()) as site, calling(site.target) as callers:
        for i in range(6):
            site.feed.add(made(i, "odd" if i % 2 else "even"))
        asked = watch_pb2.WatchDecisionsRequest(backlog=2, gang="odd")
        call = callers.watch.WatchDecisions(asked)
        assert [(await read(call)).decision.message for _ in range(2)] == ["3", "5"]


async def test_what_a_slow_reader_missed_is_counted() -> None:
    async with serving(Echo(), context=Terms()) as site, calling(site.target) as callers:
        call = callers.watch.WatchDecisions(watch_pb2.WatchDecisionsRequest(backlog=1))
        site.feed.add(made(0))
        found = [await read(call)]  # from here on it reads; its call is counted before that
        # All in one turn of the loop: nothing can be written in between.
        for i in range(1, 1001):
            site.feed.add(made(i))
        while found[-1].decision.message != "1000":
            found.append(await read(call))
        told = [int(each.decision.message) for each in found]
        assert told == sorted(told)
        assert sum(each.missed for each in found) + len(found) in (1000, 1001)
        assert found[-512].decision.message == "489"


async def read(call: Any) -> watch_pb2.WatchDecisionsResponse:
    found: watch_pb2.WatchDecisionsResponse = await asyncio.wait_for(call.read(), 60)
    return found
