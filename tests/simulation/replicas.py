"""Two replicas and a lease: the real elector, over the simulated API server.

They plan by different cost orders, as during a roll-out that changes it. kube-scheduler's calls
reach whoever leads, as through a Service that selects the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from extender.cache.cache import Cache
from extender.cache.feed import Change
from extender.gang.controller.coordinator import Coordinator
from extender.gang.leader_election.elector import Elector
from extender.gang.runtime.clocks import Clocks
from extender.model.errors import NotReady
from extender.server.verb_calls import Verbs
from extender.settings.settings import LeadershipSettings, Settings
from extender.verbs.leading import LeadersVerbs
from tests.simulation.client import SimClient
from tests.simulation.host import RECORDS, Host, SimClock, fill, observe

LEADERSHIP = LeadershipSettings(
    enabled=True, lease_seconds=4.0, renew_seconds=2.5, retry_seconds=0.5
)
ORDERS = ("default", "fewest-pods")
OWNERS = 1000
"""Numbers of processes between one replica and the next."""


class Replica(Host):
    """One of them: acts for the length of its terms."""

    terms = 0
    elector: Elector | None = None
    identity = ""

    @property
    def leads(self) -> bool:
        """Whether it acts."""
        return self.coordinator is not None and self.elector is not None and self.elector.acts

    async def _serve(self, client: SimClient) -> None:
        stop = self._stop
        rng = self._random()
        cache = self._cache_of(client, rng)

        cache.subscribe(self._heard)
        try:
            await fill(cache)
            self.identity = f"replica-{self.owner}"
            self.elector = Elector(
                client,
                LEADERSHIP,
                RECORDS,
                self.identity,
                clocks=Clocks(monotonic=self.clock.monotonic, wall=self.clock.wall),
                rng=rng,
            )
            standing = self._loop.create_task(self.elector.run(stop))
            while not stop.is_set():
                await self.elector.gained()
                if self.elector.acts and not stop.is_set():
                    coordinator = self._coordinate(client, cache, rng, self.elector)
                    for pod in cache.store.pods.by_uid.values():
                        coordinator.observe(None, pod)
                    self._listen(cache, coordinator)
                    self.terms += 1
                    await self._term(self.elector, coordinator, stop)
            await standing
        except asyncio.CancelledError:
            raise
        except Exception as error:
            self.ended(error)

    def _heard(self, change: Change) -> None:
        if self.coordinator is not None:
            observe(self.coordinator, change)

    async def _term(self, elector: Elector, coordinator: Coordinator, stop: asyncio.Event) -> None:
        acting = self._loop.create_task(self._act(coordinator, stop))
        lost = self._loop.create_task(elector.lost())
        await asyncio.wait((acting, lost), return_when=asyncio.FIRST_COMPLETED)
        if not lost.done():
            elector.resign("stopping")
        lost.cancel()
        if acting.done():
            acting.result()
        acting.cancel()
        await asyncio.gather(acting, lost, return_exceptions=True)
        self.verbs = self.coordinator = None
        await coordinator.close()
        await elector.ended()

    async def stop(self) -> None:
        """Stop in good order: nothing acts any more, the lease is given back."""
        life = self.lives
        self.verbs = None
        self._stop.set()
        await asyncio.sleep(1.0)
        if self.lives == life:
            self.crash()


class Replicas:
    """Both, as the rest of the world sees them: mostly the one that leads."""

    def __init__(
        self, make: Callable[[type[Host], Settings, int], Host], settings: Settings
    ) -> None:
        self.replicas: list[Replica] = []
        for index, order in enumerate(ORDERS):
            mine = replace(settings, plan=replace(settings.plan, cost_order=order))
            made = make(Replica, mine, index * OWNERS)
            assert isinstance(made, Replica)
            self.replicas.append(made)

    @property
    def leader(self) -> Replica | None:
        """The one that acts, None while nobody does."""
        return next((replica for replica in self.replicas if replica.leads), None)

    @property
    def verbs(self) -> Verbs | None:
        """What kube-scheduler reaches: the leader, for as long as it leads."""
        leader = self.leader
        if leader is None or leader.elector is None:
            return None

        def present() -> Any:
            if leader.verbs is None:
                raise NotReady("the replica stops")
            return leader.verbs

        return LeadersVerbs(present, leader.elector)

    @property
    def coordinator(self) -> Coordinator | None:
        """Of the leader."""
        return self.leader.coordinator if self.leader else None

    @property
    def cache(self) -> Cache | None:
        """Of the leader."""
        return self.leader.cache if self.leader else None

    @property
    def lives(self) -> int:
        """How often somebody began to act."""
        return sum(replica.terms for replica in self.replicas)

    @property
    def alive(self) -> bool:
        """Whether both processes run."""
        return all(replica.alive for replica in self.replicas)

    @property
    def clock(self) -> SimClock:
        """Of the first one's machine."""
        return self.replicas[0].clock

    def listen(self, ended: Callable[[BaseException], None]) -> None:
        """Have ``ended`` told of main tasks that fail."""
        for replica in self.replicas:
            replica.ended = ended

    def start(self) -> None:
        """Start who does not run."""
        for replica in self.replicas:
            if not replica.alive:
                replica.start()

    def serve(self, call: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        """Run a verb in the leader's process."""
        return (self.leader or self.replicas[0]).serve(call)

    def crash(self) -> None:
        """Kill the leader."""
        (self.leader or self.replicas[0]).crash()

    def crash_all(self) -> None:
        """Kill both."""
        for replica in self.replicas:
            replica.crash()

    async def stop(self) -> None:
        """Stop the leader in good order."""
        await (self.leader or self.replicas[0]).stop()

    def doubled(self, owner: int, uid: str) -> str:
        """Return what another replica takes for the same gang as the sender, "" for nothing."""
        mine = [r for r in self.replicas if r.owner == owner and r.coordinator is not None]
        for replica in self.replicas:
            for me in mine:
                if replica is me or replica.coordinator is None or me.coordinator is None:
                    continue
                for preemption in me.coordinator.reservations:
                    if all(victim.uid != uid for victim in preemption.plan.victims):
                        continue
                    other = replica.coordinator.reservations.get(preemption.key)
                    sent = other.sent if other is not None else set()
                    named = {victim.uid for victim in preemption.plan.victims}
                    if sent - named:
                        return f"another replica has evicted {len(sent - named)} others"
        return ""

    def identity(self, owner: int) -> str:
        """Return the name in the lease of the process that sends, "" when it is over."""
        return next((r.identity for r in self.replicas if r.owner == owner), "")
