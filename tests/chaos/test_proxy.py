"""What each harm does to a request, against a small API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from extender.kube.credentials import Access
from tests.chaos.proxy import Call, FaultProxy, Harm, Rule, call_of
from tests.event_time import passes

POD = "/api/v1/namespaces/chaos/pods/a"


class Api:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.proxy: FaultProxy

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path}")
        if request.query.get("watch"):
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"{}\n")
            await asyncio.sleep(30)
        return web.json_response({})


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    made = Api()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.proxy = FaultProxy(Access(server=f"http://127.0.0.1:{runner.addresses[0][1]}"), "1")
    await made.proxy.start()
    yield made
    await made.proxy.close()
    await runner.cleanup()


async def evict(api: Api) -> int:
    """Evict the pod through the proxy; 0 without an answer.

    A POST, because aiohttp sends a DELETE a second time by itself when it has lost the answer.
    """
    try:
        async with (
            aiohttp.ClientSession() as http,
            http.post(
                f"{api.proxy.url}{POD}/eviction", timeout=aiohttp.ClientTimeout(total=60)
            ) as answer,
        ):
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


@pytest.mark.parametrize(
    ("harm", "status", "reached"),
    [
        ("refuse", 403, 0),
        ("lose", 0, 1),
        ("unclear", 403, 1),
        ("repeat", 200, 2),
        ("delay", 200, 1),
    ],
)
async def test_a_harm_and_its_end(api: Api, harm: Harm, status: int, reached: int) -> None:
    rule = Rule(harm, lambda call: call.kind == "eviction", status=403, seconds=0.05)
    api.proxy.impose(rule)
    assert await evict(api) == status
    assert (len(api.seen), rule.hits) == (reached, 1)
    api.proxy.lift(rule)
    assert await evict(api) == 200
    assert rule.hits == 1


@pytest.mark.parametrize(("late", "status", "reached"), [(False, 0, 0), (True, 200, 1)])
async def test_held_until_the_fault_is_over(
    api: Api, *, late: bool, status: int, reached: int
) -> None:
    rule = Rule("hold", lambda call: call.writes, late=late)
    api.proxy.impose(rule)
    asked = asyncio.create_task(evict(api))
    await passes(20)
    assert api.seen == []
    api.proxy.lift(rule)
    assert (await asked, len(api.seen)) == (status, reached)


async def test_requests_that_no_rule_is_meant_for_pass(api: Api) -> None:
    api.proxy.impose(Rule("refuse", lambda call: call.kind == "record"))
    assert await evict(api) == 200


async def test_watches_are_cut(api: Api) -> None:
    async with aiohttp.ClientSession() as http, http.get(f"{api.proxy.url}/x?watch=1") as answer:
        assert await answer.content.readline() == b"{}\n"
        assert api.proxy.cut_watches() == 1
        with pytest.raises(aiohttp.ClientError):
            await asyncio.wait_for(answer.content.readline(), 2)


async def test_a_done_write_is_told_before_its_answer(api: Api) -> None:
    told: list[Call] = []
    api.proxy.passed.append(told.append)
    assert await evict(api) == 200
    assert told == [Call("eviction", "a")]


@pytest.mark.parametrize(
    ("method", "path", "query", "kind"),
    [
        ("GET", "/api/v1/pods", {"watch": "true"}, "watch"),
        ("GET", "/api/v1/pods", {}, "read"),
        ("DELETE", POD, {}, "eviction"),
        ("DELETE", POD, {"dryRun": "All"}, "rehearsal"),
        ("POST", f"{POD}/eviction", {}, "eviction"),
        ("PATCH", f"{POD}/status", {}, "status"),
        ("PATCH", POD, {}, "touch"),
        ("POST", "/api/v1/namespaces/chaos/configmaps", {}, "record"),
        ("PUT", "/api/v1/namespaces/chaos/configmaps/podgroup-extender-status", {}, "other"),
        ("POST", "/api/v1/namespaces/chaos/events", {}, "event"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/chaos/leases/x", {}, "other"),
    ],
)
def test_what_a_request_is_about(method: str, path: str, query: dict[str, str], kind: str) -> None:
    assert call_of(method, path, query).kind == kind
