"""Where it listens, whom it lets in, and what tools ask: health and reflection.

See docs/security.md, rows 1 and 9.
"""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from extender.check import config
from extender.grpc_api.server import SERVICES
from extender.model.errors import InvalidInput
from extender.pb.podgroup.v1 import extender_pb2
from extender.settings.grpc_address import parse
from extender.settings.settings import GrpcSettings, ServerSettings, Settings
from extender.settings.settings_rules import validate
from tests.grpc_api.site import Callers, calling, serving
from tests.grpc_api.test_calls import POD, refused, until
from tests.server.doubles import Echo
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
