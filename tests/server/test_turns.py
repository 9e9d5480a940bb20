"""Many calls, and binds that are held, keep nothing else waiting (docs/security.md, row 8)."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from extender.server.limits import VerbTurns
from extender.settings.settings import ServerSettings
from tests.server.doubles import Gate, Running, running
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


FEW = ServerSettings(port=0, drain_seconds=5.0, max_connections=4)


def asked(node: str, name: str = "p") -> dict[str, str]:
    return {"PodName": name, "PodNamespace": "ns", "PodUID": f"uid-{name}", "Node": node}


async def post(http: aiohttp.ClientSession, one: Running, body: dict[str, Any]) -> tuple[int, Any]:
    async with http.post(one.url("/bind"), json=body) as answer:
        return answer.status, await answer.json()


async def until_held(one: Running, count: int) -> None:
    app = one.server.app
    async with asyncio.timeout(60):
        while app.in_flight - app.busy != count:
            await asyncio.sleep(0.01)


async def test_a_bind_and_a_malformed_one() -> None:
    async with running(binds=True) as one, aiohttp.ClientSession() as http:
        assert await post(http, one, asked("n1")) == (200, {"Error": "n1"})
        assert one.verbs.binds[0].uid == "uid-p"
        status, body = await post(http, one, {**asked("n1"), "PodUID": ""})
        assert (status, body["where"]) == (400, "PodUID")


async def test_more_are_held_than_there_are_connections_and_filter_is_answered() -> None:
    """With all places taken by held binds, kube-scheduler's other calls would be turned away."""
    connector = aiohttp.TCPConnector(limit=0)
    async with running(FEW, binds=True) as one, aiohttp.ClientSession(connector=connector) as http:
        tasks = []
        for i in range(3 * FEW.max_connections):
            tasks.append(asyncio.create_task(post(http, one, asked("held", f"p{i}"))))
            await until_held(one, i + 1)
        assert one.server.app.busy == 0
        async with aiohttp.ClientSession() as other:
            args = {"Pod": {"metadata": {"name": "p", "uid": "u"}}, "NodeNames": ["n1"]}
            for _ in range(3):
                async with other.post(one.url("/filter"), json=args) as answer:
                    assert answer.status == 200
        assert not any(task.done() for task in tasks)
        one.verbs.stopping()
        assert [body["Error"] for _, body in await asyncio.gather(*tasks)] == ["stopping"] * 12
        assert one.server.app.in_flight == 0


async def test_connections_that_are_not_held_any_more_count_again() -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with running(FEW, binds=True) as one, aiohttp.ClientSession(connector=connector) as http:
        tasks = []
        for i in range(6):
            tasks.append(asyncio.create_task(post(http, one, asked("held", f"p{i}"))))
            await until_held(one, i + 1)
        one.verbs.stopping()
        await asyncio.gather(*tasks)
        connections = one.server.listeners[0]._connections
        assert not connections._holding


async def test_a_caller_that_leaves_ends_its_bind() -> None:
    async with running(binds=True) as one:
        async with aiohttp.ClientSession() as http:
            task = asyncio.create_task(post(http, one, asked("held")))
            await until_held(one, 1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await until_held(one, 0)
        while not one.verbs.left:
            await asyncio.sleep(0.01)


async def test_a_stop_answers_what_is_held() -> None:
    async with running(binds=True) as one, aiohttp.ClientSession() as http:
        task = asyncio.create_task(post(http, one, asked("held")))
        await until_held(one, 1)
        one.stop.set()
        assert await task == (200, {"Error": "stopping"})


async def test_it_is_not_served_unless_configured() -> None:
    async with running() as one, aiohttp.ClientSession() as http:
        status, body = await post(http, one, asked("n1"))
        assert status == 404
        assert "/bind" not in body["verbs"]
