"""TLS, callers' certificates, and files that change while serving (docs/security.md, rows 8, 9)."""

from __future__ import annotations

import asyncio
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec.structs import replace as replace_settings

from extender.model.errors import InvalidInput
from extender.server.certificates import Certificates
from extender.server.metrics import Metrics
from extender.settings.settings import ServerSettings
from tests.server.callers import refused
from tests.server.doubles import running
from tests.wire.documents import dump, filter_by_name


class Files:
    """Certificate files, replaced the way a mounted Secret is."""

    def __init__(self, folder: Path, *, ask_clients: bool = False) -> None:
        self.authority = trustme.CA()
        self.cert = folder / "tls.crt"
        self.key = folder / "tls.key"
        self.clients = folder / "ca.crt"
        self.ask_clients = ask_clients
        self.issue(self.authority)
        self.admit(self.authority)

    @property
    def settings(self) -> ServerSettings:
        return ServerSettings(
            port=0,
            tls_cert_file=str(self.cert),
            tls_key_file=str(self.key),
            client_ca_file=str(self.clients) if self.ask_clients else "",
        )

    def issue(self, authority: trustme.CA, **dates: Any) -> None:
        pair = authority.issue_cert("127.0.0.1", **dates)
        replace(self.cert, b"".join(blob.bytes() for blob in pair.cert_chain_pems))
        replace(self.key, pair.private_key_pem.bytes())

    def admit(self, authority: trustme.CA) -> None:
        replace(self.clients, authority.cert_pem.bytes())


def replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)


def trusting(authority: trustme.CA, client: trustme.CA | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if client is not None:
        client.issue_cert("kube-scheduler.local").configure_cert(context)
    return context


async def status(url: str, context: ssl.SSLContext) -> int:
    """One call on a new connection."""
    async with aiohttp.ClientSession() as web, web.get(url, ssl=context) as answer:
        return answer.status


REFUSED = (aiohttp.ClientError, ConnectionError)


async def test_https(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with running(files.settings) as site:
        assert site.server.url.startswith("https://")
        assert await status(site.url("/healthz"), trusting(files.authority)) == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await status(site.url("/healthz"), trusting(trustme.CA()))


async def test_client_certificates(tmp_path: Path) -> None:
    files = Files(tmp_path, ask_clients=True)
    async with running(files.settings) as site:
        url = site.url("/healthz")
        assert await status(url, trusting(files.authority, files.authority)) == 200
        with pytest.raises(REFUSED):
            await status(url, trusting(files.authority))
        with pytest.raises(REFUSED):
            await status(url, trusting(files.authority, trustme.CA()))


async def settled(check: Any) -> None:
    """Wait until a new connection sees the change."""
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.01)


async def test_new_certificate_is_taken_without_a_restart(tmp_path: Path) -> None:
    files = Files(tmp_path)
    async with running(files.settings, certificate_check_seconds=0.02) as site:
        url = site.url("/healthz")
        async with aiohttp.ClientSession() as old:
            old_trust = trusting(files.authority)
            async with old.get(url, ssl=old_trust) as answer:
                assert await answer.text() == "ok"
            fresh = trustme.CA()
            files.issue(fresh)

            async def taken() -> bool:
                try:
                    return await status(url, trusting(fresh)) == 200
                except aiohttp.ClientConnectorCertificateError:
                    return False

            await settled(taken)
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await status(url, trusting(files.authority))
            async with old.get(url, ssl=old_trust) as answer:
                assert answer.status == 200, "the connection made before goes on"


async def test_authority_of_callers_is_replaced_not_added_to(tmp_path: Path) -> None:
    files = Files(tmp_path, ask_clients=True)
    async with running(files.settings, certificate_check_seconds=0.02) as site:
        url = site.url("/healthz")
        assert await status(url, trusting(files.authority, files.authority)) == 200
        fresh = trustme.CA()
        files.admit(fresh)

        async def taken() -> bool:
            try:
                return await status(url, trusting(files.authority, fresh)) == 200
            except REFUSED:
                return False

        await settled(taken)
        with pytest.raises(REFUSED):
            await status(url, trusting(files.authority, files.authority))


def test_broken_files_keep_the_old_certificate(tmp_path: Path, lines: list[Any]) -> None:
    files = Files(tmp_path)
    certificates = Certificates(files.settings)
    assert not certificates.refresh()
    good = files.key.read_bytes()
    replace(files.key, b"half a k")
    assert not certificates.refresh()
    assert not certificates.refresh()
    refused = [line for line in lines if line["log_level"] == "error"]
    assert len(refused) == 1, "a bad pair is told once"
    assert str(files.key) in refused[0]["error"]
    replace(files.key, good)
    assert certificates.refresh()
    files.cert.unlink()
    assert not certificates.refresh()


@pytest.mark.parametrize("spoilt", ["cert", "key", "clients"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_unusable_files_at_start(tmp_path: Path, spoilt: str, content: bytes | None) -> None:
    files = Files(tmp_path, ask_clients=True)
    path: Path = getattr(files, spoilt)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInput, match=path.name):
        Certificates(files.settings)


def test_key_of_another_certificate(tmp_path: Path) -> None:
    files = Files(tmp_path)
    replace(files.key, trustme.CA().issue_cert("x").private_key_pem.bytes())
    with pytest.raises(InvalidInput, match="tlsCertFile"):
        Certificates(files.settings)


NOW = datetime.now(UTC)
BAD_DATES = [
    {"not_before": NOW - timedelta(days=2), "not_after": NOW - timedelta(days=1)},
    {"not_before": NOW + timedelta(days=1), "not_after": NOW + timedelta(days=2)},
]


@pytest.mark.parametrize("dates", BAD_DATES)
def test_a_certificate_that_is_not_valid_now_is_not_started_with(
    tmp_path: Path, dates: dict[str, datetime]
) -> None:
    files = Files(tmp_path)
    files.issue(files.authority, **dates)
    with pytest.raises(InvalidInput, match=r"tls\.crt: certificate"):
        Certificates(files.settings)


@pytest.mark.parametrize("dates", BAD_DATES)
async def test_a_certificate_that_is_not_valid_now_replaces_no_good_one(
    tmp_path: Path, lines: list[Any], dates: dict[str, datetime]
) -> None:
    files = Files(tmp_path)
    async with running(files.settings, certificate_check_seconds=0.02) as site:
        before = expiry(site.metrics)
        assert before > NOW.timestamp()
        files.issue(files.authority, **dates)
        async with asyncio.timeout(60):
            while not [line for line in lines if "not reloaded" in line["event"]]:
                await asyncio.sleep(0.01)
        assert await status(site.url("/healthz"), trusting(files.authority)) == 200
        assert expiry(site.metrics) == before
        text = site.metrics.render("")[0].decode()
        # Certificate and key are replaced one after the other: the half-way pair may be seen too.
        assert 'certificate_reloads_total{result="refused"}' in text
        assert 'certificate_reloads_total{result="taken"}' not in text


def expiry(metrics: Metrics) -> float:
    name = 'podgroup_extender_certificate_expiry_timestamp_seconds{use="server"} '
    return float(metrics.render("")[0].decode().split(name)[1].split("\n")[0])


async def test_the_expiry_is_that_of_the_certificate_in_use(tmp_path: Path) -> None:
    files = Files(tmp_path)
    end = datetime(2040, 1, 2, 3, 4, 5, tzinfo=UTC)
    files.issue(files.authority, not_after=end)
    async with running(files.settings, certificate_check_seconds=0.02) as site:
        assert expiry(site.metrics) == end.timestamp()
        files.issue(files.authority, not_after=end + timedelta(days=1))
        async with asyncio.timeout(60):
            while expiry(site.metrics) == end.timestamp():
                await asyncio.sleep(0.01)
        assert expiry(site.metrics) == end.timestamp() + 86400
        text = site.metrics.render("")[0].decode()
        assert 'certificate_reloads_total{result="taken"} 1.0' in text


def test_a_certificate_that_was_too_early_is_taken_when_its_time_has_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(tmp_path)
    certificates = Certificates(files.settings)
    files.issue(files.authority, **BAD_DATES[1])
    assert not certificates.refresh()
    monkeypatch.setattr(
        "extender.server.certificates.expiry_of", lambda context, file: 1.0
    )  # tomorrow
    assert certificates.refresh()


def test_chains_and_text_around_a_certificate(tmp_path: Path) -> None:
    between = trustme.CA().create_child_ca()
    files = Files(tmp_path)
    files.issue(between)
    files.cert.write_bytes(b"subject=/CN=x\n" + files.cert.read_bytes())
    assert Certificates(files.settings).expiry > NOW.timestamp()


class TestNames:
    """Who of those with a certificate of the authority may call the verbs."""

    @pytest.fixture
    def files(self, tmp_path: Path) -> Files:
        return Files(tmp_path, ask_clients=True)

    def settings(self, files: Files, *names: str) -> ServerSettings:
        return replace_settings(files.settings, allowed_names=names, health_port=0)

    async def call(self, url: str, context: ssl.SSLContext) -> tuple[int, Any]:
        body = dump(filter_by_name(["n1"]))
        async with (
            aiohttp.ClientSession() as web,
            web.post(url, data=body, ssl=context) as answer,
        ):
            return answer.status, await answer.json()

    def caller(self, files: Files, *identities: str, common: str | None = None) -> ssl.SSLContext:
        context = trusting(files.authority)
        files.authority.issue_cert(*identities, common_name=common).configure_cert(context)
        return context

    async def test_a_name_on_the_list(self, files: Files) -> None:
        by_subject = self.caller(files, "other.example", common="system:kube-scheduler")
        by_name = self.caller(files, "scheduler.example")
        names = ("system:kube-scheduler", "scheduler.example")
        async with running(self.settings(files, *names)) as site:
            for context in (by_subject, by_name):
                assert (await self.call(site.url("/filter"), context))[0] == 200

    async def test_another_certificate_of_the_authority(
        self, files: Files, lines: list[Any]
    ) -> None:
        stranger = self.caller(files, "tenant.example", common="tenant")
        async with running(self.settings(files, "system:kube-scheduler")) as site:
            for verb in ("filter", "preempt", "preempt"):
                found, answer = await self.call(site.url(f"/{verb}"), stranger)
                assert found == 403
                assert "tenant, tenant.example" in answer["error"]
            assert not site.verbs.asked
            assert await status(site.url("/livez"), stranger) == 200
        told = [line for line in lines if line["event"] == "call refused"]
        assert len(told) == 1, "once a minute"

    async def test_health_listener_asks_for_no_certificate(self, files: Files) -> None:
        async with running(self.settings(files, "system:kube-scheduler")) as site:
            url = site.server.health_url
            assert await status(f"{url}/livez", trusting(files.authority)) == 200
            with pytest.raises(REFUSED):
                await status(site.url("/livez"), trusting(files.authority))


NAME = "system:kube-scheduler"
QUESTION = dump(filter_by_name(["n1"]))


def for_servers_only(authority: trustme.CA) -> tuple[bytes, bytes]:
    """(certificate, key) of the right name, and not meant for callers."""
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes())
    signer = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    pair = authority.issue_cert("x.local")
    key = serialization.load_pem_private_key(pair.private_key_pem.bytes(), None)
    usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    built: Any = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())  # type: ignore[arg-type]
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(usage, critical=False)
    )
    made = built.sign(signer, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM), pair.private_key_pem.bytes()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path, ask_clients=True)


@pytest.fixture
def settings(files: Files) -> ServerSettings:
    return replace_settings(
        files.settings, allowed_names=(NAME,), health_port=0, head_seconds=2.0, body_seconds=2.0
    )


def holding(files: Files, **dates: Any) -> ssl.SSLContext:
    context = trusting(files.authority)
    files.authority.issue_cert("x.local", common_name=NAME, **dates).configure_cert(context)
    return context


async def test_a_callers_certificate_that_is_not_valid_now(
    files: Files, settings: ServerSettings
) -> None:
    async with running(settings) as site:
        assert await status(site.url("/livez"), holding(files)) == 200
        for dates in (
            {"not_before": NOW - timedelta(days=2), "not_after": NOW - timedelta(days=1)},
            {"not_before": NOW + timedelta(days=1), "not_after": NOW + timedelta(days=2)},
        ):
            with pytest.raises(REFUSED):
                await status(site.url("/livez"), holding(files, **dates))
        await refused(site, "handshake")


async def test_a_certificate_for_servers_only(
    files: Files, settings: ServerSettings, tmp_path: Path
) -> None:
    certificate, key = for_servers_only(files.authority)
    (tmp_path / "c.pem").write_bytes(certificate + key)
    context = trusting(files.authority)
    context.load_cert_chain(tmp_path / "c.pem")
    async with running(settings) as site:
        with pytest.raises(REFUSED):
            await status(site.url("/livez"), context)


async def test_a_certificate_that_expires_on_an_open_connection(
    files: Files, settings: ServerSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler keeps its connections for days: a handshake is no check for ever."""
    context = holding(files, not_after=NOW + timedelta(hours=1))
    async with running(settings) as site, aiohttp.ClientSession() as web:
        for clock, expected in ((0, 200), (3599, 200), (3601, 403)):
            moment = NOW.timestamp() + clock
            monkeypatch.setattr("extender.server.protocol.wall_clock", lambda at=moment: at)
            async with web.post(site.url("/filter"), data=QUESTION, ssl=context) as answer:
                assert answer.status == expected
                text = await answer.text()
        assert "has expired" in text
        assert answer.headers["connection"] == "close"
        assert len(site.verbs.asked) == 2


@pytest.mark.parametrize("start", [b"", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\n\r\n"])
async def test_a_handshake_that_does_not_come(
    files: Files, settings: ServerSettings, start: bytes
) -> None:
    async with running(settings) as site:
        ports = (site.server.port, site.server.health_port)
        opened = [await asyncio.open_connection("127.0.0.1", port) for port in ports]
        for _, writer in opened:
            writer.write(start)
        for reader, writer in opened:
            async with asyncio.timeout(60):
                while await reader.read(1000):
                    pass
            writer.close()
        await refused(site, "handshake")
        assert await status(site.url("/livez"), holding(files)) == 200


def test_nobody_renegotiates(files: Files) -> None:
    """Each would cost us a private key's operation, and a caller a few bytes."""
    certificates = Certificates(files.settings)
    for context in (certificates.context, certificates.health_context, certificates._current):
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


def test_no_session_is_resumed(files: Files) -> None:
    """Resuming skips the check of the caller's certificate, which may have been taken back."""
    certificates = Certificates(files.settings)
    for context in (certificates.context, certificates.health_context, certificates._current):
        assert context.options & ssl.OP_NO_TICKET, "TLS 1.2"
        assert context.num_tickets == 0, "TLS 1.3"
