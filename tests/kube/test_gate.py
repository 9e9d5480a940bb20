"""Writes to the API server: how many at a time, how many a second, which first.

See docs/security.md, row 8.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest
from aiohttp import web

from extender.gang.controller.notifier import Notifier
from extender.kube.client import KubeClient
from extender.kube.gate import Gate, hint
from extender.server.tokens import Tokens
from extender.settings.settings import ApiSettings
from tests.gang.hearing import Hearing
from tests.gang.world import pod


class Server:
    """Holds every write until it is let go; counts."""

    def __init__(self) -> None:
        self.going = asyncio.Event()
        self.seen: list[str] = []
        self.at_once = self.most = 0
        self.url = ""

    async def handle(self, request: web.Request) -> web.Response:
        self.seen.append(request.path)
        if request.method != "GET":
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            await self.going.wait()
            self.at_once -= 1
        return web.json_response({})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    double = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", double.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    double.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield double
    double.going.set()
    await runner.cleanup()


async def nominate(client: KubeClient, number: int) -> None:
    with hint():
        await client.patch(f"/hint/{number}", {})


async def test_a_thousand_hints_leave_room_for_evictions(server: Server) -> None:
    limits = ApiSettings(connections=8, requests_per_second=0)
    client = await KubeClient.connect(server=server.url, limits=limits)
    async with client, asyncio.timeout(60):
        hints = [asyncio.create_task(nominate(client, i)) for i in range(1000)]
        while server.at_once < 4:
            await asyncio.sleep(0.001)
        evictions = [asyncio.create_task(client.delete(f"/pod/{i}")) for i in range(4)]
        while server.at_once < 8:
            await asyncio.sleep(0.001)
        late = asyncio.create_task(client.delete("/pod/late"))
        await asyncio.sleep(0)
        assert client.gate.waiting() == {"act": 1.0, "hint": 996.0}
        # Reads and the lease do not wait.
        await client.get("/api")
        lease = asyncio.create_task(client.replace("/leases/one", {}))
        while "/leases/one" not in server.seen:
            await asyncio.sleep(0.001)
        server.going.set()
        await asyncio.gather(*evictions, late, lease, *hints)
        assert server.most == 9
        after = server.seen[server.seen.index("/leases/one") + 1 :]
        assert after[0] == "/pod/late", "before 996 hints that wait for longer"
        assert client.gate.waiting() == {"act": 0.0, "hint": 0.0}


async def test_events_wait_behind_evictions(server: Server) -> None:
    """Events, nominations and wake-ups: a gang of 1,000 members has a thousand of each."""
    heard = Hearing()
    limits = ApiSettings(connections=8, requests_per_second=0)
    async with await KubeClient.connect(server=server.url, limits=limits) as client:
        notifier = Notifier(client, heard)
        told = [
            asyncio.create_task(each)
            for i in range(20)
            for each in (
                notifier.event(f"uid-{i}", "ns", f"pod-{i}", "Reason", "note"),
                notifier.nominate(pod(f"pod-{i}"), "n0"),
                notifier.wake(pod(f"pod-{i}"), "n0", 1.0),
            )
        ]
        await _let_go(server, client, told)
    assert heard.failures == []


async def test_reviews_of_tokens_wait_behind_evictions(server: Server) -> None:
    limits = ApiSettings(connections=8, requests_per_second=0)
    async with await KubeClient.connect(server=server.url, limits=limits) as client:
        reviewers = [Tokens(client) for _ in range(20)]
        asked = [asyncio.create_task(one.review(b"Bearer x", "/metrics")) for one in reviewers]
        await _let_go(server, client, asked)


async def _let_go(
    server: Server, client: KubeClient, hints: Sequence[asyncio.Task[object]]
) -> None:
    """See that these have half of the connections, then that evictions have the other half."""
    async with asyncio.timeout(60):
        while sum(client.gate.waiting().values()) < len(hints) - 4:
            await asyncio.sleep(0.001)
        assert client.gate.waiting() == {"act": 0.0, "hint": len(hints) - 4}
        evictions = [asyncio.create_task(client.delete(f"/pod/{i}")) for i in range(4)]
        while not {f"/pod/{i}" for i in range(4)} <= set(server.seen):
            await asyncio.sleep(0.001)
        server.going.set()
        await asyncio.gather(*evictions, *hints)


async def test_who_gives_up_waiting_takes_no_place() -> None:
    gate = Gate(ApiSettings(connections=8, requests_per_second=0))

    async def hold(event: asyncio.Event) -> None:
        async with gate.place("POST", "/x"):
            await event.wait()

    end = asyncio.Event()
    held = [asyncio.create_task(hold(end)) for _ in range(8)]
    waiting = [asyncio.create_task(hold(end)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    held[0].cancel()
    await asyncio.sleep(0)
    waiting[1].cancel()  # just let in
    await asyncio.gather(held[0], waiting[0], waiting[1], return_exceptions=True)
    assert gate.waiting() == {"act": 0.0, "hint": 0.0}
    end.set()
    await asyncio.gather(*held[1:], waiting[2])
    for _ in range(8):
        held = [asyncio.create_task(hold(end)) for _ in range(8)]
        await asyncio.gather(*held)


async def test_requests_a_second() -> None:
    loop = asyncio.get_running_loop()
    gate = Gate(ApiSettings(connections=8, requests_per_second=200))

    async def one(*, urgent: bool, done: list[bool]) -> None:
        if urgent:
            async with gate.place("DELETE", "/x"):
                done.append(True)
        else:
            with hint():
                async with gate.place("POST", "/x"):
                    done.append(False)

    done: list[bool] = []
    began = loop.time()
    await asyncio.gather(
        *(one(urgent=False, done=done) for _ in range(200))
    )  # a second's worth at once
    async with AsyncExitStack() as held:  # until all of them wait, however long that takes
        for _ in range(8):
            await held.enter_async_context(gate.place("POST", "/held"))
        hints = [asyncio.create_task(one(urgent=False, done=done)) for _ in range(20)]
        await asyncio.sleep(0)
        urgent = [asyncio.create_task(one(urgent=True, done=done)) for _ in range(20)]
        await asyncio.sleep(0)
        assert gate.waiting() == {"act": 20.0, "hint": 20.0}
    await asyncio.gather(*hints, *urgent)
    assert loop.time() - began >= 39 / 200, "the rest at its pace"
    places = {True: 0, False: 0}
    for place, kind in enumerate(done[200:]):
        places[kind] += place
    assert places[True] < places[False], "evictions first"
