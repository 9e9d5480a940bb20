"""Strangers who invent tokens do not keep the review of honest ones waiting.

See docs/security.md, row 9. Reviews of invented tokens are held for as long as a test likes: what
is not behind them is answered all the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from extender.server.access_rules import Rules
from extender.server.tokens import (
    AT_ONCE,
    KEPT_FREE,
    MOST_OF_ONE,
    MOST_WAITING,
    TOKEN_REVIEWS,
    ReviewTurns,
    Tokens,
    TooManyReviews,
)
from tests.server.doubles import running
from tests.server.test_access import Api, Time

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


async def review(reviewer: Tokens, token: str, peer: str, path: str = "/metrics") -> int:
    return (await reviewer.review(f"Bearer {token}".encode(), path, peer)).status


@asynccontextmanager
async def flooded(api: SlowApi, one: Tokens, peers: list[str], each: int) -> AsyncIterator[None]:
    """Every peer sends ``each`` invented tokens; what of them may be reviewed is held."""
    asking = [
        asyncio.create_task(review(one, f"made-up-{peer}-{i}", peer))
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
def api() -> SlowApi:
    return SlowApi()


async def test_a_strangers_tokens_wait_behind_each_other_only(api: SlowApi) -> None:
    one = Tokens(api, Time())  # type: ignore[arg-type]
    async with flooded(api, one, ["10.0.0.1"], each=500):
        async with asyncio.timeout(GUARD_SECONDS):
            assert await review(one, "scraper", "10.0.0.2") == 200
        assert api.held == 1


async def test_ports_and_addresses_of_one_network_are_one_stranger(api: SlowApi) -> None:
    one = Tokens(api, Time())  # type: ignore[arg-type]
    peers = [f"2001:db8::{i:x}" for i in range(1, 40)]
    async with flooded(api, one, peers[:1], each=1):
        asking = [asyncio.create_task(review(one, f"x-{p}", p)) for p in peers]
        async with asyncio.timeout(GUARD_SECONDS):
            assert await review(one, "scraper", "::ffff:10.0.0.2") == 200
        assert api.held == 1
        api.open.set()
        await asyncio.gather(*asking)


async def test_a_known_token_is_renewed_whoever_else_waits(api: SlowApi) -> None:
    time = Time()
    one = Tokens(api, time)  # type: ignore[arg-type]
    assert await review(one, "scraper", "10.0.0.2") == 200
    time.now = 61.0
    peers = [f"10.0.1.{i}" for i in range(100)]
    async with flooded(api, one, peers, each=3), asyncio.timeout(GUARD_SECONDS):
        assert api.held == AT_ONCE - KEPT_FREE
        # The same address as a stranger's: a node's, behind which there are many.
        assert await review(one, "scraper", peers[0]) == 200


async def test_a_known_token_that_is_good_no_more_is_a_strangers(api: SlowApi) -> None:
    time = Time()
    one = Tokens(api, time)  # type: ignore[arg-type]
    assert await review(one, "scraper", "10.0.0.2") == 200
    del api.rights["scraper"]
    api.open.set()
    time.now = 61.0
    assert await review(one, "scraper", "10.0.0.2") == 401
    api.open.clear()
    api.held = 0
    time.now = 122.0
    async with flooded(api, one, [f"10.0.1.{i}" for i in range(100)], each=1):
        asking = asyncio.create_task(review(one, "scraper", "10.0.0.2"))
        await asyncio.sleep(0)
        assert api.held == AT_ONCE - KEPT_FREE
        api.open.set()
        assert await asking == 401


async def test_an_unknown_token_is_refused_for_every_page(api: SlowApi) -> None:
    one = Tokens(api, Time())  # type: ignore[arg-type]
    api.open.set()
    for path in ("/metrics", "/debug/gangs", "/debug/pods"):
        assert await review(one, "nobody", "10.0.0.1", path) == 401
    assert api.held == 1


async def test_too_many_of_one_are_refused_at_once(api: SlowApi) -> None:
    one = Tokens(api, Time())  # type: ignore[arg-type]
    async with (
        flooded(api, one, ["10.0.0.1"], each=MOST_OF_ONE + 1),
        asyncio.timeout(GUARD_SECONDS),
    ):
        assert await review(one, "one-more", "10.0.0.1") == 503


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


async def test_who_is_gone_has_no_turn(api: SlowApi) -> None:
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


async def test_the_listener_tells_callers_apart_by_their_addresses(api: SlowApi) -> None:
    rules = Rules(metrics="token", encrypted=True)
    async with running(tokens=Tokens(api, Time())) as site:  # type: ignore[arg-type]
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
            while not api.held:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(GUARD_SECONDS):
                assert await get(ours, "scraper") == 200
            assert api.held == 1
            api.open.set()
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
