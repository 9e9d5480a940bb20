"""Who may see the console: who may see /debug, where it is on at all (docs/security.md, row 11)."""

from __future__ import annotations

import base64

import aiohttp
import pytest

from extender.server.access_rules import Rules, health_rules, verbs_rules
from extender.server.pages import RIGHT, credential, is_page, misdirected
from extender.server.tokens import Tokens
from extender.settings.settings import ServerSettings
from tests.console.site import Site
from tests.server.test_access import Api

ENCRYPTED = Rules(debug="token", encrypted=True)


def basic(password: str, user: str = "me") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def door(site: Site, rules: Rules, api: Api | None = None) -> None:
    """Let requests in by these rules."""
    app = site.server.app
    app._authorization._tokens = Tokens(api) if api is not None else None  # type: ignore[arg-type]
    site.server.listeners[0].config.loaded_app = app.door(rules)


async def status(web: aiohttp.ClientSession, site: Site, page: str = "", **headers: str) -> int:
    given = {name.title(): value for name, value in headers.items()}
    async with web.get(site.url(page), headers=given) as answer:
        return answer.status


def test_console_is_off_where_debug_is_off() -> None:
    shared = ServerSettings(host="0.0.0.0")
    assert verbs_rules(shared).debug == "off"
    assert health_rules(shared).debug == "off"
    assert verbs_rules(ServerSettings(debug=False)).debug == "off"


async def test_turned_off(site: Site, web: aiohttp.ClientSession) -> None:
    door(site, Rules(debug="off"))
    for page in ("", "gang", "events", "cells", "static/console.css", "what-if"):
        assert await status(web, site, page) == 404
    async with web.post(site.url("what-if"), data={"gang": "x"}) as answer:
        assert answer.status == 404
    assert site.console.board.made == 0


async def test_token_is_reviewed_as_for_debug(site: Site, web: aiohttp.ClientSession) -> None:
    api = Api()
    api.rights = {"admin": {RIGHT}, "scraper": {"/metrics", "/ui/"}}
    door(site, ENCRYPTED, api)
    async with web.get(site.url("")) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
    for page in ("", "cluster", "static/console.css", "cells"):
        assert await status(web, site, page, authorization="Bearer admin") == 200
        assert await status(web, site, page, authorization=basic("admin")) == 200
        assert await status(web, site, page, authorization=basic("scraper")) == 403
        assert await status(web, site, page, authorization=basic("nobody")) == 401
        assert await status(web, site, page, authorization="Basic %%%") == 401
    reviewed = {spec["nonResourceAttributes"]["path"] for _, spec in api.asked if "user" in spec}
    assert reviewed == {RIGHT}, "one right for all pages, below /debug/"


async def test_token_is_wanted_without_tls_in_vain(site: Site, web: aiohttp.ClientSession) -> None:
    door(site, Rules(debug="token"), Api())
    assert await status(web, site, authorization=basic("admin")) == 403


async def test_basic_is_for_pages_alone(site: Site, web: aiohttp.ClientSession) -> None:
    api = Api()
    api.rights = {"admin": {RIGHT, "/debug/gangs"}}
    door(site, ENCRYPTED, api)
    async with web.get(
        f"{site.server.url}/debug/gangs", headers={"Authorization": basic("admin")}
    ) as answer:
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_name_of_another_site_is_not_answered(site: Site, web: aiohttp.ClientSession) -> None:
    """A page elsewhere whose name was pointed to loopback reads nothing."""
    port = site.server.port
    for host in (f"evil.example:{port}", "127.0.0.1.evil.example", "localhost.evil.example"):
        assert await status(web, site, host=host) == 421
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}", "10.0.0.7"):
        assert await status(web, site, host=host) == 200


@pytest.mark.parametrize("path", ["/uix", "/u", "/UI", "/debug/ui"])
def test_what_is_no_page(path: str) -> None:
    assert not is_page(path)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (None, None),
        (b"Bearer x", b"Bearer x"),
        (b"Basic bWU6dG9r", b"Bearer tok"),
        (b"basic   bWU6dG9r", b"Bearer tok"),
        (b"Basic bWU6YTpi", b"Bearer a:b"),
        (b"Basic bWU=", b"Bearer "),
        (b"Basic !!", None),
        (b"Basic " + b"A" * 30_000, b"Basic " + b"A" * 30_000),
    ],
)
def test_credential(given: bytes | None, read: bytes | None) -> None:
    headers = [] if given is None else [(b"authorization", given)]
    assert credential({"headers": headers}) == read


def test_request_without_a_host_is_no_browser_s() -> None:
    assert not misdirected({"headers": [], "http_version": "1.0"})
    assert misdirected({"headers": [], "http_version": "1.1"})


async def test_the_root_leads_to_the_console_where_it_is_on(
    site: Site, web: aiohttp.ClientSession
) -> None:
    root = f"{site.server.url}/"
    async with web.get(root, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["location"]) == (302, "/ui/")
    async with web.get(root) as answer:
        assert answer.status == 200
    door(site, Rules(debug="off"))
    async with web.get(root, allow_redirects=False) as answer:
        assert answer.status == 404
