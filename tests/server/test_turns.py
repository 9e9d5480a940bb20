"""Many calls at once do not keep everything else waiting (docs/security.md, row 8)."""

from __future__ import annotations

import asyncio

import aiohttp

from extender.server.limits import VerbTurns
from tests.server.doubles import Gate, Running
from tests.wire.documents import dump, filter_by_name

QUESTION = dump(filter_by_name(["n1"]))


async def test_so_many_each_round_in_the_order_they_came() -> None:
    turns = VerbTurns(3)
    rounds: list[list[int]] = [[]]
    done = asyncio.Event()

    async def one(number: int) -> None:
        await turns.take()
        rounds[-1].append(number)
        if number == 19:
            done.set()

    async def others() -> None:
        while not done.is_set():
            await asyncio.sleep(0)
            rounds.append([])

    calls = [asyncio.create_task(one(i)) for i in range(20)]
    beside = asyncio.create_task(others())
    calls[7].cancel()
    await asyncio.gather(*calls, return_exceptions=True)
    await beside
    taken = [number for each in rounds for number in each]
    assert taken == [i for i in range(20) if i != 7]
    assert max(len(each) for each in rounds) <= 6, "two rounds may meet between two looks"
    await asyncio.wait_for(turns.take(), 60)


async def test_verbs_wait_for_their_turn_and_probes_do_not(
    site: Running, web: aiohttp.ClientSession
) -> None:
    gate, turn = Gate(), asyncio.Event()
    site.verbs.hook = gate
    site.server.app._load.turns.take = turn.wait  # type: ignore[method-assign, assignment]

    def call() -> asyncio.Task[aiohttp.ClientResponse]:
        return asyncio.create_task(web.post(site.url("/filter"), data=QUESTION).__aenter__())

    calls = [call()]
    await gate.entered.wait()  # alone: at work without a turn
    calls += [call() for _ in range(5)]
    while site.server.app.in_flight < 6:
        await asyncio.sleep(0.001)
    async with asyncio.timeout(60), web.get(site.url("/livez")) as alive:
        assert alive.status == 200
    assert len(site.verbs.asked) == 1
    gate.opened.set()
    turn.set()
    assert {answer.status for answer in await asyncio.gather(*calls)} == {200}
