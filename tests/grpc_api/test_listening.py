"""Where it listens, whom it lets in and what each may call, and what tools ask.

See docs/security.md, rows 1 and 9.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from msgspec.structs import replace

from extender.check import config
from extender.grpc_api.rights import rules_of
from extender.grpc_api.server import SERVICES
from extender.model.errors import InvalidInput
from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, types_pb2, watch_pb2
from extender.sandbox.process import ExtenderProcess, write_kubeconfig
from extender.server.tokens import MOST_OF_ONE
from extender.settings.grpc_address import parse
from extender.settings.settings import GrpcSettings, LeadershipSettings, ServerSettings, Settings
from extender.settings.settings_rules import validate
from tests.gang.rig import FAST, Rig
from tests.grpc_api.asking import MANIFEST
from tests.grpc_api.site import LOCAL, Callers, Site, calling, serving
from tests.grpc_api.test_calls import POD, refused, until
from tests.grpc_api.test_decisions import read
from tests.grpc_api.test_limits import QUESTION
from tests.grpc_api.test_seats import ended, next_of
from tests.server.doubles import Echo
from tests.server.test_access import Api, tokens
from tests.server.test_tls import BAD_DATES, NOW, Files, for_servers_only

Code = grpc.StatusCode
Status = health_pb2.HealthCheckResponse


async def answered(callers: Callers, **more: Any) -> bool:
    asked = extender_pb2.FilterRequest(pod=POD, node_names=["n0"])
    return (await callers.extender.Filter(asked, **more)).unchanged


def tls(files: Files, **more: Any) -> Settings:
    return Settings(
        grpc=GrpcSettings(
            listen="127.0.0.1:0",
            tls_cert_file=str(files.cert),
            tls_key_file=str(files.key),
            client_ca_file=str(files.clients) if files.ask_clients else "",
            **more,
        )
    )


def trusting(
    authority: trustme.CA, client: trustme.CA | None = None, name: str = "kube-scheduler.local"
) -> grpc.ChannelCredentials:
    roots = authority.cert_pem.bytes()
    if client is None:
        return grpc.ssl_channel_credentials(roots)
    pair = client.issue_cert(name)
    chain = b"".join(blob.bytes() for blob in pair.cert_chain_pems)
    return grpc.ssl_channel_credentials(roots, pair.private_key_pem.bytes(), chain)


async def test_a_unix_socket_is_for_owner_and_group_and_goes_with_the_server(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    settings = Settings(grpc=GrpcSettings(listen=f"unix:{path}"))
    before = os.umask(0)
    os.umask(before)
    async with serving(Echo(), settings) as site, calling(site.target) as callers:
        mode = path.stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) & 0o007 == 0
        assert await answered(callers)
    assert os.umask(before) == before, "the process's own mask is as it was"
    assert not path.exists()


async def test_a_socket_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    settings = Settings(grpc=GrpcSettings(listen=f"unix:{path}"))
    async with serving(Echo(), settings) as site, calling(site.target) as callers:
        assert await answered(callers)


async def test_an_address_in_use_is_an_error_at_start() -> None:
    async with serving(Echo()) as site:
        settings = Settings(grpc=GrpcSettings(listen=site.target))
        with pytest.raises(InvalidInput, match=r"cannot listen on 127\.0\.0\.1"):
            async with serving(Echo(), settings):
                pass


async def test_callers_need_a_certificate_of_the_authority(tmp_path: Path) -> None:
    files = Files(tmp_path, ask_clients=True)
    async with serving(Echo(), tls(files)) as site:
        good = trusting(files.authority, files.authority)
        async with calling(site.target, good) as callers:
            assert await answered(callers)
        for bad in (
            trusting(files.authority),
            trusting(files.authority, trustme.CA()),
            trusting(trustme.CA(), files.authority),
        ):
            async with calling(site.target, bad) as callers:
                code, _ = await refused(answered(callers))
                assert code is Code.UNAVAILABLE
        async with calling(site.target) as callers:
            assert (await refused(answered(callers)))[0] is Code.UNAVAILABLE


async def test_callers_need_a_name_that_may_call(tmp_path: Path) -> None:
    files = Files(tmp_path, ask_clients=True)
    settings = tls(files, allowed_names=("plugin.local", "kube-scheduler.local"))
    verbs = Echo()
    async with serving(verbs, settings) as site:
        async with calling(site.target, trusting(files.authority, files.authority)) as callers:
            assert await answered(callers)
        other = trusting(files.authority, files.authority, "somebody.local")
        async with calling(site.target, other) as callers:
            code, text = await refused(answered(callers))
            assert code is Code.PERMISSION_DENIED
            assert "somebody.local" in text
            watch = callers.raw_stream("/podgroup.v1.WatchService/WatchSeats")(b"")
            assert (await refused(watch.read()))[0] is Code.PERMISSION_DENIED
    assert len(verbs.asked) == 1


async def test_new_files_are_taken_and_broken_ones_are_not(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with serving(Echo(), tls(files)) as site:
        async with calling(site.target, trusting(files.authority)) as callers:
            assert await answered(callers)
        fresh = trustme.CA()
        files.issue(fresh)
        async with calling(site.target, trusting(fresh)) as callers:
            assert await answered(callers)
        files.key.write_bytes(b"half a k")
        async with calling(site.target, trusting(fresh)) as callers:
            assert await answered(callers), "the pair in use is kept"


async def test_unusable_files_are_an_error_at_start(tmp_path: Path) -> None:
    files = Files(tmp_path)
    files.cert.write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match=files.cert.name):
        async with serving(Echo(), tls(files)):
            pass


@pytest.mark.parametrize(
    ("text", "target", "local"),
    [
        ("127.0.0.1:8889", "127.0.0.1:8889", True),
        ("localhost:1", "localhost:1", True),
        ("[::1]:8889", "[::1]:8889", True),
        ("0.0.0.0:8889", "0.0.0.0:8889", False),
        ("[::]:8889", "[::]:8889", False),
        ("10.1.2.3:0", "10.1.2.3:0", False),
        ("unix:/run/x/s", "unix:/run/x/s", True),
        ("unix:///run/x/s", "unix:/run/x/s", True),
    ],
)
def test_addresses(text: str, target: str, *, local: bool) -> None:
    assert (parse(text).target, parse(text).local) == (target, local)


@pytest.mark.parametrize(
    "text", ["8889", ":8889", "host:8889", "1.2.3.4:x", "1.2.3.4:65536", "::1:", "unix:s", "unix:"]
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"grpc\.listen"):
        parse(text)


FILES = {"tls_cert_file": "c", "tls_key_file": "k"}


@pytest.mark.parametrize(
    ("grpc_settings", "server", "problem"),
    [
        ({"listen": "127.0.0.1:1"}, {}, ""),
        ({"listen": "unix:/s"}, {}, ""),
        ({"listen": "0.0.0.0:1"}, {}, "can be reached from elsewhere"),
        ({"listen": "0.0.0.0:1"} | FILES, {}, "can be reached from elsewhere"),
        ({"listen": "0.0.0.0:1", "client_ca_file": "a"} | FILES, {}, "can be reached"),
        (
            {"listen": "0.0.0.0:1", "client_ca_file": "a", "allowed_names": ("n",)} | FILES,
            {},
            "",
        ),
        (
            {"listen": "0.0.0.0:1", "allowed_names": ("n",)},
            {"client_ca_file": "a"} | FILES,
            "",
        ),
        (
            {"listen": "0.0.0.0:1"},
            {"client_ca_file": "a", "allowed_names": ("n",)} | FILES,
            "",
        ),
        (
            {"listen": "0.0.0.0:1", "client_ca_file": "a"} | FILES,
            {"client_ca_file": "a", "allowed_names": ("n",)} | FILES,
            "can be reached",
        ),
        (
            {"listen": "unix:/s"},
            {"client_ca_file": "a", "allowed_names": ("n",)} | FILES,
            "",
        ),
        ({"listen": "0.0.0.0:1", "allowed_names": ("n",)}, FILES, "allowedNames needs"),
        ({"listen": "unix:/s", "allowed_names": ("n",)}, {}, "allowedNames needs"),
        ({"listen": "127.0.0.1:1", "tls_cert_file": "c"}, {}, "go together"),
        ({"listen": "127.0.0.1:1", "client_ca_file": "a"}, {}, "needs grpc.tlsCertFile"),
        ({"listen": "x"}, {}, "is none of"),
        ({"max_calls": 0}, {}, "maxCalls"),
        ({"max_streams": 0}, {}, "maxStreams"),
    ],
)
def test_an_open_port_is_refused(
    grpc_settings: dict[str, Any], server: dict[str, Any], problem: str
) -> None:
    settings = Settings(grpc=GrpcSettings(**grpc_settings), server=ServerSettings(**server))
    if not problem:
        validate(settings)
        return
    with pytest.raises(InvalidInput, match=problem):
        validate(settings)


def test_the_configuration_file_is_read() -> None:
    text = "grpc: {listen: 'unix:/run/podgroup/s', maxCalls: 7, maxStreams: 3}"
    assert config.parse(text).grpc == GrpcSettings(
        listen="unix:/run/podgroup/s", max_calls=7, max_streams=3
    )
    with pytest.raises(InvalidInput, match="can be reached from elsewhere"):
        config.parse("grpc: {listen: '0.0.0.0:1'}")


async def test_health_follows_readiness() -> None:
    async with serving(Echo()) as site, calling(site.target) as callers:
        stub: Any = health_pb2_grpc.HealthStub(callers.channel)

        async def state(service: str = "") -> int:
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=service))
            status: int = answer.status
            return status

        assert await state() == Status.SERVING
        assert await state("podgroup.v1.ExtenderService") == Status.SERVING
        code, _ = await refused(stub.Check(health_pb2.HealthCheckRequest(service="none")))
        assert code is Code.NOT_FOUND
        watch = stub.Watch(health_pb2.HealthCheckRequest())
        odd = stub.Watch(health_pb2.HealthCheckRequest(service="none"))
        assert (await watch.read()).status == Status.SERVING
        assert (await odd.read()).status == Status.SERVICE_UNKNOWN
        site.reasons.append("another replica leads")
        assert await state() == Status.NOT_SERVING
        assert (await watch.read()).status == Status.NOT_SERVING
        site.reasons.clear()
        assert (await watch.read()).status == Status.SERVING
        site.stop.set()
        told: list[int] = []

        async def read_on() -> None:
            while True:
                told.append((await watch.read()).status)

        assert await refused(read_on()) == (Code.UNAVAILABLE, "stopping")
        # A caller that is held up may see the end alone.
        assert told in ([Status.NOT_SERVING], [])


async def test_reflection_names_the_services_and_has_their_files() -> None:
    async with serving(Echo()) as site, calling(site.target) as callers:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(cast("Any", callers.channel))
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(
                file_containing_symbol="podgroup.v1.PlanService"
            ),
        ]
        answers = [each async for each in stub.ServerReflectionInfo(iter(asked))]
        named = {each.name for each in answers[0].list_services_response.service}
        assert named >= SERVICES | {"grpc.health.v1.Health"}
        files = answers[1].file_descriptor_response.file_descriptor_proto
        assert any(b"podgroup/v1/plan.proto" in each for each in files)


async def test_a_name_given_to_a_call_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """Calls one after the other on one connection do not share their names in the log."""
    seen: list[str] = []

    async def note() -> None:
        import structlog

        seen.append(structlog.contextvars.get_contextvars()["request_id"])

    verbs = Echo()
    verbs.hook = note
    async with serving(verbs) as site, calling(site.target) as callers:
        await answered(callers, metadata=(("x-request-id", "mine"),))
        await answered(callers, metadata=(("x-request-id", "not a name"),))
        await asyncio.gather(answered(callers), answered(callers))
    assert seen[0] == "mine"
    assert len(set(seen)) == 4


NAME = "system:kube-scheduler"
EXPIRY = 'certificate_expiry_timestamp_seconds{use="grpc"} '


def shown(files: Files, certificate: bytes, key: bytes) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(files.authority.cert_pem.bytes(), key, certificate)


async def test_callers_certificates_that_do_not_count(tmp_path: Path) -> None:
    files = Files(tmp_path, ask_clients=True)
    bad = [for_servers_only(files.authority)]
    dates: Any
    for dates in BAD_DATES:
        pair = files.authority.issue_cert("x.local", common_name=NAME, **dates)
        bad.append((pair.cert_chain_pems[0].bytes(), pair.private_key_pem.bytes()))
    good = files.authority.issue_cert("x.local", common_name=NAME)
    pair_of_good = good.cert_chain_pems[0].bytes(), good.private_key_pem.bytes()
    async with serving(Echo(), tls(files, allowed_names=(NAME,))) as site:
        async with calling(site.target, shown(files, *pair_of_good)) as callers:
            assert await answered(callers)
        for certificate, key in bad:
            async with calling(site.target, shown(files, certificate, key)) as callers:
                code, _ = await refused(answered(callers))
                assert code is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("dates", BAD_DATES)
async def test_our_own_certificate_that_is_not_valid_now(
    tmp_path: Path, dates: dict[str, object]
) -> None:
    """It is not started with, and replaces no good one."""
    files = Files(tmp_path)
    files.issue(files.authority, **dates)
    with pytest.raises(InvalidInput, match=r"tls\.crt: certificate"):
        async with serving(Echo(), tls(files)):
            pass
    files.issue(files.authority)
    async with serving(Echo(), tls(files)) as site:
        files.issue(files.authority, **dates)
        async with calling(site.target, trusting(files.authority)) as callers:
            assert await answered(callers)
        assert 'certificate_reloads_total{result="refused"} 1.0' in site.scrape()


async def test_the_expiry_is_a_metric(tmp_path: Path) -> None:
    files = Files(tmp_path)
    end = (NOW + timedelta(days=3)).replace(microsecond=0)
    files.issue(files.authority, not_after=end)
    async with serving(Echo(), tls(files)) as site:
        assert float(site.scrape().split(EXPIRY)[1].split("\n")[0]) == end.timestamp()
        files.issue(files.authority, not_after=end + timedelta(days=1))

        async def asked() -> bool:
            async with calling(site.target, trusting(files.authority)) as callers:
                return await answered(callers)

        async with asyncio.timeout(60):
            assert await asked()
        later = (end + timedelta(days=1)).timestamp()
        await until(lambda: float(site.scrape().split(EXPIRY)[1].split("\n")[0]) == later)


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


State = plan_pb2.ExplainResponse


async def test_a_gang_is_planned_explained_and_watched_over_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "s"
    async with Rig() as rig:
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        # The rig's own extender gives way to the process.
        await rig.kill()
        write_kubeconfig(tmp_path / "kubeconfig", rig.server.url)
        settings: Settings = replace(
            FAST,
            grpc=GrpcSettings(listen=f"unix:{path}"),
            leadership=LeadershipSettings(enabled=True, retry_seconds=0.1),
        )
        extender = ExtenderProcess(tmp_path, tmp_path / "kubeconfig", settings)
        await extender.start()
        try:
            async with calling(f"unix:{path}") as callers:
                await served_asked(rig, callers)
                watch = callers.watch.WatchSeats(watch_pb2.WatchSeatsRequest())
                await next_of(watch)
                await extender.close()
                assert (await ended(watch))[0] is grpc.StatusCode.UNAVAILABLE
        finally:
            await extender.close()
        assert not path.exists()
        log = extender.log.read_text()
        assert '"event":"serving gRPC"' in log
        assert '"level":"error"' not in log, log
        await rig.start()  # for the rig's own end


async def served_asked(rig: Rig, callers: Callers) -> None:
    answer = await callers.plan.Plan(plan_pb2.PlanRequest(gang="new", manifest=MANIFEST))
    assert {each.pod.name for each in answer.plan.victims} == {"low-0", "low-1"}
    assert await rig.names() == {"low-0", "low-1"}

    watch = callers.watch.WatchSeats(watch_pb2.WatchSeatsRequest())
    assert (await next_of(watch)).full
    told = callers.watch.WatchDecisions(watch_pb2.WatchDecisionsRequest(backlog=9))
    await rig.group("high", 2, "high")
    for i in range(2):
        await rig.pod(f"high-{i}", cls="high", group="high")
    members = {f"high-{i}": await whole(rig, f"high-{i}") for i in range(2)}
    places: dict[str, str] = {}
    async with asyncio.timeout(60):
        while len(places) < 2:
            for name in members.keys() - places.keys():
                pod = json.dumps(await whole(rig, name)).encode()
                request = extender_pb2.FilterRequest(pod=pod, node_names=["n0", "n1"])
                given = await callers.extender.Filter(request)
                if given.node_names:
                    places[name] = given.node_names[0]
                    await rig.bind(name, places[name])
            await asyncio.sleep(0.05)
    assert set(places.values()) == {"n0", "n1"}
    seen = await next_of(watch)
    assert {seat.pod_uid for node in seen.nodes for seat in node.seats} == {
        pod["metadata"]["uid"] for pod in members.values()
    }
    watch.cancel()
    gone = types_pb2.PodReference(namespace="default", name="low-0")
    found = await callers.plan.Explain(plan_pb2.ExplainRequest(pod=gone))
    assert found.state == State.STATE_GONE
    assert {each.gang for each in found.evicted_by} == {"pod-group:default/high"}
    assert (await read(told)).decision.gang == "pod-group:default/high"
    told.cancel()


async def whole(rig: Rig, name: str) -> dict[str, Any]:
    return await rig.client.get(f"/api/v1/namespaces/default/pods/{name}")


def test_without_a_place_to_listen_nothing_of_grpc_is_loaded() -> None:
    code = (
        "import sys\n"
        "import extender.app.serve_command as serve\n"
        "from extender.settings.settings import Settings\n"
        "serve.GrpcSide(Settings())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('grpc', 'google')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
