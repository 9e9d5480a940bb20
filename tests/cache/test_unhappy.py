"""The same API server on a bad day."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path
from random import Random

import pytest
from aiohttp import web

from extender.cache import reflector
from extender.cache.backoff import BRIEF
from extender.cache.cache import Cache
from extender.kube.client import KubeClient
from extender.kube.credentials import Access, TokenFile
from extender.settings.settings import CacheSettings
from tests.cache.conftest import FastClock, by_label, until
from tests.cache.fakeapi import FakeApi, node, pod, refuse
from tests.cache.watched import NODES, PODS, Faults, Make, names, pods, started
from tests.event_time import passes

# -- refusals ------------------------------------------------------------------------------------


async def test_429_waits_as_told_and_goes_on_watching(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    faults = Faults(api)
    faults.answers = [lambda: refuse(429, "TooManyRequests", retry_after=17)] * 2
    api.end_watches(PODS)
    api_version = api.version
    await until(lambda: not faults.answers and pods(cache).up)
    assert pods(cache).relists == 0
    assert [seconds for seconds in clock.slept if seconds >= 17.0] == [17.0, 17.0]
    assert api.count(PODS, resourceVersion=str(api_version)) >= 2
    api.put(PODS, pod("after"))
    await until(lambda: names(cache) == {"after"})


async def test_a_few_500s_keep_the_state_many_read_it_again(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    faults = Faults(api)
    faults.answers = [lambda: refuse(500, "InternalError")] * 3
    api.end_watches(PODS)
    await until(lambda: not faults.answers and pods(cache).up)
    assert pods(cache).relists == 0
    delays = [seconds for seconds in clock.slept if seconds > 0.7]
    assert delays == sorted(delays), "each pause is longer than the last"
    assert delays[0] >= 0.8
    api.put(PODS, pod("calm"))
    await until(lambda: names(cache) == {"calm"})
    faults.answers = [lambda: refuse(500, "InternalError")] * 6
    api.end_watches(PODS)
    await until(lambda: not faults.answers and pods(cache).up)
    assert pods(cache).relists == 1


async def test_connection_refused_then_back(api: FakeApi, make: Make) -> None:
    api.put(PODS, pod("before"))
    cache = await started(make)
    await api.stop()
    await until(lambda: "ConnectionFailed" in pods(cache).last_error)
    assert not pods(cache).up
    assert names(cache) == {"before"}, "what is known stays readable"
    assert "watch down" in cache.problem()
    api.put_quietly(PODS, pod("meanwhile"))
    await api.start()
    await until(lambda: names(cache) == {"before", "meanwhile"})
    assert pods(cache).relists == 0
    await until(lambda: cache.problem() == "")


async def test_staleness_grows_while_a_watch_is_down_and_ends_with_it(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    assert cache.stale_for() == 0.0
    faults = Faults(api)
    faults.answers = [lambda: refuse(503, "ServiceUnavailable")] * 4
    down: list[float] = []
    api.end_watches(PODS)
    async with asyncio.timeout(60):
        while faults.answers or not pods(cache).up:
            down.append(cache.stale_for())
            await asyncio.sleep(0.001)
    # 0.8 + 1.6 + 3.2 s at least, on the injected clock.
    assert max(down) >= 5.6
    clock.now += BRIEF
    assert cache.stale_for() == 0.0, "open for so long and quiet, it has missed nothing"


async def test_an_expired_token_does_not_throw_the_state_away(api: FakeApi, make: Make) -> None:
    cache = await started(make)
    faults = Faults(api)
    faults.answers = [lambda: refuse(401, "Unauthorized"), lambda: refuse(403, "Forbidden")]
    api.end_watches(PODS)
    await until(lambda: not faults.answers and pods(cache).up)
    assert pods(cache).relists == 0


async def test_the_token_is_read_again_for_every_request(
    api: FakeApi, clock: FastClock, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    client = KubeClient(Access(server=api.url, authorization=TokenFile(str(token))))
    cache = Cache(client, CacheSettings(), by_label, clock=clock, random=Random(1))
    try:
        await cache.start()
        await cache.wait_synced(60)
        assert {headers["Authorization"] for headers in api.headers} == {"Bearer first"}
        token.write_text("second")
        count = len(api.headers)
        api.end_watches()
        await until(lambda: len(api.headers) >= count + 5)
        assert {headers["Authorization"] for headers in api.headers[count:]} == {"Bearer second"}
    finally:
        await cache.stop()
        await client.close()


# -- streams -------------------------------------------------------------------------------------


async def test_a_stalled_stream_is_torn_down_and_counts_as_down(api: FakeApi, make: Make) -> None:
    api.put(PODS, pod("a"))
    cache = await started(make, stall_seconds=0.15)
    watches = pods(cache).watches
    await until(lambda: pods(cache).watches >= watches + 2)
    assert "no answer in time" in pods(cache).last_error
    assert pods(cache).relists == 0
    assert names(cache) == {"a"}


async def test_bookmarks_keep_a_quiet_watch_alive_and_move_the_version(
    api: FakeApi, make: Make
) -> None:
    cache = await started(make, stall_seconds=30)
    watches = pods(cache).watches
    for _ in range(12):
        api.version += 5
        api.bookmark(PODS)
        await passes(20)
    assert pods(cache).watches == watches
    assert pods(cache).version == str(api.version)
    api.end_watches(PODS)
    await until(lambda: api.count(PODS, resourceVersion=str(api.version)) == 1)


async def test_half_a_line_is_an_interruption_not_an_event(api: FakeApi, make: Make) -> None:
    cache = await started(make)
    document = json.dumps({"type": "ADDED", "object": pod("whole")}).encode()
    api.put_quietly(PODS, pod("whole"))
    for watch in api.watches[PODS]:
        watch.raw(document[:60])
        watch.end()
    await until(lambda: names(cache) == {"whole"})
    assert "middle of a line" in pods(cache).last_error
    assert pods(cache).relists == 0
    assert pods(cache).decode_errors == 0


async def test_a_line_in_many_pieces_is_one_event(api: FakeApi, make: Make) -> None:
    cache = await started(make)
    api.version += 1
    document = pod("pieces")
    document["metadata"]["resourceVersion"] = str(api.version)
    line = json.dumps({"type": "ADDED", "object": document}).encode() + b"\n"
    for watch in api.watches[PODS]:
        for at in range(0, len(line), 40):
            watch.raw(line[at : at + 40])
    await until(lambda: names(cache) == {"pieces"})


async def test_a_server_that_closes_each_watch_is_not_hammered(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)

    async def close_at_once(request: web.Request) -> web.StreamResponse | None:
        if request.path != PODS:
            return None
        response = web.StreamResponse()
        await response.prepare(request)
        return response

    api.script = close_at_once
    clock.slept.clear()
    api.end_watches(PODS)
    await until(lambda: len(clock.slept) >= 6)
    assert clock.slept[:6] == sorted(clock.slept[:6])
    assert min(clock.slept) >= 0.8
    assert "ended at once" in pods(cache).last_error


async def test_a_storage_put_back_from_a_backup_is_noticed(api: FakeApi, make: Make) -> None:
    api.put(PODS, pod("a", node="later"))
    cache = await started(make)
    api.version = 50
    api.put_quietly(PODS, pod("a", node="earlier"))
    api.bookmark(PODS)
    await until(lambda: pods(cache).relists == 1)
    assert set(cache.snapshot().bound) == {"earlier"}, "older, but it is the truth now"


async def test_a_storage_put_back_while_the_server_was_away_is_noticed_without_a_bookmark(
    api: FakeApi, make: Make
) -> None:
    """kube-apiserver accepts a watch from a version it does not have, and shows it nothing."""
    api.put(PODS, pod("a", node="later"))
    cache = await started(make)
    away = Faults(api)
    away.answers.append(lambda: refuse(503, "ServiceUnavailable"))
    api.version = 50
    api.put_quietly(PODS, pod("a", node="earlier"))
    api.end_watches(PODS)
    await until(lambda: pods(cache).relists == 1)
    assert set(cache.snapshot().bound) == {"earlier"}
    assert "the server's storage was put back" in pods(cache).last_error


async def test_a_server_that_was_away_and_has_lost_nothing_is_not_read_again(
    api: FakeApi, make: Make
) -> None:
    api.put(PODS, pod("a"))
    cache = await started(make)
    away = Faults(api)
    away.answers.append(lambda: refuse(503, "ServiceUnavailable"))
    api.put_quietly(PODS, pod("b"))
    watches = pods(cache).watches
    api.end_watches(PODS)
    await until(lambda: names(cache) == {"a", "b"})
    assert pods(cache).watches == watches + 1
    assert pods(cache).relists == 0
    assert api.count(PODS, limit="1") == 1


async def test_the_look_at_the_version_asks_for_any_object_and_waits_for_it_briefly(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that never answers it keeps the watch down no longer than that look may take."""
    api.put(PODS, pod("a"))
    cache = await started(make)
    asked: list[dict[str, str]] = []
    held = asyncio.Event()

    async def hang(request: web.Request) -> web.StreamResponse | None:
        if request.path != PODS:
            return None
        if not asked and "watch" in request.query:
            return refuse(503, "ServiceUnavailable")
        if request.query.get("limit") == "1":
            asked.append(dict(request.query))
            if len(asked) == 1:
                await held.wait()
        return None

    api.script = hang
    monkeypatch.setattr(reflector, "VERSION_SECONDS", 0.1)
    monkeypatch.setattr(reflector, "PAGE_SECONDS", math.inf)
    api.put_quietly(PODS, pod("b"))
    api.end_watches(PODS)
    try:
        await until(lambda: names(cache) == {"a", "b"})
    finally:
        held.set()
    assert asked == [{"limit": "1"}] * 2
    assert pods(cache).relists == 0


async def test_a_wall_clock_that_jumps_disturbs_nothing(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    clock.epoch -= 3600
    api.put(PODS, pod("a"))
    await until(lambda: names(cache) == {"a"})
    assert cache.snapshot().now == clock.epoch
    assert cache.stale_for() == 0.0
    assert pods(cache).errors == 0


async def test_stopping_leaves_the_state_readable(api: FakeApi, make: Make) -> None:
    api.put(NODES, node("n1"))
    cache = await started(make)
    await cache.stop()
    requests = len(api.requests)
    api.put(PODS, pod("unseen"))
    api.end_watches()
    await passes(60)
    assert set(cache.snapshot().nodes) == {"n1"}
    assert not names(cache)
    assert len(api.requests) == requests
