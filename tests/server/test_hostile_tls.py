"""Certificates and handshakes of callers who mean no good (docs/security.md, rows 8 and 9)."""

from __future__ import annotations

import asyncio
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

from extender.server.certificates import Certificates
from extender.settings.settings import ServerSettings
from tests.server.callers import refused
from tests.server.doubles import running
from tests.server.test_tls import REFUSED, Files, status, trusting
from tests.wire.documents import dump, filter_by_name

NAME = "system:kube-scheduler"
NOW = datetime.now(UTC)
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
