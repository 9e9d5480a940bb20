"""Finding out what is served, on a bad day."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from extender.cache import cache as module
from extender.cache.discovery import served
from extender.model.owner_kinds import PARTLY_DONE
from tests.cache.conftest import until
from tests.cache.fakeapi import FakeApi
from tests.cache.watched import Make

GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1"


async def test_a_version_that_is_not_told_holds_nothing_up(api: FakeApi, make: Make) -> None:
    hung = asyncio.Event()

    async def hanging(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/version":
            await hung.wait()
        return None

    api.script = hanging
    cache = make()
    await cache.start()
    try:
        await cache.wait_synced(20)
    finally:
        hung.set()


async def test_a_mistake_of_ours_does_not_end_discovery(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [ValueError("ours")]

    async def failing(client: Any, source: str) -> str | None:
        if failures:
            raise failures.pop()
        return await served(client, source)

    monkeypatch.setattr(module, "served", failing)
    cache = make(discovery_seconds=0.05)
    await cache.start()
    await cache.wait_synced(60)
    api.groups[GROUPS] = True
    await until(lambda: "podgroups-scheduling-plugins" in cache.stats.watches)


OTHER = "/apis/scheduling.volcano.sh/v1beta1"


def _group(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns", "uid": name}, "spec": {"minMember": 3}}


async def test_groups_of_other_schedulers_are_read_where_they_may_be(
    api: FakeApi, make: Make
) -> None:
    """No right to list them holds nothing up, and what cannot be read is not said not to exist."""
    allowed = False
    refused = web.json_response
    body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"}

    async def guarded(request: web.Request) -> web.StreamResponse | None:
        if request.path == f"{OTHER}/podgroups" and not allowed:
            return refused(body, status=403)
        return None

    api.script = guarded
    api.groups[OTHER] = True
    api.put(f"{OTHER}/podgroups", _group("g"))
    cache = make(discovery_seconds=0.05)
    await cache.start()
    await cache.wait_synced(60)
    assert cache.snapshot().group_sources == frozenset()
    assert not cache.problem()
    before = cache.snapshot()

    allowed = True
    await until(lambda: cache.snapshot().group_sources == {"volcano"})
    snapshot = cache.snapshot()
    assert snapshot.groups["volcano", "ns", "g"].min_count == 3
    assert snapshot.groups is not before.groups

    allowed = False
    api.end_watches(f"{OTHER}/podgroups")
    await until(lambda: cache.snapshot().group_sources == frozenset())
    assert not cache.snapshot().groups
    assert not cache.problem()


async def test_an_empty_table_counts_as_read_only_once_it_was(api: FakeApi, make: Make) -> None:
    """A gang whose object was not read yet must not be told that it does not exist."""
    hung = asyncio.Event()

    async def slow(request: web.Request) -> web.StreamResponse | None:
        if request.path == f"{OTHER}/podgroups" and "limit" not in request.query:
            await hung.wait()
        return None

    api.script = slow
    cache = make(discovery_seconds=0.05)
    await cache.start()
    await cache.wait_synced(60)
    api.groups[OTHER] = True
    await until(lambda: "podgroups-volcano" in cache.stats.watches)
    assert cache.snapshot().group_sources == frozenset()
    generation = cache.generation
    hung.set()
    await until(lambda: cache.snapshot().group_sources == {"volcano"})
    assert cache.generation > generation


@pytest.mark.parametrize("broken", ["discovery", "list"])
async def test_what_others_may_break_holds_nothing_up_for_long(
    api: FakeApi, make: Make, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    """A CRD whose webhook fails: its objects stay unread, and everything else goes on."""
    monkeypatch.setattr(module, "OPTIONAL_TRIES", 2)
    error = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "webhook"}

    async def failing(request: web.Request) -> web.StreamResponse | None:
        probed = "limit" in request.query and request.query["limit"] == "1"
        if request.path == f"{OTHER}/podgroups" and probed is (broken == "discovery"):
            return web.json_response(error, status=500)
        return None

    api.script = failing
    api.groups[OTHER] = True
    api.put(f"{OTHER}/podgroups", _group("g"))
    cache = make(discovery_seconds=0.05)
    await cache.start()
    await cache.wait_synced(60)
    assert cache.snapshot().group_sources == frozenset()
    await until(lambda: cache.stats.discoveries > 3)
    assert cache.stale_for() == 0
    assert not cache.problem()


async def test_a_watch_of_what_is_needed_counts_as_before(api: FakeApi, make: Make) -> None:
    cache = make(discovery_seconds=0.05)
    await cache.start()
    await cache.wait_synced(60)

    async def failing(request: web.Request) -> web.StreamResponse | None:
        if request.path == "/api/v1/pods":
            return web.json_response({"kind": "Status", "code": 500}, status=500)
        return None

    api.script = failing
    api.end_watches("/api/v1/pods")
    await until(lambda: "pods: watch down" in cache.problem())


BATCH = "/apis/batch/v1"


async def test_jobs_that_must_not_be_listed_are_asked_for_ever_more_seldom(
    api: FakeApi, make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every server has them, and a refusal each half minute would fill its audit log."""
    refused: list[int] = []
    allowed = False

    async def guarded(request: web.Request) -> web.StreamResponse | None:
        if request.path == BATCH:
            verbs = ["get", "list", "watch"]
            return web.json_response({"resources": [{"name": "jobs", "verbs": verbs}]})
        if request.path == f"{BATCH}/jobs" and not allowed:
            refused.append(cache.stats.discoveries)
            return web.json_response({"kind": "Status", "code": 403}, status=403)
        return None

    api.script = guarded
    cache = make(discovery_seconds=0.01)
    await cache.start()
    await cache.wait_synced(60)
    assert not cache.problem()
    await until(lambda: cache.stats.discoveries > 130)
    assert refused == [0, 1, 3, 7, 15, 31, 63, 95, 127]
    assert capsys.readouterr().out.count("not allowed to read") == 1

    allowed = True
    job = {"parallelism": 2, "completions": 2}
    meta = {"name": "j", "namespace": "ns", "uid": "j"}
    api.put(f"{BATCH}/jobs", {"metadata": meta, "spec": job, "status": {"succeeded": 1}})
    await until(lambda: (PARTLY_DONE, "ns", "j") in cache.snapshot().groups)
    (asked,) = {
        query.get("fieldSelector")
        for path, query in api.requests
        if "watch" in query and path == f"{BATCH}/jobs"
    }
    assert asked == "status.successful!=0"
