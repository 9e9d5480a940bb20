"""Watches that look open and bring nothing: how long that can go unnoticed."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
from aiohttp import web

from extender.cache.backoff import BRIEF
from extender.kube import sockets
from extender.kube.client import KubeClient
from tests.cache.conftest import FastClock, until
from tests.cache.fakeapi import FakeApi, pod, refuse
from tests.cache.watched import PODS, Faults, Make, names, pods, started


class Frozen:
    """Answers nothing any more; what was open before stays open."""

    def __init__(self, api: FakeApi) -> None:
        self.over = asyncio.Event()
        self.asked = 0
        api.script = self

    async def __call__(self, request: web.Request) -> web.StreamResponse | None:
        self.asked += 1
        await self.over.wait()
        return None


async def test_a_server_that_answers_nothing_is_noticed_although_its_watches_are_open(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make, probe_seconds=0.05)
    frozen = Frozen(api)
    await until(lambda: frozen.asked >= 2)
    clock.now += 12.0
    assert pods(cache).up
    assert cache.stale_for() >= 12.0
    assert "not answered for 12 s" in cache.problem()
    frozen.over.set()
    await until(lambda: cache.stale_for() == 0.0)
    assert cache.problem() == ""
    assert pods(cache).up


async def test_a_server_that_refuses_the_question_is_there(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make, probe_seconds=0.02)

    async def forbidden(request: web.Request) -> web.StreamResponse | None:
        return refuse(403, "Forbidden") if request.path == "/version" else None

    api.script = forbidden
    for _ in range(4):
        clock.now += 5.0
        await until(lambda: cache.stale_for() == 0.0)


async def test_a_proxy_without_a_server_behind_it_is_not_a_server(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make, probe_seconds=0.02)

    async def broken(request: web.Request) -> web.StreamResponse | None:
        return refuse(502, "BadGateway") if request.path == "/version" else None

    api.script = broken
    count = api.count("/version")
    await until(lambda: api.count("/version") > count + 2)
    clock.now += 11.0
    await until(lambda: api.count("/version") > count + 5)
    assert cache.stale_for() >= 11.0


async def test_a_process_that_was_stopped_knows_that_it_knows_nothing(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    """SIGSTOP and SIGCONT: the first verb comes before the events that were missed."""
    cache = await started(make, probe_seconds=0.3)
    assert cache.stale_for() == 0.0
    clock.now += 60.0
    assert cache.stale_for() >= 60.0
    await until(lambda: cache.stale_for() == 0.0)


@pytest.mark.parametrize("beats", [0, 1], ids=["the watch first", "the pulse first"])
async def test_watches_that_ended_while_the_process_stood_still_were_down_all_the_time(
    api: FakeApi, make: Make, clock: FastClock, beats: int
) -> None:
    """It reads that they have ended when it goes on: nobody knows since when they had."""
    cache = await started(make)
    api.put(PODS, pod("last"))
    await until(lambda: "last" in names(cache))

    async def refused(request: web.Request) -> web.StreamResponse | None:
        return refuse(503, "ServiceUnavailable") if "watch" in request.query else None

    api.script = refused
    clock.now += 60.0
    for _ in range(beats):
        cache._pulse.beat()
    api.end_watches(PODS)
    await until(lambda: not pods(cache).up)
    assert cache.stale_for() >= 60.0


async def test_a_mistake_in_the_probe_does_not_end_it(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    cache = await started(make, probe_seconds=0.02)
    get, failures = cache._client.get, [ValueError("ours")] * 3

    async def failing(path: str, **options: object) -> object:
        if failures:
            raise failures.pop()
        return await get(path)

    cache._client.get = failing  # type: ignore[method-assign, assignment]
    await until(lambda: not failures)
    clock.now += 60.0
    await until(lambda: cache.stale_for() == 0.0)


async def test_a_connection_that_is_lost_was_silent_since_it_was_heard_last(
    api: FakeApi, make: Make, clock: FastClock
) -> None:
    """As the kernel reports a peer that is gone: after a while without any sign of life."""
    cache = await started(make)
    # An orderly fall-back would hide a WatchList that works.
    clock.now += 40.0
    faults = Faults(api)
    faults.answers = [lambda: refuse(503, "ServiceUnavailable")]
    silences: list[float] = []
    sleep = clock.sleep

    async def noting(seconds: float) -> None:
        silences.append(cache.stale_for())
        await sleep(seconds)

    clock.sleep = noting  # type: ignore[method-assign]
    (connector,) = {cache._client._session.connector}  # type: ignore[attr-defined]
    for protocol in list(connector._acquired):
        protocol.connection_lost(OSError(errno.ETIMEDOUT, "timed out"))
    watches = cache.stats.watches.values()
    await until(lambda: len(silences) >= 2 and all(watch.up for watch in watches))
    clock.now += BRIEF
    assert cache.stale_for() == 0.0, "open for so long and quiet, it has missed nothing"
    assert silences[0] >= 40.0
    assert pods(cache).relists == 0


async def test_connections_whose_other_end_is_gone_are_given_up_in_seconds(api: FakeApi) -> None:
    async with await KubeClient.connect(server=api.url) as client:
        watch = f"{client.server}/api/v1/pods?watch=true&resourceVersion=0"
        async with client._session.get(watch) as answer:
            assert answer.connection is not None
            assert answer.connection.transport is not None
            raw = answer.connection.transport.get_extra_info("socket")
            assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            idle = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
            assert idle == sockets.IDLE_SECONDS
            unanswered = raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
            assert unanswered == sockets.UNANSWERED_SECONDS * 1000
    assert sockets.IDLE_SECONDS + sockets.UNANSWERED_SECONDS < 10
