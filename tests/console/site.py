"""The server with the console of a stage, on a free port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from extender.console.console import Console
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from extender.server.tokens import Tokens
from extender.settings.settings import ServerSettings
from tests.console.stage import Stage
from tests.server.doubles import Echo, Source


class Site:
    """A server that serves."""

    def __init__(self, server: Server, console: Console, stage: Stage, verbs: Echo) -> None:
        self.server = server
        self.console = console
        self.stage = stage
        self.verbs = verbs

    def url(self, page: str) -> str:
        return f"{self.server.url}/ui/{page}"


@asynccontextmanager
async def serving(
    stage: Stage, settings: ServerSettings | None = None, tokens: Tokens | None = None
) -> AsyncIterator[Site]:
    """Run a server for the length of a block; errors of the server come out of it."""
    console, verbs, metrics = stage.console(), Echo(), Metrics()
    server = Server(
        settings or ServerSettings(port=0, drain_seconds=5.0),
        verbs,
        Source(),
        Health(),
        metrics,
        tokens=tokens,
        pages=console,
    )
    stop = asyncio.Event()
    serving = asyncio.create_task(server.serve(stop))
    started = asyncio.create_task(server.started.wait())
    try:
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        yield Site(server, console, stage, verbs)
    finally:
        started.cancel()
        stop.set()
        await serving
        metrics.close()
