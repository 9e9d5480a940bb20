"""The listening socket, the table of calls, and a stop that finishes what was begun."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import TypeAlias
from uuid import uuid4

import grpc
import structlog

from extender.gang.tell.what_ifs import WhatIfs
from extender.groups.markers import gang_keys
from extender.grpc_api import health, reflecting
from extender.grpc_api.calls import Calls, Handler
from extender.grpc_api.decision_watch import DecisionWatch
from extender.grpc_api.explain_calls import ExplainCalls
from extender.grpc_api.library_logs import leave_out_the_gone
from extender.grpc_api.message_reading import WINDOW, largest
from extender.grpc_api.planning import PlanCalls
from extender.grpc_api.rights import Rights, rules_of
from extender.grpc_api.rotating_tls import Rotating
from extender.grpc_api.seats import SeatBoard, SeatWatch
from extender.grpc_api.source import GrpcSource
from extender.grpc_api.verb_methods import VerbMethods
from extender.model.errors import InvalidInput
from extender.pb.podgroup.v1 import extender_pb2, plan_pb2, watch_pb2
from extender.server.tokens import AT_ONCE, MOST_WAITING
from extender.settings.grpc_address import parse

FILES = (extender_pb2, plan_pb2, watch_pb2)
"""Generated modules with services."""
SERVICES = frozenset(
    service.full_name for file in FILES for service in file.DESCRIPTOR.services_by_name.values()
)
BINDER = "podgroup.v1.ExtenderService"
SPARE = 64
"""Calls that may come beyond our own limits, to be told so."""
IDENTITY = 1
"""The set of compressions with none in it but "none": bits of grpc_compression_algorithm."""
SOCKET_MASK = 0o117
"""A Unix socket is for its owner and group."""
ABORT_SECONDS = 1.0
Handlers: TypeAlias = "dict[str, grpc.RpcMethodHandler[bytes, bytes]]"


class GrpcServer:
    """Serves gRPC until told to stop. ``address`` is set once it listens (port 0: a free one)."""

    def __init__(self, source: GrpcSource) -> None:
        self._source = source
        settings = source.settings
        self.address = parse(settings.grpc.listen)
        rights = Rights(rules_of(settings), source.tokens)
        self.calls = Calls(source.metrics, settings, rights, source.load)
        limits = self.calls.beside_limits
        self._health = health.HealthCalls(source.health.ready, SERVICES, limits)
        names = (*sorted(SERVICES), health.SERVICE, reflecting.SERVICE)
        self._reflection = reflecting.Reflection(names, limits)
        self._what_ifs = WhatIfs(settings, source.present().resolver, source.read_manifest)
        source.metrics.source("grpc_streams", "Watches open.", self.calls.streams, label="watch")

    @contextlib.asynccontextmanager
    async def running(self, stop: asyncio.Event) -> AsyncIterator[None]:
        """Serve for the length of a block, and drain as soon as ``stop`` is set.

        Raises InvalidInput when the address or the files cannot be used.
        """
        leave_out_the_gone()
        server = self._listen()
        log = structlog.get_logger()
        await server.start()
        log.info("serving gRPC", address=self.address.target)
        draining = asyncio.create_task(self._drain_at(stop, server))
        try:
            yield
        finally:
            stop.set()
            await draining
            self._what_ifs.close()

    async def _drain_at(self, stop: asyncio.Event, server: grpc.aio.Server) -> None:
        await stop.wait()
        self._health.drain()
        self._source.verbs.stopping()
        await self.calls.drain(self._source.settings.server.drain_seconds)
        # What was cut off still tells its caller so.
        await server.stop(ABORT_SECONDS)

    def _listen(self) -> grpc.aio.Server:
        settings = self._source.settings
        limits = settings.grpc
        beside = 2 * health.MOST + reflecting.MOST
        held = settings.bind.max_held if settings.bind.enabled else 0
        # Whoever waits for a token's review has a place of the library's, and no verb's.
        reviews = MOST_WAITING + AT_ONCE
        most = limits.max_calls + limits.max_streams + beside + SPARE + held + reviews
        server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", largest(settings)),
                ("grpc.max_send_message_length", -1),
                # A packed message is unpacked before its size is looked at.
                ("grpc.compression_enabled_algorithms_bitset", IDENTITY),
                ("grpc.per_message_decompression", 0),
                # What comes of a message before it is read; the library's own is 4 MiB and grows.
                ("grpc.http2.lookahead_bytes", WINDOW),
                ("grpc.http2.bdp_probe", 0),
                ("grpc.max_metadata_size", settings.server.max_header_bytes),
                ("grpc.absolute_max_metadata_size", settings.server.max_header_bytes),
                ("grpc.max_allowed_incoming_connections", settings.server.max_connections),
                ("grpc.server_handshake_timeout_ms", int(settings.server.head_seconds * 1000)),
                ("grpc.max_connection_idle_ms", settings.server.keep_alive_seconds * 1000),
                # Calls that the library holds for us to take, each with a WINDOW at most.
                ("grpc.server.max_pending_requests", most),
                ("grpc.server.max_pending_requests_hard_limit", 2 * most),
                # Two processes on one port would share its callers.
                ("grpc.so_reuseport", 0),
                ("grpc.max_concurrent_streams", most),
                # A caller that has vanished is noticed.
                ("grpc.keepalive_time_ms", 30_000),
                ("grpc.keepalive_timeout_ms", 20_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
            ),
            maximum_concurrent_rpcs=most,
        )
        for service, handlers in self._handlers().items():
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler(service, handlers),)
            )
        self._bind(server)
        return server

    def _bind(self, server: grpc.aio.Server) -> None:
        address, files = self.address, self._source.settings.grpc_tls
        mask = os.umask(SOCKET_MASK) if address.path else None
        try:
            if address.path or not files[0]:
                port = server.add_insecure_port(address.target)
            else:
                credentials = Rotating(*files, self._source.metrics).credentials()
                port = server.add_secure_port(address.target, credentials)
        except RuntimeError as error:
            raise InvalidInput(
                f"cannot listen on {address.target}: {error}", "grpc.listen"
            ) from None
        finally:
            if mask is not None:
                os.umask(mask)
        if not address.path:
            self.address = type(address)(host=address.host, port=port)

    def _handlers(self) -> dict[str, Handlers]:
        """Return service -> method -> handler. A method without one is a KeyError here."""
        source, calls = self._source, self.calls
        board = SeatBoard(source.present, uuid4().hex[:12])
        verbs, plans = VerbMethods(source.verbs, calls, board), PlanCalls(source, self._what_ifs)
        keys = gang_keys(source.settings.groups)
        found = {
            "Filter": calls.unary("filter", verbs.filter),
            "Prioritize": calls.unary("prioritize", verbs.prioritize),
            "Preempt": calls.unary("preempt", verbs.preempt),
            "Bind": calls.unary("bind", verbs.bind),
            "Plan": calls.unary("plan", plans.plan, "/debug/snapshot"),
            "Explain": calls.unary("explain", ExplainCalls(source).explain, "/debug/gangs"),
            # A scheduler that mirrors the seats is a caller of the verbs.
            "WatchSeats": calls.stream("watch-seats", SeatWatch(source, board, keys).watch),
            "WatchDecisions": calls.stream(
                "watch-decisions", DecisionWatch(source).watch, "/debug/decisions"
            ),
        }
        services: dict[str, dict[str, Handler]] = {
            service.full_name: {method.name: found[method.name] for method in service.methods}
            for file in FILES
            for service in file.DESCRIPTOR.services_by_name.values()
        }
        if not source.settings.bind.enabled:
            del services[BINDER]["Bind"]
        services[health.SERVICE] = {
            "Check": calls.beside("health", health.MOST, self._health.check),
            "Watch": calls.beside("health", health.MOST, self._health.watch),
        }
        services[reflecting.SERVICE] = {
            "ServerReflectionInfo": calls.beside(
                "reflection", reflecting.MOST, self._reflection.answer, reflecting.PAGE
            )
        }
        # Every call is taken as a stream each way: so a message is read when we ask for it, and
        # the writing of an answer can be given up. Callers see no difference.
        return {
            service: {
                method: grpc.stream_stream_rpc_method_handler(handler)
                for method, handler in methods.items()
            }
            for service, methods in services.items()
        }
