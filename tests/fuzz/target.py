"""The whole extender on a small full cluster, in a thread of its own, and what must hold of it.

Whatever is sent: it goes on answering, nothing is logged as an error, nobody is evicted or planned
for, and bytes, tasks and descriptors are given back.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, Self

import structlog
import uvloop

from extender.sandbox.apiserver import ApiServer
from extender.sandbox.storage import Storage
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.server.pages import Pages
from extender.settings.settings import ServerSettings
from tests.fuzz.bytes_of import Names
from tests.gang.rig import Rig
from tests.server.doubles import Source

SECONDS = 0.1
"""The server's patience with heads and bodies; a connection is read until it closes or is quiet."""
CALM_SECONDS = 60.0
"""Within so long all is given back that was taken."""
MOST_CHANGES = 500
"""That the test bed's storage remembers, for watches that open again."""
MORE_TASKS = 16
MORE_DESCRIPTORS = 32
"""Than there were before the first round: loops and libraries open some when they need them."""
SETTINGS = ServerSettings(
    port=0,
    health_port=0,
    max_body_bytes=256 * 1024,
    max_bytes_in_flight=1024 * 1024,
    max_connections=32,
    head_seconds=SECONDS,
    body_seconds=SECONDS,
    pod_wait_seconds=0.0,
)


class Errors(logging.Handler):
    """Keeps what is logged as an error, by us or by a library."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "aiohttp.server":
            return  # the sandbox's API server, of a caller that has gone
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += "".join(traceback.format_exception(record.exc_info[1])[-3:])
        self.found.append(text)

    def process(self, logger: Any, method: str, event: Any) -> Any:
        """structlog's end of the line."""
        if method in ("error", "exception", "critical"):
            self.found.append(repr(event))
        raise structlog.DropEvent

    def take(self) -> list[str]:
        """Return what was found since the last time."""
        found, self.found = self.found, []
        return found


class Target:
    """A context manager. A fuzzer extends it: ``_begin`` and ``_end`` for more that is served."""

    def __init__(self) -> None:
        self.errors = Errors()
        self.statuses: Counter[Any] = Counter()
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stop: asyncio.Event

    def __enter__(self) -> Self:
        self._logging = structlog.get_config()
        structlog.configure(processors=[self.errors.process])
        logging.getLogger().addHandler(self.errors)
        self._thread.start()
        self.call(self._start())
        return self

    def __exit__(self, *exc: object) -> None:
        self.call(self._finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        logging.getLogger().removeHandler(self.errors)
        structlog.configure(**self._logging)

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run something on the extender's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * CALM_SECONDS)

    def _made(self) -> Rig:
        """Return the cluster and what follows it."""
        return Rig()

    def _pages(self) -> Pages | None:
        """Return what is served at /ui/."""
        return None

    async def _fill(self, rig: Rig) -> None:
        """Two nodes that a gang holds, and two pods that wait."""
        await rig.nodes(2)
        await rig.classes(low=1, high=100)
        await rig.gang("low", 2, "low", on="n")
        pods = [await rig.pod(f"meek-{i}", cpu="3") for i in range(2)]
        await rig.until(lambda: rig.cache.pod_named("default", "meek-1") is not None)
        self.names = Names(pods, {f"n{i}": rig.cached(f"low-{i}").uid for i in range(2)})

    async def _start(self) -> None:
        made = self._made()
        # The test bed's own memory of what was done is not what is looked at here.
        made.server = ApiServer(bookmark_seconds=0.05, storage=Storage(keep=MOST_CHANGES))
        self.rig = await made.__aenter__()
        await self._fill(self.rig)
        self.pods = await self.rig.names()
        self.metrics, self.load = Metrics(), Load(SETTINGS)
        self.server = Server(
            SETTINGS,
            self.rig.verbs,
            Source(),
            Health(),
            self.metrics,
            load=self.load,
            pages=self._pages(),
        )
        self._stop = asyncio.Event()
        self._serving = asyncio.create_task(self.server.serve(self._stop))
        await asyncio.wait_for(self.server.started.wait(), CALM_SECONDS)
        await self._begin()
        self._least = _held()

    async def _begin(self) -> None:
        """Serve what more there is."""

    async def _end(self) -> None:
        """End what was begun."""

    async def _finish(self) -> None:
        self._stop.set()
        await self._end()
        await self._serving
        self.metrics.close()
        await self.rig.__aexit__()

    # -- what must hold -------------------------------------------------------------------

    def check(self) -> None:
        """It still answers, nothing was done, and all was given back."""
        self.call(self._check())

    async def _check(self) -> None:
        await self._answers()
        await self._undone()
        await asyncio.wait_for(self.server.app.idle(), CALM_SECONDS)
        assert self.server.app.budget.held == 0
        await self._given_back()
        self.complain()

    async def _undone(self) -> None:
        """Nobody was evicted or planned for."""
        coordinator = self.rig.coordinator
        assert await self.rig.names() == self.pods, "somebody was evicted"
        plans = [
            preemption.key for preemption in coordinator.reservations if preemption.plan.victims
        ]
        assert not plans, "a plan with victims was made"
        assert not coordinator.plans.victims.broken()

    def complain(self) -> None:
        """Raise AssertionError when something was logged as an error."""
        errors = self.errors.take()
        assert not errors, errors

    async def _answers(self) -> None:
        for port in (self.server.port, self.server.health_port):
            async with asyncio.timeout(CALM_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()

    async def _given_back(self) -> None:
        """Connections that were cut take a moment to be noticed."""
        tasks, descriptors = self._least
        most = tasks + MORE_TASKS, descriptors + MORE_DESCRIPTORS
        await self.until(
            lambda: all(now <= limit for now, limit in zip(_held(), most, strict=True)),
            lambda: f"tasks and descriptors are {_held()}, {self._least} before",
        )

    async def until(self, fine: Callable[[], bool], what: Callable[[], str]) -> None:
        """Wait until something is so. Raises AssertionError after a minute."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + CALM_SECONDS
        while not fine():
            assert loop.time() < deadline, what()
            await asyncio.sleep(0.02)


def _held() -> tuple[int, int]:
    """Return how many tasks there are, and how many descriptors are open."""
    gc.collect()
    return len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd"))
