"""Who may call what: verbs by name, the rest as the debug pages over HTTP.

See docs/security.md, row 9.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from msgspec.structs import replace

from extender.grpc_api.rights import rules_of
from extender.server.tokens import MOST_OF_ONE
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from tests.grpc_api.site import LOCAL, Callers, Site, calling, serving
from tests.grpc_api.test_calls import refused, until
from tests.grpc_api.test_limits import QUESTION
from tests.grpc_api.test_listening import tls, trusting
from tests.server.doubles import Echo
from tests.server.test_access import Api, tokens
from tests.server.test_tls import Files

Code = grpc.StatusCode
PAGES = {
    "/podgroup.v1.PlanService/Plan": "/debug/snapshot",
    "/podgroup.v1.PlanService/Explain": "/debug/gangs",
    "/podgroup.v1.WatchService/WatchDecisions": "/debug/decisions",
}


class Shared:
    """A port that others reach, with names, and a cluster that knows tokens."""

    def __init__(self, site: Site, files: Files, api: Api) -> None:
        self.site, self.files, self.api = site, files, api

    @asynccontextmanager
    async def caller(self, name: str) -> AsyncIterator[Callers]:
        good = trusting(self.files.authority, self.files.authority, name)
        async with calling(self.site.target, good) as callers:
            yield callers


@asynccontextmanager
async def shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, debug: bool | None
) -> AsyncIterator[Shared]:
    """The test listens on loopback; what it serves is ruled as elsewhere."""
    files = Files(tmp_path, ask_clients=True)
    settings = tls(files, allowed_names=("kube-scheduler.local",))
    settings = replace(settings, server=ServerSettings(debug=debug))
    elsewhere = replace(settings, grpc=replace(settings.grpc, listen="0.0.0.0:8889"))
    rules = rules_of(elsewhere)
    monkeypatch.setattr("extender.grpc_api.server.rules_of", lambda _: rules)
    api = Api()
    api.rights = {"admin": {*PAGES.values(), "/debug/"}, "scraper": {"/metrics"}}
    async with serving(Echo(), settings, tokens=tokens(api)) as site:
        yield Shared(site, files, api)


async def asked(callers: Callers, method: str, token: str = "") -> tuple[grpc.StatusCode, str]:
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    if "Watch" in method:
        return await refused(callers.raw_stream(method)(b"\xff", metadata=metadata).read())
    return await refused(callers.raw(method)(b"\xff", metadata=metadata))


@pytest.mark.parametrize("method", PAGES)
async def test_pages_need_a_token_that_may_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with shared(tmp_path, monkeypatch, debug=True) as one:
        async with one.caller("kube-scheduler.local") as callers:
            code, text = await asked(callers, method)
            assert code is Code.UNAUTHENTICATED
            assert "bearer token" in text
            assert (await asked(callers, method, "nobody"))[0] is Code.UNAUTHENTICATED
            code, text = await asked(callers, method, "scraper")
            assert code is Code.PERMISSION_DENIED
            assert PAGES[method] in text
        async with one.caller("somebody.local") as callers:
            code, _ = await asked(callers, method, "admin")
            assert code is Code.INVALID_ARGUMENT, "let in, and the message is none"
        assert 'refused_total{reason="token"}' in one.site.scrape()


@pytest.mark.parametrize("method", PAGES)
async def test_pages_are_off_elsewhere_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    async with shared(tmp_path, monkeypatch, debug=None) as one:
        async with one.caller("kube-scheduler.local") as callers:
            code, text = await asked(callers, method, "admin")
            assert code is Code.UNIMPLEMENTED
            assert "server.debug" in text
        assert not one.api.asked


async def test_verbs_and_the_mirror_need_a_name_and_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seats = "/podgroup.v1.WatchService/WatchSeats"
    async with shared(tmp_path, monkeypatch, debug=True) as one:
        async with one.caller("kube-scheduler.local") as callers:
            assert (await callers.extender.Filter(QUESTION)).unchanged
            assert (await asked(callers, seats))[0] is Code.INVALID_ARGUMENT
        async with one.caller("somebody.local") as callers:
            for method in (seats, "/podgroup.v1.ExtenderService/Filter"):
                code, text = await asked(callers, method, "admin")
                assert code is Code.PERMISSION_DENIED
                assert "somebody.local" in text
        assert not one.api.asked


async def test_reflection_needs_what_the_debug_index_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = "kube-scheduler.local"
    async with shared(tmp_path, monkeypatch, debug=True) as one, one.caller(caller) as callers:
        assert await _not_reflected(callers) is Code.UNAUTHENTICATED
        assert await _not_reflected(callers, "scraper") is Code.PERMISSION_DENIED
        assert await _reflect(callers, "admin")
    async with shared(tmp_path, monkeypatch, debug=None) as one, one.caller(caller) as callers:
        assert await _not_reflected(callers, "admin") is Code.UNIMPLEMENTED


async def _not_reflected(callers: Callers, token: str = "") -> grpc.StatusCode:
    """Ask until grpc's client has the answer: "internal" is its own word where that was there
    before its question had left."""
    for _ in range(50):
        code, text = await refused(_reflect(callers, token))
        if text != "internal":
            break
    return code


async def _reflect(callers: Callers, token: str = "") -> list[Any]:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", callers.channel))
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    metadata = (("authorization", f"Bearer {token}"),) if token else ()
    return [each async for each in stub.ServerReflectionInfo(iter([question]), metadata=metadata)]


async def test_health_is_for_everybody_with_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        shared(tmp_path, monkeypatch, debug=None) as one,
        one.caller("somebody.local") as callers,
    ):
        stub: Any = health_pb2_grpc.HealthStub(callers.channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.mark.parametrize("method", PAGES)
async def test_turned_off_they_are_off_on_loopback_too(method: str) -> None:
    settings = Settings(grpc=LOCAL, server=ServerSettings(debug=False))
    async with serving(Echo(), settings) as site, calling(site.target) as callers:
        assert (await asked(callers, method))[0] is Code.UNIMPLEMENTED
        assert (await callers.extender.Filter(QUESTION)).unchanged


@pytest.mark.parametrize(
    ("listen", "debug", "shown"),
    [
        ("127.0.0.1:1", None, "open"),
        ("localhost:1", True, "open"),
        ("unix:/s", None, "open"),
        ("unix:/s", False, "off"),
        ("0.0.0.0:1", None, "off"),
        ("0.0.0.0:1", False, "off"),
        ("10.1.2.3:1", True, "token"),
    ],
)
def test_rules(listen: str, *, debug: bool | None, shown: str) -> None:
    settings = Settings(grpc=GrpcSettings(listen=listen), server=ServerSettings(debug=debug))
    assert rules_of(settings).debug == shown


async def test_tokens_that_wait_for_their_review_take_no_place_of_a_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection counts as an address, and the API server takes its time."""
    addresses: dict[str, str] = {}
    came: list[str] = []

    def host_of(peer: str) -> str:
        came.append(peer)
        return addresses.setdefault(peer, f"10.0.0.{len(addresses)}")

    monkeypatch.setattr("extender.grpc_api.rights.host_of", host_of)
    async with shared(tmp_path, monkeypatch, debug=True) as one, AsyncExitStack() as stack:
        one.api.gate = asyncio.Event()
        verbs = await stack.enter_async_context(one.caller("kube-scheduler.local"))
        assert (await verbs.extender.Filter(QUESTION)).unchanged
        strangers = [
            await stack.enter_async_context(one.caller("somebody.local")) for _ in range(8)
        ]
        calls = [
            asyncio.ensure_future(asked(each, "/podgroup.v1.PlanService/Plan", f"{n} {k}"))
            for n, each in enumerate(strangers)
            for k in range(MOST_OF_ONE)
        ]
        await until(lambda: len(came) + sum(call.done() for call in calls) >= len(calls))
        for _ in range(5):
            assert (await verbs.extender.Filter(QUESTION)).unchanged
        one.api.gate.set()
        await asyncio.gather(*calls)
