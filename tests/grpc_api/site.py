"""A gRPC server around doubles or a rig, and callers of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc

from extender.check import documents
from extender.grpc_api.decision_feed import DecisionFeed
from extender.grpc_api.server import GrpcServer
from extender.grpc_api.source import GrpcSource
from extender.pb.podgroup.v1 import extender_pb2_grpc, plan_pb2_grpc, watch_pb2_grpc
from extender.server.diagnostics import Health
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.server.tokens import Tokens
from extender.server.verb_calls import Verbs
from extender.settings.settings import GrpcSettings, Settings
from extender.verbs.context import Context
from tests.gang.rig import Rig

LOCAL = GrpcSettings(listen="127.0.0.1:0")


class Callers:
    """Stubs on one channel; ``raw`` and ``raw_stream`` send bytes as they are."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.channel = channel
        self.raw: Callable[..., Any] = channel.unary_unary
        self.raw_stream: Callable[..., Any] = channel.unary_stream
        self.extender = extender_pb2_grpc.ExtenderServiceStub(channel)
        self.plan = plan_pb2_grpc.PlanServiceStub(channel)
        self.watch = watch_pb2_grpc.WatchServiceStub(channel)


class Site:
    """A server that serves, and everything it was given."""

    def __init__(
        self,
        settings: Settings,
        verbs: Verbs,
        context: Callable[[], Context],
        pod_named: Any,
        tokens: Tokens | None,
    ) -> None:
        self.load = Load(settings.server)
        self.reasons: list[str] = []
        self.metrics = Metrics()
        self.feed = DecisionFeed()
        self.stop = asyncio.Event()
        self.server = GrpcServer(
            GrpcSource(
                settings=settings,
                verbs=verbs,
                present=context,
                pod_named=pod_named,
                health=Health(lambda: self.reasons),
                metrics=self.metrics,
                decisions=self.feed,
                read_manifest=lambda text, source: [
                    each.value for each in documents.parse(text, source, aliases=False)
                ],
                load=self.load,
                tokens=tokens,
            )
        )

    @property
    def target(self) -> str:
        return self.server.address.target

    def scrape(self) -> str:
        return self.metrics.render("")[0].decode()


@asynccontextmanager
async def serving(
    verbs: Verbs,
    settings: Settings | None = None,
    context: Any = None,
    pod_named: Any = None,
    tokens: Tokens | None = None,
) -> AsyncIterator[Site]:
    """Run a server for the length of a block."""
    site = Site(settings or Settings(grpc=LOCAL), verbs, context or _nobody, pod_named, tokens)
    async with site.server.running(site.stop):
        yield site
    site.metrics.close()


@asynccontextmanager
async def serving_rig(rig: Rig, settings: Settings | None = None) -> AsyncIterator[Site]:
    """Run a server around a rig's verbs."""
    async with serving(
        rig.verbs,
        settings,
        lambda: rig.verbs.context,
        lambda namespace, name: rig.cache.pod_named(namespace, name),
    ) as site:
        yield site


@asynccontextmanager
async def calling(target: str, credentials: Any = None) -> AsyncIterator[Callers]:
    """Stubs for the length of a block."""
    options = [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        # The window stays at 64 KiB: a reader that does not read is slow at once.
        ("grpc.http2.bdp_probe", 0),
    ]
    channel = (
        grpc.aio.insecure_channel(target, options)
        if credentials is None
        else grpc.aio.secure_channel(target, credentials, options)
    )
    async with channel:
        yield Callers(channel)


class _Nobody:
    resolver = None


def _nobody() -> Context:
    return cast("Context", _Nobody())
