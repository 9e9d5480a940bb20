"""The same API server on a bad day."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web

from extender.cache.cache import Cache
from extender.cache.stats import WatchStats
from extender.kube.client import KubeClient
from extender.kube.credentials import Access, TokenFile
from extender.model.objects import Pod
from extender.model.settings import CacheSettings
from tests.cache.conftest import FastClock, by_label, until
from tests.cache.fakeapi import FakeApi, node, pod, refuse, status

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
Make = Callable[..., Cache]


class Faults:
    """Answers the next requests of one kind with what is queued, then gets out of the way."""

    def __init__(self, api: FakeApi, path: str = PODS) -> None:
        self.answers: list[Callable[[], web.Response]] = []
        self.path = path
        self.only: Callable[[dict[str, str]], bool] = lambda query: True
        api.script = self

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        if request.path == self.path and self.answers and self.only(dict(request.query)):
            return self.answers.pop(0)()
        return None


def pods(cache: Cache) -> WatchStats:
    return cache.stats.watches["pods"]


def names(cache: Cache) -> set[str]:
    return {pod.name for pod in cache.store.pods.by_uid.values()}


async def started(make: Make, **settings: Any) -> Cache:
    cache = make(**settings)
    await cache.start()
    await cache.wait_synced(5)
    await until(lambda: pods(cache).up)
    return cache


# -- 410 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("watch_list", [True, False])
async def test_410_on_the_watch_reads_everything_again(
    api: FakeApi, make: Make, watch_list: bool
) -> None:
    api.put(PODS, pod("stays"))
    api.put(PODS, pod("goes"))
    cache = await started(make, watch_list=watch_list)
    faults = Faults(api)
    faults.only = lambda query: "resourceVersion" in query and query.get("watch") == "true"
    faults.answers = [lambda: refuse(410, "Expired")]
    # Both happen while no watch is open, so only reading again can find them.
    api.end_watches(PODS)
    await until(lambda: not api.watches[PODS])
    api.remove(PODS, "default", "goes", quietly=True)
    api.put_quietly(PODS, pod("comes"))
    await until(lambda: names(cache) == {"stays", "comes"})
    assert pods(cache).relists == 1
    assert pods(cache).errors >= 1


async def test_410_in_the_stream_reads_everything_again(api: FakeApi, make: Make) -> None:
    api.put(PODS, pod("goes"))
    cache = await started(make)
    gone: list[str] = []
    cache.subscribe(lambda change: gone.append(change.old.uid if change.old else ""))
    api.remove(PODS, "default", "goes", quietly=True)
    api.tell(PODS, {"type": "ERROR", "object": status(410, "Expired", "too old")})
    await until(lambda: not names(cache))
    assert gone == ["uid-default-goes"]
    assert pods(cache).relists == 1


async def test_readers_never_see_half_a_relist(api: FakeApi, make: Make) -> None:
    for index in range(50):
        api.put(PODS, pod(f"old{index}", node="n1"))
    cache = await started(make, watch_list=False, page_size=5)
    sizes: set[int] = set()
    cache.subscribe(lambda change: None)
    for index in range(50):
        api.remove(PODS, "default", f"old{index}", quietly=True)
        api.put_quietly(PODS, pod(f"new{index}", node="n1"))
    api.tell(PODS, {"type": "ERROR", "object": status(410, "Expired")})
    async with asyncio.timeout(5):
        while pods(cache).relists == 0:
            sizes.add(len(cache.snapshot().bound.get("n1", ())))
            await asyncio.sleep(0)
    assert sizes <= {50}
    assert names(cache) == {f"new{index}" for index in range(50)}


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
    assert cache.problem() == "" or await settled(cache)


async def settled(cache: Cache) -> bool:
    await until(lambda: cache.problem() == "")
    return True


async def test_staleness_grows_while_a_watch_is_down_and_ends_with_it(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make)
    assert cache.stale_for() == 0.0
    faults = Faults(api)
    faults.answers = [lambda: refuse(503, "ServiceUnavailable")] * 4
    down: list[float] = []
    api.end_watches(PODS)
    async with asyncio.timeout(5):
        while faults.answers or not pods(cache).up:
            down.append(cache.stale_for())
            await asyncio.sleep(0.001)
    # 0.8 + 1.6 + 3.2 s at least, on the injected clock.
    assert max(down) >= 5.6
    assert cache.stale_for() == 0.0


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
        await cache.wait_synced(5)
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
    cache = await started(make, stall_seconds=0.3)
    watches = pods(cache).watches
    for _ in range(12):
        api.version += 5
        api.bookmark(PODS)
        await asyncio.sleep(0.05)
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


# -- malformed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        b"this is not JSON",
        b'{"type":"MODIFIED"}',
        b'{"type":"MODIFIED","object":{"metadata":{"name":5}}}',
        b'{"type":"RENAMED","object":{"metadata":{"name":"x","uid":"u"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x"}}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"x","uid":"u"},"spec":{"containers":'
        b'[{"resources":{"requests":{"cpu":"many"}}}]}}}',
        b'{"type":"BOOKMARK","object":{"metadata":{}}}',
        b'{"type":"ERROR","object":"sorry"}',
    ],
)
async def test_a_malformed_event_is_counted_and_everything_read_again(
    api: FakeApi, make: Make, line: bytes
) -> None:
    api.put(PODS, pod("a"))
    cache = await started(make)
    api.put_quietly(PODS, pod("b"))
    for watch in api.watches[PODS]:
        watch.raw(line + b"\n")
    if b'"ERROR"' in line:
        # No status to go by: the watch is interrupted, the state still continues.
        await until(lambda: names(cache) == {"a", "b"})
        assert pods(cache).errors >= 1
        return
    await until(lambda: pods(cache).relists == 1)
    assert names(cache) == {"a", "b"}
    assert pods(cache).decode_errors == 1
    assert cache.synced


@pytest.mark.parametrize("watch_list", [True, False])
async def test_a_malformed_object_is_left_out_and_named(
    api: FakeApi, make: Make, watch_list: bool
) -> None:
    api.put(PODS, pod("fine"))
    api.put(PODS, pod("broken", cpu="1x"))
    wrong = pod("typed")
    wrong["spec"]["nodeName"] = 7
    api.put(PODS, wrong)
    api.put(PODS, pod("fine-too"))
    cache = await started(make, watch_list=watch_list)
    assert names(cache) == {"fine", "fine-too"}
    assert set(pods(cache).undecodable) == {"Pod default/broken", "Pod default/typed"}
    assert "spec.containers[0].resources.requests.cpu" in cache.problem()
    assert "nodeName" in cache.problem()
    # Mended objects are followed again, and the note about them goes with the next reading.
    api.put(PODS, pod("broken"))
    await until(lambda: "broken" in names(cache))


async def test_a_mistake_of_ours_ends_in_a_fresh_start_not_in_silence(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = await started(make)
    put = cache.store.pods.put
    failures = [RuntimeError("a mistake on purpose")]

    def mistaken(record: Pod, force: bool = False) -> None:
        if failures:
            raise failures.pop()
        put(record, force)

    monkeypatch.setattr(cache.store.pods, "put", mistaken)
    api.put(PODS, pod("a"))
    await until(lambda: pods(cache).relists == 1)
    assert names(cache) == {"a"}
    assert "a mistake on purpose" in pods(cache).last_error


async def test_an_answer_that_is_no_list_is_tried_again(api: FakeApi, make: Make) -> None:
    faults = Faults(api)
    faults.answers = [
        lambda: web.Response(text="<html>", content_type="application/json"),
        lambda: web.json_response({"metadata": {}, "items": []}),
    ]
    api.put(PODS, pod("a"))
    cache = await started(make, watch_list=False)
    assert names(cache) == {"a"}
    assert pods(cache).errors == 2


# -- reading the whole state -----------------------------------------------------------------------


async def test_a_refused_watch_list_falls_back_to_pages(api: FakeApi, make: Make) -> None:
    api.watch_list = False
    for index in range(5):
        api.put(PODS, pod(f"p{index}"))
    cache = await started(make, page_size=2)
    assert len(names(cache)) == 5
    assert api.count(PODS, limit="2") == 3
    api.tell(PODS, {"type": "ERROR", "object": status(410, "Expired")})
    await until(lambda: pods(cache).relists == 1)
    assert api.count(PODS, sendInitialEvents="true") == 1, "it is not asked for again"


async def test_a_server_that_ignores_watch_list_is_found_out(api: FakeApi, make: Make) -> None:
    api.put(PODS, pod("a"))

    async def ignorant(request: web.Request) -> web.StreamResponse | None:
        if request.path == PODS and request.query.get("sendInitialEvents"):
            response = web.StreamResponse()
            await response.prepare(request)
            event = {"type": "ADDED", "object": pod("a")}
            await response.write(json.dumps(event).encode() + b"\n")
            await asyncio.sleep(5)
        return None

    api.script = ignorant
    cache = await started(make, stall_seconds=0.2)
    assert names(cache) == {"a"}
    assert pods(cache).lists == 1


async def test_an_expired_page_token_starts_over_and_in_the_end_reads_in_one_piece(
    api: FakeApi, make: Make
) -> None:
    for index in range(5):
        api.put(PODS, pod(f"p{index}"))

    async def forgetful(request: web.Request) -> web.StreamResponse | None:
        if request.path == PODS and "continue" in request.query:
            return refuse(410, "Expired")
        return None

    api.script = forgetful
    cache = await started(make, watch_list=False, page_size=2)
    assert len(names(cache)) == 5
    assert pods(cache).lists == 3
    assert api.count(PODS, limit="2") == 4


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
    await asyncio.sleep(0.05)
    assert set(cache.snapshot().nodes) == {"n1"}
    assert not names(cache)
    assert len(api.requests) == requests
