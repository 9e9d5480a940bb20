"""Certificates over gRPC as over HTTP: callers' and our own (docs/security.md, row 9)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from extender.model.errors import InvalidInput
from tests.grpc_api.site import calling, serving
from tests.grpc_api.test_calls import refused, until
from tests.grpc_api.test_listening import answered, tls, trusting
from tests.server.doubles import Echo
from tests.server.test_hostile_tls import NOW, for_servers_only
from tests.server.test_tls import BAD_DATES, Files

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
