"""Time that passes at once in the tests themselves."""

from __future__ import annotations

import asyncio
import time

import aiohttp
from aiohttp import web

from tests.event_time import passes, turns


async def test_timers_run_in_their_order_and_none_before_its_time() -> None:
    seen: list[tuple[str, float]] = []
    loop = asyncio.get_running_loop()
    start, began = loop.time(), time.monotonic()

    async def after(name: str, *pauses: float) -> None:
        for pause in pauses:
            await asyncio.sleep(pause)
            seen.append((name, round(loop.time() - start, -1)))

    tasks = [asyncio.create_task(after("a", 100, 200)), asyncio.create_task(after("b", 200, 400))]
    await passes(90)
    assert seen == []
    await passes(310)
    assert seen == [("a", 100), ("b", 200), ("a", 300)]
    await passes(400)
    assert seen[3:] == [("b", 600)]
    await asyncio.gather(*tasks)
    assert time.monotonic() - began < 60


async def test_a_request_over_loopback_has_its_answer() -> None:
    answered: list[int] = []

    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(50)
        return web.json_response({"a": "b" * 100_000})

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    (address,) = runner.addresses

    async def ask() -> None:
        url = f"http://127.0.0.1:{address[1]}/"
        async with aiohttp.ClientSession() as http, http.post(url, json={}) as got:
            answered.append(len((await got.json())["a"]))

    asking = asyncio.create_task(ask())
    try:
        await turns()
        assert answered == []
        await passes(60)
        assert answered == [100_000]
        await asking
    finally:
        await runner.cleanup()
