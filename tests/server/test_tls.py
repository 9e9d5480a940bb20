"""TLS, callers' certificates, and files that change while serving."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from extender.model.errors import InvalidInput
from extender.model.settings import ServerSettings
from extender.server.tls import Certificates
from tests.server.doubles import running


class Files:
    """Certificate files, replaced the way a mounted Secret is."""

    def __init__(self, folder: Path, ask_clients: bool = False) -> None:
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

    def issue(self, authority: trustme.CA) -> None:
        pair = authority.issue_cert("127.0.0.1")
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
    async with asyncio.timeout(10):
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
