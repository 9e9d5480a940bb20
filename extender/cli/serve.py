"""``serve``: the extender itself.

Order of starting: listen (not ready), fill the cache, read the plan records of
a life before, then be ready and decide. Order of stopping: not ready, finish
calls in flight, stop acting. Plans in flight stay recorded either way.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from pathlib import Path
from typing import Any, cast

import structlog
import uvloop
from msgspec.structs import replace

from extender.cache.cache import Cache
from extender.cache.feed import Change
from extender.cli import config
from extender.cli.debug_source import DebugView
from extender.gang.act.book import State
from extender.gang.act.coordinator import Coordinator
from extender.gang.act.wiring import coordinate
from extender.gang.tell.decisions import Decision
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.kube.errors import ApiError
from extender.model.errors import ExtenderError, InvalidInput, NotReady
from extender.model.objects import Pod
from extender.model.settings import Settings
from extender.search.solver import BACKEND
from extender.server.lifecycle import Server, stop_on_signals
from extender.server.logs import configure_logs, log_decision
from extender.server.metrics import Metrics
from extender.verbs.spare import Spare
from extender.verbs.verbs import ExtenderVerbs

log = structlog.get_logger("serve")
RECOVERY_PAUSE = 1.0
SWITCH_SECONDS = 0.0005
"""The interpreter changes threads this often when both want it. A plan is partly Python: at
CPython's 5 ms a verb answered meanwhile waits as long for its turn, several times over."""
SYNC_REPORT = 10.0
"""Seconds between log lines that say what is not synced yet."""


CACHE_METRICS = (
    ("cache_lists", "lists", "Full lists read.", True),
    ("cache_watches", "watches", "Watches opened.", True),
    ("cache_events", "events", "Watch events applied.", True),
    ("cache_errors", "errors", "Lists and watches that failed.", True),
    ("cache_silent_seconds", "silentSeconds", "How long a watch has been down.", False),
    ("cache_sync_seconds", "syncSeconds", "How long the last full read took.", False),
)


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "serve",
        help="run the extender",
        description="Serve the extender verbs and act on gangs until SIGTERM or SIGINT.",
    )
    parser.add_argument("--config", type=Path, help="configuration (YAML)")
    parser.add_argument("--kubeconfig", help="default: in-cluster, else $KUBECONFIG")
    parser.add_argument("--host", help="overrides server.host")
    parser.add_argument("--port", type=int, help="overrides server.port")


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; return the exit status."""
    try:
        settings = config.load(args.config)
        overrides = {
            key: value for key in ("host", "port") if (value := getattr(args, key)) is not None
        }
        settings = replace(settings, server=replace(settings.server, **overrides))
        configure_logs(settings.server.log_level)
        sys.setswitchinterval(SWITCH_SECONDS)
        uvloop.run(serve(settings, args.kubeconfig))
    except ExtenderError as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2 if isinstance(problem, InvalidInput) else 1
    return 0


async def serve(settings: Settings, kubeconfig: str | None) -> None:
    """Run until a signal. Raises InvalidInput when nothing can be served as configured."""
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with await KubeClient.connect(kubeconfig) as client:
        resolver = Resolver(settings.groups)
        metrics = Metrics()
        metrics.search_backend(BACKEND)
        cache = Cache(client, settings.cache, resolver.member_key)
        coordinator = _coordinator(client, cache, settings, resolver, metrics)
        cache.subscribe(lambda change: _observe(coordinator, change))
        spare = Spare(coordinator.book, cache, time.monotonic)
        verbs = ExtenderVerbs(cache, coordinator, spare, settings)
        _expose(metrics, cache, coordinator)

        def not_ready() -> list[str]:
            reasons = []
            if not cache.synced:
                reasons.append(cache.problem())
            if not coordinator.recovered:
                reasons.append("plan records are not read")
            return reasons

        view = DebugView(cache, coordinator, settings)
        server = Server(settings.server, verbs, view, not_ready, metrics)
        log.info("starting", api_server=client.server, search=BACKEND)
        acting = asyncio.create_task(_act(cache, coordinator, stop))
        try:
            await server.serve(stop)
        finally:
            stop.set()
            acting.cancel()
            await asyncio.gather(acting, return_exceptions=True)
            gc.enable()
            await coordinator.close()
            await cache.stop()


def _observe(coordinator: Coordinator, change: Change) -> None:
    if change.kind == "pod":
        # The kind tells both types; asking for them again costs more than all the rest.
        coordinator.observe(cast("Pod | None", change.old), cast("Pod | None", change.new))


def _coordinator(
    client: KubeClient, cache: Cache, settings: Settings, resolver: Resolver, metrics: Metrics
) -> Coordinator:
    def decided(decision: Decision) -> None:
        metrics.decided(decision.code or decision.outcome)
        log_decision(decision)

    namespace = settings.seats.record_namespace or client.namespace or "kube-system"
    return coordinate(
        client, cache, settings, resolver, namespace, decided=decided, evicted=metrics.evicted
    )


def _settle_memory() -> None:
    """What was just read or summed up lives long: no collector pass over it, ever."""
    gc.freeze()
    gc.enable()


async def _act(cache: Cache, coordinator: Coordinator, stop: asyncio.Event) -> None:
    """Fill the cache, recover, then look after gangs until the stop."""
    # Nothing of the first reading is garbage: at 150,000 pods the collector took 0.6 s to see
    # that, over and over. It goes on as soon as something does not work at the first try.
    gc.disable()
    await cache.start()
    while not cache.synced:
        try:
            await cache.wait_synced(SYNC_REPORT)
        except NotReady as reason:
            gc.enable()
            log.warning("still waiting", reason=str(reason))
    while not coordinator.recovered:
        try:
            await coordinator.recover()
        except ApiError as error:
            gc.enable()
            log.warning("plan records cannot be read, trying again", error=str(error))
            await asyncio.sleep(RECOVERY_PAUSE)
    _settle_memory()
    log.info("ready", nodes=len(cache.snapshot().nodes), plans=len(coordinator.book))
    await coordinator.run(stop)


def _expose(metrics: Metrics, cache: Cache, coordinator: Coordinator) -> None:
    def states() -> dict[str, float]:
        counts = {state.value: 0.0 for state in State if state is not State.ENDED}
        for flight in coordinator.book:
            counts[flight.state.value] += 1
        return counts

    metrics.source("plans_in_flight", "Plans in flight, by state.", states, label="state")
    metrics.source(
        "broken_gangs",
        "Victim gangs that have gone in part and whose rest cannot be evicted.",
        lambda: {"all": float(len(coordinator.flights.evictions.broken()))},
        label="of",
    )
    metrics.source(
        "seats_held",
        "Seats promised and not taken yet.",
        lambda: {"all": float(len(coordinator.book.holds()))},
        label="of",
    )
    for name, field, documentation, counter in CACHE_METRICS:
        metrics.source(
            name,
            documentation,
            lambda field=field: {  # type: ignore[misc]
                entry["resource"]: float(entry[field]) for entry in cache.describe()
            },
            label="resource",
            counter=counter,
        )
