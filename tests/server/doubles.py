"""Doubles of what the server is given, and a server on a free port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from extender.server.access_rules import Rules
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server
from extender.server.metrics import Metrics
from extender.server.tokens import Tokens
from extender.settings.settings import ServerSettings
from extender.wire.bind_json import BindArgs, BindResult
from extender.wire.filter_json import FilterArgs, FilterResult, HostPriority
from extender.wire.preempt_json import PreemptArgs, PreemptResult


class Echo:
    """Verbs that keep what was asked and answer everything with itself.

    ``hook`` runs inside every call: raise in it, or wait in it.
    """

    def __init__(self) -> None:
        self.asked: list[FilterArgs | PreemptArgs] = []
        self.hook: Callable[[], Awaitable[None]] | None = None
        self.binds: list[BindArgs] = []
        self.left = 0
        self.stopped = asyncio.Event()

    async def _call(self, args: FilterArgs | PreemptArgs) -> None:
        self.asked.append(args)
        if self.hook is not None:
            await self.hook()

    async def filter(self, args: FilterArgs) -> FilterResult:
        await self._call(args)
        return FilterResult(args.node_names)

    async def prioritize(self, args: FilterArgs) -> list[HostPriority]:
        await self._call(args)
        return [HostPriority(name, 3) for name in args.node_names]

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        await self._call(args)
        return PreemptResult(args.candidates)

    async def bind(self, args: BindArgs, gone: Callable[[], Awaitable[None]]) -> BindResult:
        """Answer the name of the node; the node "held" is held until the caller leaves."""
        self.binds.append(args)
        if args.node == "held":
            waits = asyncio.ensure_future(gone())
            stopped = asyncio.create_task(self.stopped.wait())
            await asyncio.wait((waits, stopped), return_when=asyncio.FIRST_COMPLETED)
            left = waits.done()
            waits.cancel()
            stopped.cancel()
            await asyncio.gather(waits, stopped, return_exceptions=True)
            self.left += left
            return BindResult("left" if left else "stopping")
        if self.hook is not None:
            await self.hook()
        return BindResult(args.node)

    def stopping(self) -> None:
        self.stopped.set()

    def fail_with(self, error: Exception) -> None:
        async def fail() -> None:
            raise error

        self.hook = fail


class Gate:
    """A hook that holds calls until it is opened."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def __call__(self) -> None:
        self.entered.set()
        await self.opened.wait()


class Row(msgspec.Struct):
    name: str


class Source:
    """A debug source with a snapshot long enough to come in pieces."""

    def __init__(self) -> None:
        self.pods: Any = [Row(f"p{i}") for i in range(1201)]

    def decisions(self) -> list[dict[str, Any]]:
        return [{"gang": f"g{i}", "outcome": "plan"} for i in range(5)]

    def reservations(self) -> list[Row]:
        return [Row("seat")]

    def evictions(self) -> list[Row]:
        return [Row("unit")]

    def binds(self) -> list[Row]:
        return [Row("bind")]

    def limits(self) -> dict[str, object]:
        return {"suspended": []}

    def pods_named(self, name: str) -> list[Row]:
        return [Row(name)]

    def gangs(self) -> Iterable[Row]:
        return [Row("gang")]

    def watches(self) -> list[Row]:
        return [Row("watch")]

    def observed(self) -> dict[str, object]:
        return {"weeks": []}

    def snapshot(self, generation: int | None) -> dict[str, Any]:
        return {"generation": 4, "pods": self.pods, "nodes": {"n1": Row("n1")}}


class Running:
    """A server that serves, and everything it was given."""

    def __init__(
        self,
        settings: ServerSettings,
        certificate_check_seconds: float,
        tokens: Tokens | None,
        *,
        binds: bool,
    ) -> None:
        self.verbs = Echo()
        self.source = Source()
        self.reasons: list[str] = []
        self.dead: list[str] = []
        self.cold: list[str] = []
        self.metrics = Metrics()
        self.stop = asyncio.Event()
        self.server = Server(
            settings,
            self.verbs,
            self.source,
            Health(lambda: self.reasons, lambda: self.dead, lambda: self.cold),
            self.metrics,
            tokens=tokens,
            binds=binds,
            certificate_check_seconds=certificate_check_seconds,
        )

    def url(self, path: str) -> str:
        return self.server.url + path

    def door(self, rules: Rules) -> None:
        """Let requests in by these rules, on connections made from now on."""
        self.server.listeners[0].config.loaded_app = self.server.app.door(rules)


@asynccontextmanager
async def running(
    settings: ServerSettings | None = None,
    certificate_check_seconds: float = 5.0,
    tokens: Tokens | None = None,
    *,
    binds: bool = False,
) -> AsyncIterator[Running]:
    """Run a server for the length of a block; errors of the server come out of it."""
    settings = settings or ServerSettings(port=0, drain_seconds=5.0)
    one = Running(settings, certificate_check_seconds, tokens, binds=binds)
    serving = asyncio.create_task(one.server.serve(one.stop))
    started = asyncio.create_task(one.server.started.wait())
    try:
        await asyncio.wait((serving, started), return_when=asyncio.FIRST_COMPLETED)
        yield one
    finally:
        started.cancel()
        one.stop.set()
        if one.verbs.hook is not None and isinstance(one.verbs.hook, Gate):
            one.verbs.hook.opened.set()
        await serving
        one.metrics.close()
