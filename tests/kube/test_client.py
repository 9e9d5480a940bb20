"""The client against a real HTTP server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from extender.kube.api_errors import (
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from extender.kube.client import FIELD_MANAGER, KubeClient
from extender.kube.credentials import Access, TokenFile
from extender.model.errors import InvalidInput

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Answers everything with ``handler`` and remembers what was asked."""

    def __init__(self) -> None:
        self.handler: Handler | None = None
        self.seen: list[tuple[str, str, dict[str, str], dict[str, str], bytes]] = []
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(
            (request.method, request.path, dict(request.query), dict(request.headers), body)
        )
        assert self.handler is not None
        return await self.handler(request)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    double = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    double.url = f"http://127.0.0.1:{port}"
    yield double
    await runner.cleanup()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[KubeClient]:
    async with await KubeClient.connect(server=server.url) as made:
        yield made


def answer(document: Any, status: int = 200, **headers: str) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.json_response(document, status=status, headers=headers)

    return handler


def status(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": "because",
        "details": details,
    }


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, ApiError),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Invalid),
        (429, TooManyRequests),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
async def test_each_status_has_its_error(
    server: Server, client: KubeClient, code: int, kind: type[ApiError]
) -> None:
    server.handler = answer(status(code, "SomeReason", name="x"), code)
    with pytest.raises(ApiError) as caught:
        await client.get("/api/v1/pods")
    assert type(caught.value) is kind
    assert caught.value.status == code
    assert caught.value.reason == "SomeReason"
    assert caught.value.details["name"] == "x"
    assert "GET /api/v1/pods" in str(caught.value)
    assert "because" in str(caught.value)


async def test_retry_after_comes_from_the_header_or_the_details(
    server: Server, client: KubeClient
) -> None:
    server.handler = answer(status(429, "TooManyRequests"), 429, **{"Retry-After": "7"})
    with pytest.raises(TooManyRequests) as caught:
        await client.get("/x")
    assert caught.value.retry_after == 7.0
    server.handler = answer(status(429, "TooManyRequests", retryAfterSeconds=3), 429)
    with pytest.raises(TooManyRequests) as caught:
        await client.get("/x")
    assert caught.value.retry_after == 3.0
    server.handler = answer(status(429, "TooManyRequests"), 429, **{"Retry-After": "soon"})
    with pytest.raises(TooManyRequests) as caught:
        await client.get("/x")
    assert caught.value.retry_after is None


async def test_an_answer_that_is_no_status_is_kept_for_the_message(
    server: Server, client: KubeClient
) -> None:
    async def proxy(request: web.Request) -> web.StreamResponse:
        return web.Response(status=502, text="<html>bad gateway</html>")

    server.handler = proxy
    with pytest.raises(Unavailable, match="bad gateway"):
        await client.get("/x")


async def test_a_success_that_is_not_json_is_an_error(server: Server, client: KubeClient) -> None:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>login</html>")

    server.handler = page
    with pytest.raises(Unavailable, match="not JSON"):
        await client.get("/x")
    server.handler = answer([1])
    with pytest.raises(Unavailable, match="not a JSON object"):
        await client.get("/x")


async def test_connection_refused_and_timeouts_are_unavailable(
    server: Server, client: KubeClient, unused_port: int
) -> None:
    async with await KubeClient.connect(server=f"http://127.0.0.1:{unused_port}") as nobody:
        with pytest.raises(Unavailable) as caught:
            await nobody.get("/x")
        assert caught.value.status == 0
        assert caught.value.reason == "ConnectionFailed"

    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        raise AssertionError

    server.handler = slow
    with pytest.raises(Unavailable) as caught:
        await client.request("GET", "/x", timeout=0.05)
    assert caught.value.reason == "Timeout"


async def test_delete_carries_uid_grace_and_dry_run(server: Server, client: KubeClient) -> None:
    server.handler = answer({"kind": "Status", "status": "Success"})
    await client.delete("/api/v1/namespaces/a/pods/p", uid="u1", grace=0, dry_run=True)
    method, path, query, _, body = server.seen[-1]
    assert (method, path, query) == ("DELETE", "/api/v1/namespaces/a/pods/p", {"dryRun": "All"})
    assert json.loads(body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1"},
        "gracePeriodSeconds": 0,
        "dryRun": ["All"],
    }
    await client.delete("/api/v1/namespaces/a/pods/p")
    assert json.loads(server.seen[-1][4]) == {"apiVersion": "v1", "kind": "DeleteOptions"}
    assert server.seen[-1][2] == {}


async def test_evict_posts_a_policy_v1_eviction(server: Server, client: KubeClient) -> None:
    server.handler = answer({"kind": "Status", "status": "Success"})
    await client.evict("ns", "p", uid="u1", grace=5)
    method, path, _, _, body = server.seen[-1]
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/pods/p/eviction")
    assert json.loads(body) == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p", "namespace": "ns"},
        "deleteOptions": {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1"},
            "gracePeriodSeconds": 5,
        },
    }


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("json", "application/json-patch+json"),
    ],
)
async def test_patch_kinds(
    server: Server, client: KubeClient, kind: Any, content_type: str
) -> None:
    server.handler = answer({"kind": "Pod"})
    assert await client.patch("/p", {"a": None}, kind, params={"fieldManager": "x"}) == {
        "kind": "Pod"
    }
    method, _, query, headers, body = server.seen[-1]
    assert (method, query) == ("PATCH", {"fieldManager": "x"})
    assert headers["Content-Type"] == content_type
    assert json.loads(body) == {"a": None}


async def test_create_and_replace_send_json(server: Server, client: KubeClient) -> None:
    server.handler = answer({"kind": "ConfigMap"}, 201)
    await client.create("/c", {"data": {"k": "v"}})
    assert server.seen[-1][0] == "POST"
    await client.replace("/c/x", {"data": {"k": "v"}}, dry_run=True)
    method, path, query, headers, body = server.seen[-1]
    assert (method, path, query["dryRun"]) == ("PUT", "/c/x", "All")
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body) == {"data": {"k": "v"}}


async def test_every_write_names_its_field_manager(server: Server, client: KubeClient) -> None:
    """managedFields do not depend on what a proxy makes of the User-Agent."""
    server.handler = answer({})
    where = "/apis/scheduling.k8s.io/v1beta1/namespaces/a/podgroups/g/status"
    await client.patch(where, {"status": {"conditions": []}}, kind="strategic")
    await client.patch("/p", {}, dry_run=True)
    await client.create("/c", {})
    await client.replace("/c/x", {})
    await client.request("PUT", "/leases/x", body={})
    assert [query["fieldManager"] for _, _, query, _, _ in server.seen] == [FIELD_MANAGER] * 5
    assert FIELD_MANAGER == "podgroup-extender"
    server.seen.clear()
    await client.get("/p")
    await client.delete("/p")
    assert [query for _, _, query, _, _ in server.seen] == [{}, {}]


async def test_selectors_arrive_as_they_were_given(server: Server, client: KubeClient) -> None:
    server.handler = answer({})
    selector = "status.phase!=Succeeded,status.phase!=Failed"
    await client.get("/api/v1/pods", params={"fieldSelector": selector, "watch": True, "limit": 5})
    assert server.seen[-1][2] == {"fieldSelector": selector, "watch": "true", "limit": "5"}


def streaming(*chunks: bytes, hang: bool = False, cut: bool = False) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.001)
        if hang:
            await asyncio.sleep(30)
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    return handler


async def collect(client: KubeClient, into: list[bytes], **options: Any) -> None:
    async for line in client.stream("/w", **options):
        into.append(line)  # noqa: PERF401 - what came before a failure is looked at


async def test_stream_puts_lines_together(server: Server, client: KubeClient) -> None:
    long = b"x" * 3_000_000
    server.handler = streaming(b'{"a"', b':1}\n{"b":2}\n{"c":', b"3}\n", long, long, b"\n")
    got = [line async for line in client.stream("/w")]
    assert got == [b'{"a":1}', b'{"b":2}', b'{"c":3}', long + long]


async def test_stream_that_ends_within_a_line_says_so(server: Server, client: KubeClient) -> None:
    server.handler = streaming(b'{"a":1}\n{"b"')
    got: list[bytes] = []
    with pytest.raises(Unavailable, match="middle of a line"):
        await collect(client, got)
    assert got == [b'{"a":1}']


async def test_stream_that_breaks_or_stalls_is_unavailable(
    server: Server, client: KubeClient
) -> None:
    server.handler = streaming(b'{"a":1}\n', cut=True)
    with pytest.raises(Unavailable) as caught:
        await collect(client, [])
    assert caught.value.reason == "ConnectionBroken"
    server.handler = streaming(b'{"a":1}\n', hang=True)
    got: list[bytes] = []
    with pytest.raises(Unavailable) as caught:
        await collect(client, got, idle_seconds=0.1)
    assert caught.value.reason == "Timeout"
    assert got == [b'{"a":1}']


async def test_a_rotated_token_is_used_by_the_next_request(server: Server, tmp_path: Path) -> None:
    server.handler = answer({})
    token = tmp_path / "token"
    token.write_text("one\n")
    client = KubeClient(Access(server=server.url, authorization=TokenFile(str(token))))
    async with client:
        await client.get("/x")
        token.write_text("two\n")
        await client.get("/x")
        assert [seen[3]["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]
        token.write_text("")
        with pytest.raises(Unavailable, match="is empty"):
            await client.get("/x")
        token.unlink()
        with pytest.raises(Unavailable, match="token file"):
            await client.get("/x")
    assert len(server.seen) == 2


async def test_a_base_path_is_kept(server: Server) -> None:
    server.handler = answer({})
    async with await KubeClient.connect(server=server.url + "/k8s/clusters/c-1/") as client:
        await client.get("/api/v1/nodes")
    assert server.seen[-1][1] == "/k8s/clusters/c-1/api/v1/nodes"


async def test_a_server_without_scheme_is_refused() -> None:
    with pytest.raises(InvalidInput, match="http://"):
        await KubeClient.connect(server="localhost:8001")
