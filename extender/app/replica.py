"""This process as one of several replicas: a warm cache, and a coordinator for each term.

Losing the lease does not end the process, as it ends kube-scheduler. The commonest cause is an
API server that is away for longer than ``renewSeconds``, for all replicas at once; restarted they
would have to read the cluster again and to wait for a lease that one of them still holds. Here
the cache stays, and whoever the lease names goes on at once. What a restart is good for is had by
other means: a term's coordinator is closed and thrown away with all it knows, the next term reads
the records, and no request that destroys is sent without asking the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, cast

import structlog

from extender.cache.cache import Cache
from extender.cache.feed import Change, ChangeKind
from extender.gang.controller.coordinator import LOOPS, RECOVERY, Coordinator
from extender.gang.controller.rounds import Heartbeats
from extender.gang.leader_election.elector import Elector
from extender.gang.leader_election.lease import Alone, LeaderCandidate, LeaderLabel, Leadership
from extender.kube.api_errors import ApiError
from extender.model.errors import NotReady
from extender.model.objects import Node, Pod
from extender.settings.settings import Settings
from extender.verbs.room_beside_reservations import Spare
from extender.verbs.verbs import ExtenderVerbs

log = structlog.get_logger("serve")
RECOVERY_PAUSE = 1.0
SYNC_REPORT = 10.0
"""Seconds between log lines that say what is not synced yet."""
CLOSE_SECONDS = 10.0
"""What has not stopped by then is a defect: the process has to be restarted."""
BOUNDS = {RECOVERY: 120.0}
"""Seconds of silence allowed, where it is not the usual minute."""


Work = Callable[[], Coroutine[Any, Any, None]]


class Replica:
    """What acts while this process leads, and what answers. One event loop only."""

    def __init__(
        self,
        cache: Cache,
        settings: Settings,
        make: Callable[[Leadership, Heartbeats], Coordinator],
        elector: Elector | None,
        label: LeaderLabel | None,
    ) -> None:
        self.leadership: LeaderCandidate = elector or Alone()
        self.heartbeats = Heartbeats(BOUNDS)
        self._halt = asyncio.Event()
        """Set when nothing acts any more, so that nobody holds the lease for nothing."""
        self._cache = cache
        self._settings = settings
        self._make = make
        self._elector = elector
        self._label = label
        self._begin()
        cache.subscribe(self._observe)

    def _begin(self) -> None:
        """Put a coordinator in place that knows nothing but the cluster."""
        self.coordinator = self._make(self.leadership, self.heartbeats)
        spare = Spare(self.coordinator.reservations, self._cache, self.coordinator.clocks)
        self.verbs = ExtenderVerbs(self._cache, self.coordinator, spare, self._settings)
        for pod in self._cache.store.pods.by_uid.values():
            self.coordinator.observe(None, pod)

    def _observe(self, change: Change) -> None:
        if change.kind is ChangeKind.POD:
            # The kind tells both types; asking for them again costs more than all the rest.
            old, new = cast("Pod | None", change.old), cast("Pod | None", change.new)
            self.coordinator.observe(old, new)
        elif change.kind is ChangeKind.NODE:
            self.coordinator.observe_node(
                cast("Node | None", change.old), cast("Node | None", change.new)
            )

    # -- health -------------------------------------------------------------------------

    def cold(self) -> list[str]:
        """Return why this replica could not take over now."""
        if not self._cache.synced:
            return [self._cache.problem()]
        if self._cache.stale_for() > self._settings.cache.stale_seconds:
            return [f"the cache is stale: {self._cache.problem()}"]
        return []

    def not_ready(self) -> list[str]:
        """Return why verbs are not answered."""
        reasons = self.cold()
        if not self.leadership.acts:
            reasons.append(self.leadership.describe())
        elif not self.coordinator.recovered:
            reasons.append("plan records are not read")
        return reasons + self.heartbeats.late()

    # -- acting -------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self, stop: asyncio.Event) -> AsyncIterator[None]:
        """Follow the cluster, stand for election and act, for the length of a block."""
        tasks = [asyncio.create_task(self._supervised("acting", lambda: self._act(stop), stop))]
        if self._elector is not None:
            standing = partial(self._stand, self._elector)
            tasks.append(asyncio.create_task(self._supervised("election", standing, stop)))
        try:
            yield
        finally:
            stop.set()
            if self._elector is not None:
                # What is under way: stop acting, release the lease.
                await asyncio.wait(tasks, timeout=self._settings.leadership.renew_seconds)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            gc.enable()
            await self.coordinator.close()
            await self._cache.stop()

    async def _supervised(self, name: str, work: Work, stop: asyncio.Event) -> None:
        """Run ``work``; that it ends before the stop is an error, never a silence.

        It is made here: what listens beside us may fail before this runs at all, and a coroutine
        that nobody awaits is told on standard error.
        """
        try:
            await work()
            why = "it returned"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            log.exception("work that may not end has failed", what=name)
        if not stop.is_set():
            log.error("work that may not end has ended", what=name, why=why)
            self.heartbeats.died(name, why)

    async def _stand(self, elector: Elector) -> None:
        """Be a candidate from the time the cluster is known, while there is somebody to act."""
        while not self._cache.synced and not self._halt.is_set():
            with contextlib.suppress(NotReady):
                await self._cache.wait_synced(0.5)
        await elector.run(self._halt, lambda: self.heartbeats.beat("election"))
        self.heartbeats.rest("election")
        # It may have been got in the very last moment.
        elector.resign("stopping")
        await elector.ended()

    async def _act(self, stop: asyncio.Event) -> None:
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await _first(self._fill(), stopped)
            if self._elector is None:
                await self._term(stop)
            else:
                await self._terms(self._elector, stop, stopped)
        finally:
            stopped.cancel()
            self._halt.set()

    async def _terms(
        self, elector: Elector, stop: asyncio.Event, stopped: asyncio.Future[Any]
    ) -> None:
        while not stop.is_set():
            await _first(elector.gained(), stopped)
            if elector.acts and not stop.is_set():
                await self._lead(elector, stop, stopped)
        if elector.acts:
            elector.resign("stopping")
        await elector.ended()

    async def _lead(
        self, elector: Elector, stop: asyncio.Event, stopped: asyncio.Future[Any]
    ) -> None:
        """Act for one term; afterwards nothing of it is left."""
        term = asyncio.ensure_future(self._term(stop))
        lost = asyncio.ensure_future(elector.lost())
        claiming = asyncio.ensure_future(self._label.claim()) if self._label else None
        try:
            await asyncio.wait((term, lost, stopped), return_when=asyncio.FIRST_COMPLETED)
            if term.done() and not stop.is_set():
                await term
                raise RuntimeError("what acts has returned in the middle of its term")
        finally:
            if not lost.done():
                elector.resign("stopping" if stop.is_set() else "what acts has failed")
            works = [work for work in (term, lost, claiming) if work is not None]
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            gc.enable()
            for name in (RECOVERY, *LOOPS):
                self.heartbeats.rest(name)
            try:
                await asyncio.wait_for(self.coordinator.close(), CLOSE_SECONDS)
            finally:
                await elector.ended()
        if not stop.is_set():
            self._begin()
            # The old coordinator was frozen with everything else.
            gc.unfreeze()
            gc.collect()
            _settle_memory()

    async def _fill(self) -> None:
        # Nothing of the first reading is garbage: at 150,000 pods the collector took 0.6 s to see
        # that, over and over. It goes on as soon as something does not work at the first try.
        gc.disable()
        await self._cache.start()
        while not self._cache.synced:
            self.heartbeats.beat(RECOVERY)
            try:
                await self._cache.wait_synced(SYNC_REPORT)
            except NotReady as reason:
                gc.enable()
                log.warning("still waiting", reason=str(reason))
        self.heartbeats.rest(RECOVERY)
        _settle_memory()

    async def _term(self, stop: asyncio.Event) -> None:
        """Go on with what is recorded, then look after gangs until the stop."""
        coordinator = self.coordinator
        gc.disable()
        while not coordinator.recovered:
            self.heartbeats.beat(RECOVERY)
            try:
                await coordinator.recover()
            except ApiError as error:
                gc.enable()
                log.warning("plan records cannot be read, trying again", error=str(error))
                await asyncio.sleep(RECOVERY_PAUSE)
        self.heartbeats.rest(RECOVERY)
        _settle_memory()
        nodes = len(self._cache.snapshot().nodes)
        log.info(
            "ready", nodes=nodes, plans=len(coordinator.reservations), epoch=self.leadership.epoch
        )
        await coordinator.run(stop)


async def _first(work: Coroutine[Any, Any, None], other: asyncio.Future[Any]) -> None:
    """Wait for ``work``, but not beyond ``other``."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((task, other), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        task.cancel()


def _settle_memory() -> None:
    """What was just read or summed up lives long: no collector pass over it, ever."""
    gc.freeze()
    gc.enable()
