"""Who sees metrics and debug pages on a listener that others reach (docs/security.md, row 9)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.kube.api_errors import ApiError, Forbidden, Unavailable
from extender.server.access_rules import Rules, health_rules, verbs_rules
from extender.server.tokens import ACCESS_REVIEWS, AT_ONCE, KEPT_FREE, TOKEN_REVIEWS, Tokens
from extender.settings.settings import ServerSettings
from tests.server.doubles import Running, running

TLS = ServerSettings(tls_cert_file="c", tls_key_file="k")


class Api:
    """Reviews: tokens are user names, and ``rights`` say which paths each may get."""

    def __init__(self) -> None:
        self.rights: dict[str, set[str]] = {"scraper": {"/metrics"}, "admin": {"/debug/gangs"}}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fails: ApiError | None = None
        self.gate: asyncio.Event | None = None
        self.at_once = self.most = 0

    async def create(
        self, path: str, body: dict[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        self.asked.append((path, body["spec"]))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.fails is not None:
                raise self.fails
            return body | {"status": self._status(path, body["spec"])}
        finally:
            self.at_once -= 1

    def _status(self, path: str, spec: dict[str, Any]) -> dict[str, Any]:
        if path == TOKEN_REVIEWS:
            known = spec["token"] in self.rights
            user = {"username": spec["token"], "groups": ["g"], "extra": {"k": ["v"]}}
            return {"authenticated": True, "user": user} if known else {"error": "expired"}
        assert path == ACCESS_REVIEWS
        assert (spec["groups"], spec["extra"]) == (["g"], {"k": ["v"]})
        attributes = spec["nonResourceAttributes"]
        assert attributes["verb"] == "get"
        rights = self.rights[spec["user"]]
        denied = f"not {attributes['path']}" in rights  # by one authorizer, allowed by another
        return {"allowed": attributes["path"] in rights} | ({"denied": True} if denied else {})


class Time:
    """A clock moved by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def api() -> Api:
    return Api()


def tokens(api: Api, timer: Callable[[], float] | None = None) -> Tokens:
    return Tokens(api, timer or Time())  # type: ignore[arg-type]


async def review(reviewer: Tokens, token: str, path: str = "/metrics") -> int:
    return (await reviewer.review(f"Bearer {token}".encode(), path)).status


class TestTokens:
    async def test_verdicts(self, api: Api) -> None:
        one = tokens(api)
        assert await review(one, "scraper") == 200
        assert await review(one, "admin") == 403
        assert await review(one, "admin", "/debug/gangs") == 200
        assert await review(one, "scraper", "/debug/gangs") == 403
        assert await review(one, "nobody") == 401
        api.rights["denied"] = {"/metrics", "not /metrics"}
        assert await review(one, "denied") == 403

    @pytest.mark.parametrize(
        "header", [None, b"", b"Bearer", b"Bearer ", b"Basic c2NyYXBlcg==", b"Bearer \xff\xfe"]
    )
    async def test_without_a_token_nobody_is_asked(self, api: Api, header: bytes | None) -> None:
        assert (await tokens(api).review(header, "/metrics")).status == 401
        assert (await tokens(api).review(b"Bearer " + b"x" * 20_000, "/metrics")).status == 401
        assert not api.asked

    async def test_answers_are_kept_for_a_short_while(self, api: Api) -> None:
        time = Time()
        one = tokens(api, time)
        for _ in range(3):
            assert await review(one, "scraper") == 200
            assert await review(one, "nobody") == 401
        assert len(api.asked) == 3
        api.rights = {"nobody": {"/metrics"}}
        time.now = 11.0
        assert await review(one, "nobody") == 200, "a no is forgotten soon"
        assert await review(one, "scraper") == 200, "a yes is kept for a minute"
        time.now = 61.0
        assert await review(one, "scraper") == 401

    @pytest.mark.parametrize(
        "error", [Unavailable(0, "Timeout", "no answer"), Forbidden(403, "Forbidden", "no right")]
    )
    async def test_no_answer_is_a_no_that_is_not_kept(self, api: Api, error: ApiError) -> None:
        one = tokens(api)
        api.fails = error
        assert await review(one, "scraper") == 503
        api.fails = None
        assert await review(one, "scraper") == 200

    async def test_a_flood_of_tokens_is_not_one_of_reviews(self, api: Api) -> None:
        one = tokens(api)
        api.gate = asyncio.Event()
        asking = [
            asyncio.create_task(one.review(f"Bearer made-up-{i}".encode(), "/x", f"10.0.0.{i}"))
            for i in range(100)
        ]
        while api.at_once < AT_ONCE - KEPT_FREE:
            await asyncio.sleep(0)
        api.gate.set()
        assert {verdict.status for verdict in await asyncio.gather(*asking)} == {401}
        assert api.most == AT_ONCE - KEPT_FREE


SHARED = replace(TLS, host="0.0.0.0")


@pytest.mark.parametrize(
    ("settings", "metrics", "debug"),
    [
        (ServerSettings(), "open", "open"),
        (ServerSettings(debug=False), "open", "off"),
        (ServerSettings(debug=True), "open", "open"),
        (SHARED, "token", "off"),
        (replace(SHARED, debug=False), "token", "off"),
        (replace(SHARED, debug=True), "token", "token"),
        (replace(SHARED, debug=True, open_metrics=True), "open", "token"),
    ],
)
def test_rules(settings: ServerSettings, metrics: str, debug: str) -> None:
    for rules in (
        verbs_rules(settings),
        health_rules(settings),
        health_rules(replace(settings, host="127.0.0.1", health_host=settings.host)),
    ):
        assert (rules.metrics, rules.debug) == (metrics, debug)
    assert verbs_rules(settings).verbs
    assert not health_rules(settings).verbs
    assert health_rules(replace(settings, health_host="127.0.0.1")).metrics == "open"


class TestPages:
    """A listener that asks for tokens, on loopback for the test's sake."""

    async def get(
        self, site: Running, web: aiohttp.ClientSession, rules: Rules, path: str, token: str = ""
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        site.door(rules)
        async with web.get(site.url(path), headers=headers) as page:
            return page.status, await page.read()

    async def test_with_and_without(self, api: Api, web: aiohttp.ClientSession) -> None:
        rules = Rules(metrics="token", debug="token", encrypted=True)
        async with running(tokens=tokens(api)) as site:
            assert (await self.get(site, web, rules, "/metrics"))[0] == 401
            assert (await self.get(site, web, rules, "/metrics", "admin"))[0] == 403
            assert (await self.get(site, web, rules, "/metrics", "scraper"))[0] == 200
            assert (await self.get(site, web, rules, "/debug/gangs", "scraper"))[0] == 403
            assert (await self.get(site, web, rules, "/debug/gangs", "admin"))[0] == 200
            for path in ("/debug", "/debug/", "/debug/snapshot", "/debug/nothing"):
                status, body = await self.get(site, web, rules, path)
                assert status == 401, path
                assert b"pods" not in body
            assert (await self.get(site, web, rules, "/livez"))[0] == 200
            api.fails = Unavailable(0, "Timeout", "no answer")
            assert (await self.get(site, web, rules, "/debug/snapshot", "admin"))[0] == 503
            assert 'refused_total{reason="token"}' in site.metrics.render("")[0].decode()

    async def test_no_token_is_read_in_the_clear(
        self, api: Api, web: aiohttp.ClientSession
    ) -> None:
        rules = Rules(metrics="token", debug="off", encrypted=False)
        async with running(tokens=tokens(api)) as site:
            status, body = await self.get(site, web, rules, "/metrics", "scraper")
            assert (status, b"TLS" in body) == (403, True)
            assert (await self.get(site, web, rules, "/debug/gangs", "admin"))[0] == 404
        assert not api.asked

    async def test_without_an_api_server(self, web: aiohttp.ClientSession) -> None:
        rules = Rules(metrics="token", encrypted=True)
        async with running() as site:
            assert (await self.get(site, web, rules, "/metrics", "scraper"))[0] == 403
