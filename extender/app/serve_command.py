"""``serve``: the extender itself.

Order of starting: listen (not ready), fill the cache, get the lease, read the
plan records of a life before, then be ready and decide. Order of stopping: not
ready, finish calls under way, stop acting; of several replicas one stops acting
first, so that another leads at once. Plans under way stay recorded either way.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import structlog
import uvloop
from msgspec.structs import replace

from extender.app import cache_metrics, descriptors, grpc_side
from extender.app.console_source import console_source
from extender.app.debug_source import DebugView
from extender.app.grpc_side import GrpcSide
from extender.app.process_end import leave_behind
from extender.app.replica import Replica
from extender.app.replica_metrics import expose_bindings, expose_limits, expose_reports
from extender.app.status_source import StatusSource, told_in_a_map
from extender.app.traces import Traces
from extender.cache.cache import Cache
from extender.check import config
from extender.check.listener_rules import require_closed
from extender.cli.exit_statuses import BAD_INPUT, OK, UNREACHED, statuses
from extender.cli.number_flags import listening_port
from extender.cli.output import error
from extender.console.console import Console
from extender.decode.metadata import keep_annotations
from extender.gang.controller.coordinator import Coordinator, coordinate
from extender.gang.controller.rounds import Heartbeats
from extender.gang.leader_election.elector import Elector
from extender.gang.leader_election.lease import LeaderLabel, Leadership
from extender.gang.runtime.signature import read_key
from extender.gang.tell.decisions import Decision
from extender.gang.tell.decisions_per_day import Days
from extender.gang.tell.last_hour import Lately
from extender.gang.tell.listener import Listener, Removal
from extender.gang.tell.preemption_state import PreemptionState
from extender.groups.markers import waits_for_jobs
from extender.groups.resolver import Resolver
from extender.kube.api_errors import ApiError
from extender.kube.client import KubeClient
from extender.model.errors import ExtenderError, InvalidInput
from extender.model.plan import Victim
from extender.search.solver import BACKEND
from extender.server.diagnostics import Health
from extender.server.lifecycle import Server, stop_on_signals
from extender.server.limits import Load
from extender.server.logs import configure_logs, log_decision
from extender.server.metrics import Metrics
from extender.server.tokens import Tokens
from extender.settings.custom_groups import custom_annotations
from extender.settings.mode import OBSERVE
from extender.settings.settings import LeadershipSettings, Settings
from extender.settings.settings_rules import validate
from extender.verbs.leading import LeadersVerbs

log = structlog.get_logger("serve")
UNREACHABLE = " 3: the API server was not reached or refused what serve cannot do without."
SWITCH_SECONDS = 0.0005
"""The interpreter changes threads this often when both want it. A plan is partly Python: at
CPython's 5 ms a verb answered meanwhile waits as long for its turn, several times over."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Register the command and its options."""
    parser = subparsers.add_parser(
        "serve",
        help="run the extender",
        description="Serve the extender verbs and act on gangs until SIGTERM or SIGINT.",
        epilog=statuses(ok="stopped by a signal") + UNREACHABLE,
    )
    parser.add_argument("--config", type=Path, help="configuration (YAML)")
    parser.add_argument("--kubeconfig", help="default: in-cluster, else $KUBECONFIG")
    parser.add_argument("--host", help="overrides server.host")
    parser.add_argument("--port", type=listening_port, help="overrides server.port")
    parser.add_argument("--health-port", type=listening_port, help="overrides server.healthPort")
    parser.add_argument(
        "--allow-open-port",
        action="store_true",
        help="with server.allowOpenPort: serve the verbs to every caller that reaches the port",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until told to stop; return the exit status."""
    try:
        settings = config.load(args.config)
        overrides = {
            key: value
            for key in ("host", "port", "health_port")
            if (value := getattr(args, key)) is not None
        }
        settings = replace(settings, server=replace(settings.server, **overrides))
        validate(settings)
        require_closed(settings.server, allowed=args.allow_open_port)
        configure_logs(settings.server.log_level)
        sys.setswitchinterval(SWITCH_SECONDS)
        if settings.bind.enabled:
            descriptors.allow(settings.bind.max_held)
        if settings.mode == OBSERVE:
            from extender.app.observing import observe

            uvloop.run(observe(settings, args.kubeconfig))
        else:
            uvloop.run(serve(settings, args.kubeconfig))
        for handler in logging.getLogger().handlers:
            handler.flush()
        leave_behind(0)
    except ExtenderError as problem:
        error(problem)
        return BAD_INPUT if isinstance(problem, InvalidInput) else UNREACHED
    return OK


async def serve(settings: Settings, kubeconfig: str | None) -> None:
    """Run until a signal. Raises InvalidInput when nothing can be served as configured."""
    record_key = read_key(settings.seats.record_key_file)
    stop = asyncio.Event()
    stop_on_signals(stop)
    async with await KubeClient.connect(kubeconfig, limits=settings.api) as client:
        metrics = Metrics()
        metrics.search_backend(BACKEND)
        keep_annotations(custom_annotations(settings.groups.custom))
        resolver = Resolver(settings.groups)
        cache = _cache(client, settings, resolver)
        namespace = settings.seats.record_namespace or client.namespace or "kube-system"
        grpc = GrpcSide(settings)
        days = Days(time.time())
        lately = Lately()
        elector = _elector(client, settings.leadership, namespace)
        traces = Traces(settings, elector.identity if elector else socket.gethostname())
        told = (grpc.decided, days.add, lately.decided, traces.decided)
        listener = Heard(metrics, lately, told)
        verifier = grpc_side.verifier(settings, cache)

        def make(leadership: Leadership, heartbeats: Heartbeats) -> Coordinator:
            return coordinate(
                client,
                cache,
                settings,
                resolver,
                namespace,
                record_key=record_key,
                leadership=leadership,
                heartbeats=heartbeats,
                listener=listener,
                verifier=verifier,
            )

        label = _label(client, settings.leadership)
        replica = Replica(cache, settings, make, elector, label)
        _expose(metrics, client, cache, replica)
        traces.follow(cache, replica, metrics)
        verbs = LeadersVerbs(lambda: replica.verbs, replica.leadership)
        health = Health(replica.not_ready, replica.heartbeats.late, replica.cold)
        debug = DebugView(cache, cache.describe, lambda: replica.coordinator, settings)
        load, tokens = Load(settings.server), Tokens(client)
        source = console_source(cache, replica, resolver, settings, days)
        console = Console(source)
        status = StatusSource(cache, replica, settings, source, console.worker, lately)
        server = Server(
            settings.server,
            verbs,
            debug,
            health,
            metrics,
            tokens=tokens,
            load=load,
            binds=settings.bind.enabled,
            pages=console,
        )
        log.info("starting", api_server=client.server, search=BACKEND)
        async with (
            traces.running(),
            replica.running(stop),
            grpc.running(stop, verbs, replica, cache, health, metrics, load, tokens),
            told_in_a_map(client, namespace, settings, replica.leadership, status, days),
        ):
            await server.serve(stop)


def _cache(client: KubeClient, settings: Settings, resolver: Resolver) -> Cache:
    return Cache(
        client,
        settings.cache,
        resolver.member_key,
        all_jobs=waits_for_jobs(settings.groups),
        workload_priority=settings.groups.workload_priority,
    )


class Heard(Listener):
    """What happens while plans are carried out goes to metrics, logs, the console and gRPC."""

    def __init__(
        self, metrics: Metrics, lately: Lately, told: Iterable[Callable[[Decision], None]]
    ) -> None:
        self._metrics = metrics
        self._lately = lately
        self._told = told

    def decided(self, decision: Decision) -> None:
        """Count, log and tell a decision."""
        self._metrics.decided(decision.code or decision.outcome)
        log_decision(decision)
        for tell in self._told:
            tell(decision)

    def evicted(self, ended: Removal, victim: Victim | None = None) -> None:
        """Count how an eviction ended, and the work that is lost by it."""
        self._metrics.evicted(ended)
        if victim is not None:
            self._metrics.lost(victim.namespace, victim.priority, victim.lost)
        self._lately.evicted(ended, time.time())

    def failed(self, what: str, error: ApiError) -> None:
        """Log and count a write that did not work."""
        super().failed(what, error)
        self._lately.failed(what, error, time.time())


def _elector(client: KubeClient, settings: LeadershipSettings, records: str) -> Elector | None:
    if not settings.enabled:
        return None
    identity = settings.identity or f"{socket.gethostname()}_{uuid.uuid4()}"
    return Elector(client, settings, settings.namespace or records, identity)


def _label(client: KubeClient, settings: LeadershipSettings) -> LeaderLabel | None:
    if not (settings.enabled and settings.label_pod):
        return None
    return LeaderLabel(client, client.namespace, socket.gethostname())


def _expose(metrics: Metrics, client: KubeClient, cache: Cache, replica: Replica) -> None:
    def states() -> dict[str, float]:
        counts = {
            state.value: 0.0 for state in PreemptionState if state is not PreemptionState.ENDED
        }
        for preemption in replica.coordinator.reservations:
            counts[preemption.state.value] += 1
        return counts

    metrics.source(
        "api_writes_waiting",
        "Writes to the API server that wait for their turn.",
        client.gate.waiting,
        label="urgency",
    )
    metrics.source(
        "preemptions", "Plans that are being carried out, by state.", states, label="state"
    )
    metrics.source(
        "broken_gangs",
        "Victim gangs that were evicted in part and whose rest cannot be evicted.",
        lambda: {"all": float(len(replica.coordinator.plans.victims.broken()))},
        label="of",
    )
    metrics.source(
        "seats_held",
        "Reservations that are not used yet.",
        lambda: {"all": float(len(replica.coordinator.reservations.holds()))},
        label="of",
    )
    expose_reports(metrics, replica)
    expose_limits(metrics, replica)
    expose_bindings(metrics, replica)
    metrics.source("mode", "What this process does.", lambda: {"enforce": 1.0}, label="mode")
    leadership = replica.leadership
    metrics.source(
        "leader",
        "Whether this replica leads.",
        lambda: {leadership.identity: float(leadership.acts)},
        label="identity",
    )
    metrics.source(
        "leader_epoch",
        "Transitions of the lease when this replica last got it.",
        lambda: {leadership.identity: float(leadership.epoch)},
        label="identity",
        counter=True,
    )
    cache_metrics.expose(metrics, cache)
