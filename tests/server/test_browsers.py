"""What a page of somebody else's can have a browser on this machine do: nothing.

Loopback is open to whoever is beside us, and a forwarded port brings the browser of an
administrator there. See docs/security.md, row 11.
"""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from extender.settings.settings import ServerSettings
from tests.server.callers import connect
from tests.server.doubles import running
from tests.wire.documents import dump, filter_by_name

QUESTION = dump(filter_by_name(["n1"]))


@pytest.mark.parametrize("path", ["/debug/", "/debug/gangs", "/debug/snapshot"])
async def test_name_of_another_site_reads_nothing(path: str) -> None:
    """A page whose own name was pointed to loopback is of the same origin, and reads answers."""
    async with running() as one, aiohttp.ClientSession() as web:
        port = one.server.port
        for host in (f"evil.example:{port}", "127.0.0.1.evil.example"):
            async with web.get(one.server.url + path, headers={"Host": host}) as answer:
                assert answer.status == 421
                assert "use an address or localhost" in await answer.text()
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            async with web.get(one.server.url + path, headers={"Host": host}) as answer:
                assert answer.status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example", "Content-Type": "text/plain"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-origin"},
    ],
)
@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_no_page_calls_the_verbs(verb: str, headers: dict[str, str]) -> None:
    """A form with enctype text/plain needs nobody's leave to be sent."""
    async with running(binds=True) as one, aiohttp.ClientSession() as web:
        url = f"{one.server.url}/{verb}"
        async with web.post(url, data=QUESTION, headers=headers) as answer:
            assert answer.status == 403
            assert "pages in a browser" in await answer.text()
        assert not one.verbs.asked
        assert not one.verbs.binds
        async with web.get(f"{one.server.url}/metrics") as answer:
            assert 'refused_total{reason="browser"} 1.0' in await answer.text()


async def test_kube_scheduler_is_no_page() -> None:
    async with running() as one, aiohttp.ClientSession() as web:
        named = {"Host": "extender.example:8888", "User-Agent": "Go-http-client/1.1"}
        async with web.post(f"{one.server.url}/filter", data=QUESTION, headers=named) as answer:
            assert answer.status == 200


async def test_metrics_on_loopback_are_not_for_the_name_of_another_site() -> None:
    """Their labels hold names of namespaces. Elsewhere a scraper names a Service."""
    foreign = {"Host": "evil.example"}
    async with running() as one, aiohttp.ClientSession() as web:
        url = f"{one.server.url}/metrics"
        async with web.get(url, headers=foreign) as answer:
            assert answer.status == 421
        for host in ("localhost", "LocalHost:80", "a.localhost:", "127.0.0.1", "[::1]", "[::1]:80"):
            async with web.get(url, headers={"Host": host}) as answer:
                assert answer.status == 200
    settings = ServerSettings(port=0, health_port=0, health_host="0.0.0.0", open_metrics=True)
    async with running(settings) as one, aiohttp.ClientSession() as web:
        url = f"http://127.0.0.1:{one.server.health_port}/metrics"
        async with web.get(url, headers=foreign) as answer:
            assert answer.status == 200


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        ":80",
        "localhost:evil",
        "localhost:80:80",
        "localhost:80@evil.example",
        "[::1]evil.example",
        "[::1",
        "[localhost]",
        "::1",
        "127.0.0.1.evil.example:80",
        "localhost/.evil.example",
    ],
)
@pytest.mark.parametrize("path", ["/metrics", "/debug/gangs"])
async def test_a_host_that_is_none_or_says_more_is_that_of_nobody(
    path: str, host: str | None
) -> None:
    line = b"" if host is None else b"Host: %s\r\n" % host.encode()
    async with running() as one:
        reader, writer = await connect(one)
        writer.write(b"GET %s HTTP/1.1\r\n" % path.encode() + line + b"\r\n")
        async with asyncio.timeout(60):
            assert (await reader.readline()).startswith(b"HTTP/1.1 421")
        writer.close()
