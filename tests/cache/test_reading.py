"""The whole state: in pages where it must be, and again when its version is forgotten."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web

from tests.cache.conftest import until
from tests.cache.fakeapi import FakeApi, pod, refuse, status
from tests.cache.watched import PODS, Faults, Make, names, pods, started


@pytest.mark.parametrize("watch_list", [True, False])
async def test_410_on_the_watch_reads_everything_again(
    api: FakeApi, make: Make, *, watch_list: bool
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
    async with asyncio.timeout(60):
        while pods(cache).relists == 0:
            sizes.add(len(cache.snapshot().bound.get("n1", ())))
            await asyncio.sleep(0)
    assert sizes <= {50}
    assert names(cache) == {f"new{index}" for index in range(50)}


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


async def test_a_whole_that_does_not_come_is_asked_for_in_pages_again(
    api: FakeApi, make: Make
) -> None:
    """150,000 pods in one piece may take longer than any answer is waited for."""
    for index in range(5):
        api.put(PODS, pod(f"p{index}"))
    expired = 2

    async def overwhelmed(request: web.Request) -> web.StreamResponse | None:
        nonlocal expired
        if request.path != PODS or "watch" in request.query:
            return None
        if "limit" not in request.query:
            return refuse(504, "Timeout")
        if "continue" in request.query and expired:
            expired -= 1
            return refuse(410, "Expired")
        return None

    api.script = overwhelmed
    cache = await started(make, watch_list=False, page_size=2)
    assert len(names(cache)) == 5
    assert pods(cache).lists == 4
