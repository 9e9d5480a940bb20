"""Who sees metrics and debug pages where others reach them.

See docs/security.md, rows 9 and 11.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from extender.kube.api_errors import ApiError, Forbidden, Unavailable
from extender.server.access_rules import Rules, health_rules, verbs_rules
from extender.server.tokens import (
    ACCESS_REVIEWS,
    AT_ONCE,
    KEPT_FREE,
    MOST_OF_ONE,
    MOST_WAITING,
    TOKEN_REVIEWS,
    ReviewTurns,
    Tokens,
    TooManyReviews,
)
from extender.settings.settings import ServerSettings
from tests.server.callers import connect
from tests.server.doubles import Running, running
from tests.wire.documents import dump, filter_by_name

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


GUARD_SECONDS = 5.0
"""Before the wait for a review that is held would end."""


class SlowApi(Api):
    """Holds reviews of tokens that it does not know until ``open`` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.open = asyncio.Event()
        self.held = 0

    async def create(
        self, path: str, body: dict[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        if path == TOKEN_REVIEWS and body["spec"]["token"] not in self.rights:
            self.held += 1
            await self.open.wait()
        return await super().create(path, body, dry_run=dry_run)


async def turns_review(reviewer: Tokens, token: str, peer: str, path: str = "/metrics") -> int:
    return (await reviewer.review(f"Bearer {token}".encode(), path, peer)).status


@asynccontextmanager
async def flooded(api: SlowApi, one: Tokens, peers: list[str], each: int) -> AsyncIterator[None]:
    """Every peer sends ``each`` invented tokens; what of them may be reviewed is held."""
    asking = [
        asyncio.create_task(turns_review(one, f"made-up-{peer}-{i}", peer))
        for peer in peers
        for i in range(each)
    ]
    while api.held < min(AT_ONCE - KEPT_FREE, len(peers)):
        await asyncio.sleep(0)
    try:
        yield
    finally:
        api.open.set()
        assert set(await asyncio.gather(*asking)) <= {401, 503}
        assert api.most <= AT_ONCE


@pytest.fixture
def turns_api() -> SlowApi:
    return SlowApi()


async def test_a_strangers_tokens_wait_behind_each_other_only(turns_api: SlowApi) -> None:
    one = Tokens(turns_api, Time())  # type: ignore[arg-type]
    async with flooded(turns_api, one, ["10.0.0.1"], each=500):
        async with asyncio.timeout(GUARD_SECONDS):
            assert await turns_review(one, "scraper", "10.0.0.2") == 200
        assert turns_api.held == 1


async def test_ports_and_addresses_of_one_network_are_one_stranger(turns_api: SlowApi) -> None:
    one = Tokens(turns_api, Time())  # type: ignore[arg-type]
    peers = [f"2001:db8::{i:x}" for i in range(1, 40)]
    async with flooded(turns_api, one, peers[:1], each=1):
        asking = [asyncio.create_task(turns_review(one, f"x-{p}", p)) for p in peers]
        async with asyncio.timeout(GUARD_SECONDS):
            assert await turns_review(one, "scraper", "::ffff:10.0.0.2") == 200
        assert turns_api.held == 1
        turns_api.open.set()
        await asyncio.gather(*asking)


async def test_a_known_token_is_renewed_whoever_else_waits(turns_api: SlowApi) -> None:
    time = Time()
    one = Tokens(turns_api, time)  # type: ignore[arg-type]
    assert await turns_review(one, "scraper", "10.0.0.2") == 200
    time.now = 61.0
    peers = [f"10.0.1.{i}" for i in range(100)]
    async with flooded(turns_api, one, peers, each=3), asyncio.timeout(GUARD_SECONDS):
        assert turns_api.held == AT_ONCE - KEPT_FREE
        # The same address as a stranger's: a node's, behind which there are many.
        assert await turns_review(one, "scraper", peers[0]) == 200


async def test_a_known_token_that_is_good_no_more_is_a_strangers(turns_api: SlowApi) -> None:
    time = Time()
    one = Tokens(turns_api, time)  # type: ignore[arg-type]
    assert await turns_review(one, "scraper", "10.0.0.2") == 200
    del turns_api.rights["scraper"]
    turns_api.open.set()
    time.now = 61.0
    assert await turns_review(one, "scraper", "10.0.0.2") == 401
    turns_api.open.clear()
    turns_api.held = 0
    time.now = 122.0
    async with flooded(turns_api, one, [f"10.0.1.{i}" for i in range(100)], each=1):
        asking = asyncio.create_task(turns_review(one, "scraper", "10.0.0.2"))
        await asyncio.sleep(0)
        assert turns_api.held == AT_ONCE - KEPT_FREE
        turns_api.open.set()
        assert await asking == 401


async def test_an_unknown_token_is_refused_for_every_page(turns_api: SlowApi) -> None:
    one = Tokens(turns_api, Time())  # type: ignore[arg-type]
    turns_api.open.set()
    for path in ("/metrics", "/debug/gangs", "/debug/pods"):
        assert await turns_review(one, "nobody", "10.0.0.1", path) == 401
    assert turns_api.held == 1


async def test_too_many_of_one_are_refused_at_once(turns_api: SlowApi) -> None:
    one = Tokens(turns_api, Time())  # type: ignore[arg-type]
    async with (
        flooded(turns_api, one, ["10.0.0.1"], each=MOST_OF_ONE + 1),
        asyncio.timeout(GUARD_SECONDS),
    ):
        assert await turns_review(one, "one-more", "10.0.0.1") == 503


async def test_many_strangers_make_room_for_one_that_has_nobody_waiting() -> None:
    turns = ReviewTurns(AT_ONCE)
    done = asyncio.Event()

    async def hold(caller: str) -> str:
        try:
            async with turns.turn(caller, known=False):
                await done.wait()
        except TooManyReviews:
            return "refused"
        return "had its turn"

    busy = AT_ONCE - KEPT_FREE
    strangers = [f"s{i}" for i in range(MOST_WAITING // MOST_OF_ONE)]
    waiting = [asyncio.create_task(hold(s)) for s in strangers for _ in range(MOST_OF_ONE)]
    waiting += [asyncio.create_task(hold(strangers[0])) for _ in range(busy)]
    await asyncio.sleep(0)
    fresh = asyncio.create_task(hold("honest"))
    await asyncio.sleep(0)
    done.set()
    assert await fresh == "had its turn"
    assert "refused" in await asyncio.gather(*waiting)


async def test_who_is_gone_has_no_turn(turns_api: SlowApi) -> None:
    turns = ReviewTurns(1 + KEPT_FREE)
    async with turns.turn("a", known=False):
        gone = asyncio.create_task(turns.turn("b", known=False).__aenter__())
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
    async with asyncio.timeout(GUARD_SECONDS), turns.turn("c", known=False):
        pass
    assert turns.idle


async def test_the_listener_tells_callers_apart_by_their_addresses(turns_api: SlowApi) -> None:
    rules = Rules(metrics="token", encrypted=True)
    async with running(tokens=Tokens(turns_api, Time())) as site:  # type: ignore[arg-type]
        site.door(rules)

        async def get(web: aiohttp.ClientSession, token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with web.get(site.url("/metrics"), headers=headers) as page:
                return page.status

        stranger = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
        async with (
            aiohttp.ClientSession(connector=stranger) as theirs,
            aiohttp.ClientSession() as ours,
        ):
            asking = [asyncio.create_task(get(theirs, f"made-up-{i}")) for i in range(20)]
            while not turns_api.held:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(GUARD_SECONDS):
                assert await get(ours, "scraper") == 200
            assert turns_api.held == 1
            turns_api.open.set()
            assert set(await asyncio.gather(*asking)) <= {401, 503}


async def test_a_newcomer_waits_where_the_last_of_the_longest_line_has_just_left() -> None:
    turns, met = ReviewTurns(AT_ONCE), asyncio.Event()

    async def hold(caller: str) -> None:
        async with turns.turn(caller, known=False):
            await met.wait()

    tasks = [asyncio.create_task(hold(each)) for each in "xyz"]
    await asyncio.sleep(0)
    lines = [
        [asyncio.create_task(hold(f"stranger {k}")) for _ in range(MOST_OF_ONE)]
        for k in range(MOST_WAITING // MOST_OF_ONE)
    ]
    await asyncio.sleep(0)
    newcomer = asyncio.create_task(hold("newcomer"))
    for line in lines:
        line[-1].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not newcomer.done() or newcomer.exception() is None
    met.set()
    await asyncio.gather(*tasks, newcomer, *(each for line in lines for each in line[:-1]))


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
