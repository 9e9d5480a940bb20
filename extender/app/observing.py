"""``serve`` with ``mode: observe``: a process of its own kind, in which nothing can write.

It has a client that reads only (kube.read_only) and none of what acts: no coordinator, no records,
no lease, no review of tokens. An import contract keeps it so (pyproject.toml). The verbs answer
from the first moment on, whatever the state of the cache: to pass everything on needs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import structlog

from extender.app import cache_metrics, observe_metrics
from extender.app.observe_debug import ObserveDebug
from extender.app.observe_page import observe_page
from extender.cache.cache import Cache
from extender.cache.feed import Change, ChangeKind
from extender.console.console import Console
from extender.decode.metadata import keep_annotations
from extender.gang.controller.rounds import Heartbeats
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Decision
from extender.gang.tell.decisions_per_day import Days
from extender.groups.markers import waits_for_jobs
from extender.groups.resolver import Resolver
from extender.kube.read_only import ReadOnlyClient
from extender.model.errors import NotReady
from extender.model.objects import Pod
from extender.observe.file import LedgerFile
from extender.observe.observe_verbs import ObserveVerbs
from extender.observe.observer import LOOPS, Observer
from extender.observe.sums import Ledger
from extender.search.solver import BACKEND
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server, stop_on_signals
from extender.server.logs import log_decision
from extender.server.metrics import Metrics
from extender.settings.custom_groups import custom_annotations
from extender.settings.settings import Settings

log = structlog.get_logger("observe")
FILLING = "filling"
SYNC_REPORT = 10.0
BOUNDS = {FILLING: 120.0}


async def observe(settings: Settings, kubeconfig: str | None) -> None:
    """Run until a signal. Raises InvalidInput when nothing can be served as configured."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with await ReadOnlyClient.connect(kubeconfig, limits=settings.api) as client:
        metrics = Metrics()
        metrics.search_backend(BACKEND)
        keep_annotations(custom_annotations(settings.groups.custom))
        watching = Watching(client, settings, metrics)
        cache, observer = watching.cache, watching.observer
        cache_metrics.expose(metrics, cache)
        observe_metrics.expose(metrics, observer, watching.file)
        health = Health(lambda: [], watching.heartbeats.late, watching.cold)
        debug = ObserveDebug(cache, cache.describe, observer, watching.file, settings)
        page = observe_page(cache, observer, watching.file, settings, watching.days, watching.cold)
        server = Server(
            settings.server, ObserveVerbs(observer), debug, health, metrics, pages=Console(page)
        )
        log.info("observing: nothing is done", api_server=client.server, search=BACKEND)
        async with watching.running(stop):
            await server.serve(stop)


class Watching:
    """The cache and the observer on it, for the life of the process."""

    def __init__(self, client: ReadOnlyClient, settings: Settings, metrics: Metrics) -> None:
        def decided(decision: Decision) -> None:
            metrics.decided(decision.code or decision.outcome)
            log_decision(decision)
            self.days.add(decision)

        self._settings = settings
        clocks = Clocks()
        self.days = Days(clocks.wall())
        resolver = Resolver(settings.groups)
        self.heartbeats = Heartbeats(BOUNDS)
        self.cache = Cache(
            client,
            settings.cache,
            resolver.member_key,
            all_jobs=waits_for_jobs(settings.groups),
            workload_priority=settings.groups.workload_priority,
        )
        ledger = Ledger(settings.observe.weeks, settings.observe.gangs_per_week)
        self.file = LedgerFile(settings.observe.file, ledger, clocks.wall)
        self.file.read()
        self.observer = Observer(
            self.cache,
            self.cache.pod,
            settings,
            resolver,
            ledger,
            clocks=clocks,
            heartbeats=self.heartbeats,
            decided=decided,
        )
        self.cache.subscribe(self._seen)

    def _seen(self, change: Change) -> None:
        if change.kind is ChangeKind.POD:
            old, new = cast("Pod | None", change.old), cast("Pod | None", change.new)
            try:
                self.observer.observe(old, new)
            except Exception:  # what is not observed must not keep the cache from being right
                log.exception("a pod's change was not observed")

    def cold(self) -> list[str]:
        """Return why what is observed now would be wrong."""
        if not self.cache.synced:
            return [self.cache.problem()]
        if self.observer.stale():
            return [f"the cache is stale: {self.cache.problem()}"]
        return []

    @contextlib.asynccontextmanager
    async def running(self, stop: asyncio.Event) -> AsyncIterator[None]:
        """Follow the cluster and observe, for the length of a block."""
        seconds = self._settings.observe.save_seconds
        tasks = [
            asyncio.create_task(self._supervised("observing", lambda: self._observe(stop), stop)),
            asyncio.create_task(
                self._supervised("file", lambda: self.file.keep(stop, seconds), stop)
            ),
        ]
        try:
            yield
        finally:
            stop.set()
            self.observer.close()
            tasks[0].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.cache.stop()

    async def _observe(self, stop: asyncio.Event) -> None:
        await self.cache.start()
        while not self.cache.synced:
            self.heartbeats.beat(FILLING)
            try:
                await self.cache.wait_synced(SYNC_REPORT)
            except NotReady as reason:
                log.warning("still waiting", reason=str(reason))
        self.heartbeats.rest(FILLING)
        self.observer.begin()
        log.info("caches are filled", nodes=len(self.cache.snapshot().nodes))
        await self.observer.run(stop)

    async def _supervised(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event
    ) -> None:
        """Run ``work``; that it ends before the stop is an error, never a silence."""
        why = "it returned"
        try:
            await work()
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            log.exception("work that may not end has failed", what=name)
        if not stop.is_set():
            self.heartbeats.died(name, why)
        for loop in LOOPS:
            self.heartbeats.rest(loop)
