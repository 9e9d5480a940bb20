"""Binds that are held keep nobody busy, take nobody's connection, and end with their caller."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from extender.settings.settings import ServerSettings
from tests.server.doubles import Running, running

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
