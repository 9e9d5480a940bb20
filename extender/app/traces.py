"""``serve`` with traces: who tells of lives, and where they go."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, cast

import structlog

from extender.app.replica import Replica
from extender.cache.cache import Cache
from extender.cache.feed import Change, ChangeKind
from extender.gang.controller.coordinator import Coordinator
from extender.gang.tell.decisions import Decision, Outcome
from extender.gang.tell.gang_traces import Flown, Life, LifeOutcome, Lives
from extender.model.errors import InvalidInput
from extender.model.objects import GangKey, Pod
from extender.server.metrics import Metrics
from extender.settings.settings import Settings

if TYPE_CHECKING:
    from extender.app.otlp import Otlp

log = structlog.get_logger("traces")

LAST_SECONDS = 2.0
"""How long a stop waits until what is left has been sent."""
LOOK_SECONDS = 0.02


class Traces:
    """Nothing at all unless ``tracing.endpoint`` is set: not even the library is loaded.

    Raises InvalidInput when the library is missing, or a file cannot be read.
    """

    def __init__(self, settings: Settings, identity: str) -> None:
        self._otlp: Otlp | None = None
        self._lives: Lives | None = None
        self._replica: Replica | None = None
        self._term: Coordinator | None = None
        if not settings.tracing.endpoint:
            return
        try:
            from extender.app.otlp import Otlp
        except ImportError as missing:
            raise InvalidInput(
                f"needs OpenTelemetry, which is not installed ({missing}): pip install "
                "'podgroup-extender[otel]', or leave it out",
                "tracing.endpoint",
            ) from None
        self._otlp = Otlp(settings.tracing, identity)

    def follow(self, cache: Cache, replica: Replica, metrics: Metrics) -> None:
        """Begin to listen, before anything is decided."""
        if self._otlp is None:
            return
        self._replica = replica
        self._lives = Lives(
            self._over,
            lambda key: key in cache.snapshot().members,
            time.time,
            time.monotonic,
        )
        cache.subscribe(self._observe)
        metrics.source(
            "trace_spans",
            "Spans of gangs' traces, by what became of them.",
            self._otlp.counts,
            label="result",
            counter=True,
        )

    def decided(self, decision: Decision) -> None:
        """Take note of a decision."""
        if self._lives is None:
            return
        self._of_this_term(self._lives)
        self._lives.decided(decision)
        if decision.outcome is Outcome.PLAN:
            # Its preemption begins in this same turn of the event loop.
            asyncio.get_running_loop().call_soon(self._flying, decision.gang)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """For the length of a block; then send what is left, as far as that goes quickly."""
        try:
            yield
        finally:
            if self._otlp is not None:
                if self._lives is not None:
                    self._of_this_term(self._lives)
                    self._lives.close(LifeOutcome.STOPPED)
                thread, left = self._otlp.close(), LAST_SECONDS
                while thread.is_alive() and left > 0:
                    await asyncio.sleep(LOOK_SECONDS)
                    left -= LOOK_SECONDS

    def _of_this_term(self, lives: Lives) -> None:
        """End what a term before was at: another leader, or the next term, goes on with it."""
        if self._replica is not None and self._replica.coordinator is not self._term:
            if self._term is not None:
                lives.close(LifeOutcome.LEASE_LOST)
            self._term = self._replica.coordinator

    def _flying(self, gang: str) -> None:
        if self._lives is None or self._replica is None:
            return
        preemption = self._replica.coordinator.reservations.get(GangKey.read(gang))
        if preemption is not None:
            self._lives.flying(
                gang, Flown(preemption.id, preemption.plan.priority, preemption.path)
            )

    def _observe(self, change: Change) -> None:
        if change.kind is not ChangeKind.POD or self._lives is None:
            return
        old, new = cast("Pod | None", change.old), cast("Pod | None", change.new)
        if old is not None and (new is None or new.uid != old.uid):
            if self._lives.follows(old.uid):
                self._lives.gone(old.uid)
        elif new is not None and new.deleting and self._lives.follows(new.uid):
            self._lives.going(new.uid)

    def _over(self, life: Life) -> None:
        try:
            if self._otlp is not None:
                self._otlp.send(life)
        except Exception:  # telling must never stand in the way of acting
            log.exception("a trace is not written", gang=life.gang)
