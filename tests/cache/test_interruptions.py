"""Watches that are cut again and again: how long the state is stale, how often is asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from aiohttp import web

from extender.cache.backoff import BRIEF, Backoff
from extender.cache.cache import Cache
from tests.cache.conftest import FastClock, until
from tests.cache.fakeapi import FakeApi, node, pod, refuse
from tests.cache.watched import NODES, PODS, Faults, Make, names, pods, started


async def cut(api: FakeApi, cache: Cache) -> None:
    """Break the pods' watch in the middle of a line, as a connection that is lost does."""
    watches = pods(cache).watches
    for watch in list(api.watches[PODS]):
        watch.raw(b'{"type":')
        watch.end()
    await until(lambda: pods(cache).watches > watches and pods(cache).up)


@pytest.mark.parametrize("seconds", [12.0, 3.0, 60.0])
async def test_a_watch_cut_again_and_again_is_hardly_ever_stale(
    api: FakeApi, make: Make, clock: FastClock, seconds: float
) -> None:
    cache = await started(make)
    began, stale, longest = clock.now, 0.0, 0.0
    while clock.now - began < 600.0:
        clock.now += seconds
        assert cache.stale_for() == 0.0
        down = clock.now
        await cut(api, cache)
        stale += clock.now - down
        longest = max(longest, clock.now - down)
    assert longest < 2.0, "never as long as gang verbs would be refused for"
    # Cut every few seconds each pause is the shortest there is, else there is none.
    assert stale / (clock.now - began) < (0.35 if seconds < 5.0 else 0.001)
    assert pods(cache).relists == 0


async def test_the_first_try_after_a_long_watch_is_at_once_the_next_ones_are_not(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    clock.now += 60.0
    faults = Faults(api)
    faults.answers = [lambda: refuse(503, "ServiceUnavailable")] * 3
    clock.slept.clear()
    await cut(api, cache)
    first, *others = clock.slept
    assert first == 0.0
    assert len(others) == 3
    assert others[0] >= 0.8
    assert others == sorted(others)


async def test_a_quiet_watch_that_timed_out_counts_up_to_what_was_heard(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    """Open for long but heard for no time: a server that only accepts is not a stable one."""
    await started(make, stall_seconds=0.1)
    clock.slept.clear()

    def passes() -> bool:
        clock.now += 0.2
        return len(clock.slept) >= 30

    await until(passes)
    assert min(clock.slept) >= 0.8, "never at once"


def short(*, event: bool, orderly: bool) -> Callable[[web.Request], object]:
    """Return a script that accepts a watch of pods and ends it at once."""

    async def answer(request: web.Request) -> web.StreamResponse | None:
        query = request.query
        if request.path != PODS or "watch" not in query or "sendInitialEvents" in query:
            return None
        response = web.StreamResponse()
        await response.prepare(request)
        if event:
            version = request.query["resourceVersion"]
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": version}}}
            await response.write(json.dumps(bookmark).encode() + b"\n")
        if not orderly:
            await response.write(b'{"type":')
        return response

    return answer


@pytest.mark.parametrize("orderly", [True, False])
@pytest.mark.parametrize("event", [True, False])
async def test_watches_that_open_and_end_at_once_back_off(
    api: FakeApi, make: Make, clock: FastClock, *, event: bool, orderly: bool
) -> None:
    cache = await started(make)
    api.script = short(event=event, orderly=orderly)  # type: ignore[assignment]
    clock.slept.clear()
    asked = api.count(PODS, watch="true")
    api.end_watches(PODS)
    await until(lambda: len([s for s in clock.slept if s > 0.0]) >= 6 or api.count(PODS) > 100)
    pauses = [seconds for seconds in clock.slept if seconds > 0.0]
    assert pauses[:6] == sorted(pauses[:6])
    assert pauses[5] > 20.0
    assert api.count(PODS, watch="true") - asked <= len(pauses) + 2
    assert api.count(PODS, limit="1") <= (0 if orderly else len(pauses) + 2)
    assert not pods(cache).up or cache.stale_for() == 0.0


async def test_a_version_that_is_always_too_old_is_not_read_again_without_pause(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    """A server whose watches all answer 410, however fresh the list they start from."""
    cache = await started(make, watch_list=False)

    async def gone(request: web.Request) -> web.StreamResponse | None:
        if request.path == PODS and request.query.get("watch") == "true":
            return refuse(410, "Expired")
        return None

    api.script = gone
    clock.now += 60.0
    clock.slept.clear()
    lists = pods(cache).lists
    api.end_watches(PODS)
    await until(lambda: len(clock.slept) >= 7)
    assert pods(cache).lists - lists <= 8
    assert clock.slept[1:7] == sorted(clock.slept[1:7])
    assert clock.slept[6] > 20.0
    assert cache.stale_for() > 60.0


async def test_a_version_that_is_too_old_is_read_again_soon_whatever_failed_before(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    """The pauses that a server that was away had grown to are no measure for one that is well."""
    cache = await started(make, watch_list=False)
    faults = Faults(api)
    away = [lambda: refuse(429, "TooManyRequests")] * 6
    faults.answers = [*away, lambda: refuse(410, "Expired")]
    clock.slept.clear()
    lists = pods(cache).lists
    api.end_watches(PODS)
    await until(lambda: pods(cache).lists > lists and pods(cache).up)
    pauses = [seconds for seconds in clock.slept if seconds > 0.0]
    assert max(pauses) > 20.0
    assert pauses[-1] < 2.0


async def test_a_pause_that_is_asked_for_is_bounded(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    """A proxy that says "come back tomorrow" must not blind us until then."""
    cache = await started(make)
    faults = Faults(api)
    faults.answers = [lambda: refuse(429, "TooManyRequests", retry_after=86_400)]
    clock.slept.clear()
    await cut(api, cache)
    assert 30.0 <= max(clock.slept) <= 60.0


async def test_5xx_between_stable_watches_do_not_add_up_to_a_relist(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    api.put(NODES, node("n1"))
    faults = Faults(api)
    for _ in range(8):
        clock.now += 60.0
        faults.answers = [lambda: refuse(503, "ServiceUnavailable")]
        await cut(api, cache)
    assert pods(cache).relists == 0


def test_an_open_watch_says_how_the_next_failure_is_met() -> None:
    now = [1000.0]
    backoff = Backoff(lambda: now[0], lambda: 0.0)
    assert [backoff.delay() for _ in range(4)] == [0.8, 1.6, 3.2, 6.4]
    backoff.was_open(0.5)
    assert backoff.delay() == 12.8, "it opened, and that was all"
    backoff.was_open(2.0)
    assert [backoff.delay(), backoff.delay()] == [0.8, 1.6]
    backoff.was_open(12.0)
    assert [backoff.delay(), backoff.delay(), backoff.delay()] == [0.0, 0.8, 1.6]
    assert [backoff.delay() for _ in range(6)][-1] == 30.0


def test_one_too_old_version_sets_the_pauses_back_and_not_each_of_a_row() -> None:
    now = [1000.0]
    backoff = Backoff(lambda: now[0], lambda: 0.0)
    assert [backoff.delay() for _ in range(4)] == [0.8, 1.6, 3.2, 6.4]
    backoff.too_old()
    assert [backoff.delay(), backoff.delay()] == [0.8, 1.6]
    backoff.too_old()
    assert [backoff.delay(), backoff.delay()] == [3.2, 6.4], "whose watches are all too old"
    backoff.was_open(2.0)
    backoff.delay()
    backoff.delay()
    backoff.too_old()
    assert backoff.delay() == 0.8
    backoff.was_open(12.0)
    backoff.too_old()
    assert backoff.delay() == 0.0, "no longer than it would have been"
    now[0] += 121.0
    assert backoff.delay() == 0.8


async def test_events_between_cuts_are_not_lost(api: FakeApi, make: Make, clock: FastClock) -> None:
    cache = await started(make)
    for count in range(5):
        clock.now += 12.0
        api.put_quietly(PODS, pod(f"p{count}"))
        await cut(api, cache)
        await until(lambda count=count: len(cache.store.pods.by_uid) == count + 1)  # type: ignore[misc]
    assert pods(cache).relists == 0


TOO_OLD = json.dumps(
    {
        "type": "ERROR",
        "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"},
    }
).encode()


def third_watch(
    line: bytes, accepted: asyncio.Event | None = None, go_on: asyncio.Event | None = None
) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """Refuse the pods' watches but the third, which ends with ``line``, after ``go_on``."""
    asked = 0

    async def script(request: web.Request) -> web.StreamResponse | None:
        if request.path != PODS or request.query.get("watch") != "true":
            return None
        nonlocal asked
        asked += 1
        if asked != 3:
            return refuse(503, "ServiceUnavailable")
        response = web.StreamResponse()
        await response.prepare(request)
        if accepted is not None and go_on is not None:
            accepted.set()
            await go_on.wait()
        await response.write(line)
        return response

    return script


@pytest.mark.parametrize("line", [TOO_OLD + b"\n", b""], ids=["too old", "nothing"])
async def test_a_watch_that_is_accepted_and_shows_nothing_makes_the_state_no_newer(
    api: FakeApi,
    make: Make,
    clock: FastClock,
    line: bytes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An API server that comes back after its etcd accepts watches, and says 410 to each."""
    cache = await started(make)
    api.put(PODS, pod("last"))
    await until(lambda: "last" in names(cache))
    api.script = third_watch(line)
    down, pause = clock.now, clock.sleep
    newer: list[float] = []

    async def sleep(seconds: float) -> None:
        newer.append(clock.now - down - cache.stale_for())
        while seconds > BRIEF / 2:  # the process runs meanwhile, so a watch that ends is known to
            clock.now += BRIEF / 2
            cache._pulse.beat()
            seconds -= BRIEF / 2
        await pause(seconds)

    monkeypatch.setattr(clock, "sleep", sleep)
    watches = pods(cache).watches
    api.end_watches(PODS)
    await until(lambda: len(newer) >= 6)
    assert pods(cache).watches == watches + 1, "it was accepted once"
    assert clock.now - down > 5.0
    assert max(newer) < 0.01, "said to be as old as it is, each time"


@pytest.mark.parametrize("lives", [True, False], ids=["lives", "too old"])
async def test_a_watch_that_has_shown_nothing_yet_is_no_news(
    api: FakeApi, make: Make, clock: FastClock, *, lives: bool
) -> None:
    """It was accepted, and may say in a moment that its version is too old."""
    cache = await started(make)
    api.put(PODS, pod("last"))
    await until(lambda: "last" in names(cache))
    accepted, go_on = asyncio.Event(), asyncio.Event()
    for _ in range(3):  # since the last event, and the process runs meanwhile
        clock.now += BRIEF / 2
        cache._pulse.beat()
    api.script = third_watch(TOO_OLD + b"\n", accepted, go_on)
    down, watches = clock.now, pods(cache).watches
    api.end_watches(PODS)
    await until(lambda: accepted.is_set() and pods(cache).watches > watches)
    assert clock.now - down > 2.0
    assert cache.stale_for() == pytest.approx(clock.now - down, abs=0.01)
    if lives:
        clock.now += BRIEF
        assert cache.stale_for() == 0.0
    go_on.set()
    await until(lambda: not pods(cache).up)
    assert cache.stale_for() >= clock.now - down - 0.01
