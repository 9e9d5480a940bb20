"""The process the extender runs in: started, killed, stopped as ``serve`` is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from extender.cache.cache import Cache
from extender.cache.clock import Clock
from extender.cache.feed import Change
from extender.gang.controller.coordinator import Coordinator, coordinate
from extender.gang.controller.rounds import Heartbeats
from extender.gang.leader_election.lease import Leadership
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.listener import Listener
from extender.groups.resolver import Resolver
from extender.kube.api_errors import ApiError
from extender.model.errors import NotReady
from extender.model.objects import Node, Pod
from extender.observe.observe_verbs import ObserveVerbs
from extender.observe.observer import Observer
from extender.observe.sums import Ledger
from extender.server.verb_calls import Verbs
from extender.settings.settings import Settings
from extender.verbs.room_beside_reservations import Spare
from extender.verbs.verbs import ExtenderVerbs
from tests.simulation.client import SimClient
from tests.simulation.loop import OWNER, SimLoop
from tests.simulation.server import EPOCH

RECORDS = "kube-system"


class SimClock(Clock):
    """The simulated time; ``ahead`` is how far the wall clock has jumped."""

    def __init__(self, loop: SimLoop) -> None:
        self.ahead = 0.0
        self._loop = loop

    def monotonic(self) -> float:
        """See Clock."""
        return self._loop.time()

    def wall(self) -> float:
        """See Clock."""
        return EPOCH + self._loop.time() + self.ahead


class Stop(asyncio.Event):
    """An Event that is waited for by a future: every round of every loop of the extender waits
    for its end, and a task for each would be most of all tasks there are."""

    def wait(self) -> asyncio.Future[bool]:  # type: ignore[override]
        """See asyncio.Event."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        if self.is_set():
            waiter.set_result(True)
        else:
            self._waiters.append(waiter)
        return waiter


def observe(coordinator: Coordinator, change: Change) -> None:
    """Tell what the cache reports, as extender/app/replica.py does."""
    old, new = change.old, change.new
    if isinstance(old, Pod | None) and isinstance(new, Pod | None):
        coordinator.observe(old, new)
    elif isinstance(old, Node | None) and isinstance(new, Node | None):
        coordinator.observe_node(old, new)


class Host:
    """Runs one extender at a time. ``client`` makes the connection of each new life."""

    def __init__(
        self,
        loop: SimLoop,
        settings: Settings,
        seed: int,
        period: float,
        client: Callable[[], SimClient],
        listener: Listener,
        first_owner: int = 0,
    ) -> None:
        self.verbs: Verbs | None = None
        self.coordinator: Coordinator | None = None
        self.cache: Cache | None = None
        self.client: SimClient | None = None
        self.clock = SimClock(loop)
        self.lives = 0
        self.observing = False
        """The next process has ``mode: observe``."""
        self.ended: Callable[[BaseException], None] = lambda error: None
        """Called when the main task of the process fails."""
        self._loop = loop
        self.settings = settings
        self._seed = seed
        self._period = period
        self._connect = client
        self._listener = listener
        self._stop = Stop()
        self._first_owner = first_owner

    @property
    def owner(self) -> int:
        """Number of the present process, see loop.OWNER."""
        return self._first_owner + self.lives

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.client is not None

    def start(self) -> None:
        """Start a new process: nothing is known to it."""
        self.lives += 1
        self.client = self._connect()
        self._stop = Stop()
        self._run(self._serve(self.client))

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        token = OWNER.set(self.owner)
        try:
            return self._loop.create_task(work)
        finally:
            OWNER.reset(token)

    def serve(self, call: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a verb inside the process."""
        return self._run(call)

    def crash(self) -> None:
        """Kill -9: all that is in memory is lost, what has left has left."""
        if self.client is None:
            return
        self.client.die()
        self.client = self.verbs = self.coordinator = self.cache = None
        self._loop.cancel_all(self.owner)

    def crash_all(self) -> None:
        """Kill every process there is."""
        self.crash()

    def listen(self, ended: Callable[[BaseException], None]) -> None:
        """Have ``ended`` told when the main task of the process fails."""
        self.ended = ended

    async def stop(self) -> None:
        """Stop in good order, as on SIGTERM."""
        coordinator, cache, life = self.coordinator, self.cache, self.lives
        self.verbs = None
        self._stop.set()
        if coordinator is not None and cache is not None:
            await self._run(_close(coordinator, cache))
        if self.lives == life:
            self.crash()

    def _random(self) -> random.Random:
        return random.Random(self._seed * 1000 + self.owner)

    def _cache_of(self, client: SimClient, rng: random.Random) -> Cache:
        keys = Resolver(self.settings.groups).member_key
        return Cache(client, self.settings.cache, keys, clock=self.clock, random=rng)

    def _coordinate(
        self, client: SimClient, cache: Cache, rng: random.Random, leadership: Leadership | None
    ) -> Coordinator:
        return coordinate(
            client,
            cache,
            self.settings,
            Resolver(self.settings.groups),
            RECORDS,
            clocks=Clocks(monotonic=self.clock.monotonic, wall=self.clock.wall),
            random=rng,
            leadership=leadership,
            listener=self._listener,
        )

    def _listen(self, cache: Cache, coordinator: Coordinator) -> None:
        spare = Spare(coordinator.reservations, cache, coordinator.clocks)
        self.cache, self.coordinator = cache, coordinator
        self.verbs = ExtenderVerbs(cache, coordinator, spare, self.settings)

    async def _serve(self, client: SimClient) -> None:
        stop = self._stop
        if self.observing:
            await self._observe(client, stop)
            return
        rng = self._random()
        cache = self._cache_of(client, rng)
        coordinator = self._coordinate(client, cache, rng, None)

        cache.subscribe(partial(observe, coordinator))
        self._listen(cache, coordinator)
        try:
            await fill(cache)
            await self._act(coordinator, stop)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.ended(error)

    async def _observe(self, client: SimClient, stop: asyncio.Event) -> None:
        """Do what ``serve`` does with ``mode: observe`` (extender/app/observing.py)."""
        cache = self._cache_of(client, self._random())
        observer = Observer(
            cache,
            cache.pod,
            self.settings,
            Resolver(self.settings.groups),
            Ledger(self.settings.observe.weeks, self.settings.observe.gangs_per_week),
            clocks=Clocks(monotonic=self.clock.monotonic, wall=self.clock.wall),
            heartbeats=Heartbeats({}, Clocks(self.clock.monotonic)),
            decided=lambda decision: None,
        )

        def observe(change: Change) -> None:
            old, new = change.old, change.new
            if isinstance(old, Pod | None) and isinstance(new, Pod | None):
                observer.observe(old, new)

        cache.subscribe(observe)
        self.cache, self.verbs = cache, ObserveVerbs(observer)
        try:
            await fill(cache)
            observer.begin()
            await observer.run(stop)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.ended(error)

    async def _act(self, coordinator: Coordinator, stop: asyncio.Event) -> None:
        while not coordinator.recovered:
            try:
                await coordinator.recover()
            except ApiError:
                await asyncio.sleep(1.0)
        await coordinator.run(stop, self._period)


async def fill(cache: Cache) -> None:
    await cache.start()
    while not cache.synced:
        try:
            await cache.wait_synced(10.0)
        except NotReady:
            continue


async def _close(coordinator: Coordinator, cache: Cache) -> None:
    await coordinator.close()
    await cache.stop()
