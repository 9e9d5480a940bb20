"""What the status ConfigMap says, read from the coordinator and the cache."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from math import inf

from msgspec.structs import replace

from extender import __version__
from extender.app.replica import Replica
from extender.cache.cache import Cache
from extender.console.capture import Capture, ConsoleSource
from extender.console.gang_rows import ORDER, GangReader
from extender.console.worker import TooManyRenderings, Worker
from extender.gang.leader_election.lease import Leadership
from extender.gang.status.status_map import StatusMap
from extender.gang.tell.decisions_per_day import Days
from extender.gang.tell.gang_status import GangState
from extender.gang.tell.last_hour import Lately
from extender.gang.tell.status_report import GangSeen, PlanSeen, Said, Whole, text_of
from extender.kube.api import KubeApi
from extender.settings.mode import EnforceSettings
from extender.settings.settings import Settings


class StatusSource:
    """Reads on the event loop what lies ready, and does the rest on the pages' thread."""

    def __init__(
        self,
        cache: Cache,
        replica: Replica,
        settings: Settings,
        source: ConsoleSource,
        worker: Worker,
        lately: Lately,
    ) -> None:
        self._cache = cache
        self._replica = replica
        self._settings = settings
        self._source = source
        self._worker = worker
        self._lately = lately
        self._reader = GangReader(source.resolver)
        self._started = time.time()

    async def text(self, since: float) -> str | None:
        """Return how the whole stands for who leads since then; None when that is not known yet,
        or the thread has too much to do."""
        if not self._cache.synced or not self._replica.coordinator.recovered:
            return None
        capture, whole = self._source.capture(), self._lying_ready(since)
        try:
            return await self._worker.run(lambda: text_of(self._read(whole, capture)))
        except TooManyRenderings:
            return None

    def _lying_ready(self, since: float) -> Whole:
        """Return what costs next to nothing."""
        leadership, coordinator = self._replica.leadership, self._replica.coordinator
        watches = self._cache.describe()
        return Whole(
            leader=leadership.identity,
            leading_since=since,
            epoch=leadership.epoch,
            version=__version__,
            mode=self._settings.mode,
            namespaces=_namespaces(self._settings.enforce),
            watches=len(watches),
            down=[
                Said(str(watch["resource"]), str(watch["lastError"]))
                for watch in watches
                if not watch["up"]
            ],
            fresh=self._cache.stale_for() <= self._settings.cache.stale_seconds,
            seats=len(coordinator.reservations.holds()),
            evictions=self._lately.evictions(time.time()),
            counted_since=self._started,
            broken=[Said(unit.name, unit.error) for unit in coordinator.plans.victims.broken()],
            trouble=self._lately.trouble,
        )

    def _read(self, whole: Whole, capture: Capture) -> Whole:
        """Add what gangs have to be resolved and sorted for; on the pages' thread."""
        rows = self._reader.read(capture)
        states = Counter(row.status.state for row in rows)
        waiting = sorted(
            (row for row in rows if row.status.state != GangState.RUNNING),
            key=lambda row: (-row.status.priority, row.since or inf, row.key),
        )
        preemptions = sorted(
            capture.preemptions, key=lambda each: (-each.plan.priority, each.since)
        )
        return replace(
            whole,
            problems=capture.problems,
            states={state: states[state] for state in ORDER if states[state]},
            waiting=[GangSeen(row.status, row.since) for row in waiting],
            plans=[
                PlanSeen(
                    gang=str(preemption.plan.gang),
                    plan=preemption.id,
                    priority=preemption.plan.priority,
                    state=preemption.state,
                    since=preemption.since,
                    seats=len(preemption.seats),
                    victims=len(preemption.victims),
                    waits=len(preemption.waits),
                )
                for preemption in preemptions
            ],
            suspended=[Said(name, why) for name, why in capture.suspended.items()],
        )


@contextlib.asynccontextmanager
async def told_in_a_map(
    client: KubeApi,
    records: str,
    settings: Settings,
    leadership: Leadership,
    source: StatusSource,
    days: Days,
) -> AsyncIterator[None]:
    """Keep the ConfigMap for the length of a block; ``records``: where plan records are kept.

    ``days`` are kept in it for the next leader."""
    status = settings.status
    if not status.name:
        yield
        return
    written = StatusMap(client, status.namespace or records, status, leadership, source, days=days)
    task = asyncio.create_task(written.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _namespaces(enforce: EnforceSettings) -> str:
    if enforce.everybody:
        return "all"
    return f"those that enforce.namespaces selects; victims: {enforce.victims}"
