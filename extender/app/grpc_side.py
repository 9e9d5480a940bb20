"""``serve`` with gRPC: what the gRPC room asks of this process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from extender.app.replica import Replica
from extender.cache.cache import Cache
from extender.check import documents
from extender.gang.tell.decisions import Decision
from extender.gang.tell.verdicts import Verifier
from extender.server.diagnostics import Health
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.server.tokens import Tokens
from extender.server.verb_calls import Verbs
from extender.settings.settings import Settings


class GrpcSide:
    """Nothing at all unless ``grpc.listen`` is set: not even the libraries are loaded."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.decided: Callable[[Decision], None] = lambda decision: None
        """To be told of each decision."""
        if settings.grpc.listen:
            from extender.grpc_api.decision_feed import DecisionFeed

            self._decisions = DecisionFeed()
            self.decided = self._decisions.add

    @contextlib.asynccontextmanager
    async def running(
        self,
        stop: asyncio.Event,
        verbs: Verbs,
        replica: Replica,
        cache: Cache,
        health: Health,
        metrics: Metrics,
        load: Load,
        tokens: Tokens,
    ) -> AsyncIterator[None]:
        """Serve gRPC for the length of a block, and drain when ``stop`` is set.

        Raises InvalidInput when nothing can be served as configured.
        """
        if not self._settings.grpc.listen:
            yield
            return
        from extender.grpc_api.server import GrpcServer
        from extender.grpc_api.source import GrpcSource

        source = GrpcSource(
            settings=self._settings,
            verbs=verbs,
            present=lambda: replica.verbs.context,
            pod_named=cache.pod_named,
            health=health,
            metrics=metrics,
            decisions=self._decisions,
            read_manifest=_read_manifest,
            load=load,
            tokens=tokens,
        )
        async with GrpcServer(source).running(stop):
            yield


def verifier(settings: Settings, cache: Cache) -> Verifier | None:
    """Return who is asked before pods are evicted."""
    if not settings.verifier.address:
        return None
    from extender.grpc_api.verifier_client import VerifierClient

    return VerifierClient(settings.verifier, cache.changed)


def _read_manifest(text: str, source: str) -> list[object]:
    return [document.value for document in documents.parse(text, source, aliases=False)]
