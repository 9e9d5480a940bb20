"""Observe mode on the sandbox API server; the test plays kube-scheduler, and sets the clock."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Self

from extender.cache.cache import Cache
from extender.gang.controller.rounds import Heartbeats
from extender.gang.runtime.clocks import Clocks
from extender.gang.tell.decisions import Decision
from extender.groups.resolver import Resolver
from extender.kube.client import KubeClient
from extender.kube.read_only import ReadOnlyClient
from extender.observe.observe_verbs import ObserveVerbs
from extender.observe.observer import Observer
from extender.observe.sums import Ledger
from extender.sandbox.apiserver import ApiServer
from extender.settings.settings import Settings
from tests.gang.rig import PODS, Rig


class Bed(Rig):
    """A Rig whose extender observes. ``clock`` is added to the time the observer sees."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.server = ApiServer(bookmark_seconds=0.05)
        self.clock = 0.0
        self.told: list[Decision] = []

    async def __aenter__(self) -> Self:
        await self.server.start()
        self.client = await KubeClient.connect(server=self.server.url)
        await self.start()
        return self

    async def start(self) -> None:
        """A new observer; nothing of it runs but what the test calls, and the cache."""
        settings = self.settings
        self.own = await ReadOnlyClient.connect(server=self.server.url)
        resolver = Resolver(settings.groups)
        self.cache = Cache(self.own, settings.cache, resolver.member_key)
        self.ledger = Ledger(settings.observe.weeks, settings.observe.gangs_per_week)
        self.observer = Observer(
            self.cache,
            self.cache.pod,
            settings,
            resolver,
            self.ledger,
            clocks=Clocks(lambda: time.monotonic() + self.clock, lambda: time.time() + self.clock),
            heartbeats=Heartbeats(),
            decided=self.told.append,
        )
        self.verbs = ObserveVerbs(self.observer)  # type: ignore[assignment]
        self.cache.subscribe(self._seen)
        await self.cache.start()
        await self.cache.wait_synced(60)
        self.observer.begin()

    def _seen(self, change: Any) -> None:
        if change.kind == "pod":
            self.observer.observe(change.old, change.new)

    async def kill(self) -> None:
        self.observer.close()
        await self.cache.stop()
        await self.own.close()

    # -- time -----------------------------------------------------------------------------

    async def rounds(self, seconds: float = 0.0) -> None:
        """Let time pass, and the two loops have a round each."""
        self.clock += seconds
        await self.observer._plan_waiting()
        await self.observer._tick()

    # -- kube-scheduler -------------------------------------------------------------------

    async def tried(self, *names: str) -> None:
        """kube-scheduler has found no node for the pods."""
        for name in names:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            await self.client.patch(
                f"{PODS}/{name}/status", {"status": {"conditions": [condition]}}, "strategic"
            )
            await self.until(partial(self._tried, name), f"{name} was tried")

    async def preempts(self, preemptor: str, victim: str) -> None:
        """kube-scheduler evicts one pod for another."""
        node = self._pod(victim).node
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
        }
        status = f"{PODS}/{victim}/status"
        await self.client.patch(status, {"status": {"conditions": [condition]}}, "strategic")
        await self.client.delete(f"{PODS}/{victim}")
        await self.client.patch(
            f"{PODS}/{preemptor}/status", {"status": {"nominatedNodeName": node}}
        )
        await self.until(lambda: self._pod(preemptor).nominated == node, "the nomination")
        await self.gone(victim)

    async def bound(self, name: str, node: str) -> None:
        """kube-scheduler binds a pod."""
        await self.bind(name, node)
        await self.until(lambda: self._pod(name).node == node, f"{name} is bound")

    async def gone(self, name: str) -> None:
        await self.until(lambda: self.cache.pod_named("default", name) is None, f"{name} is gone")

    def _tried(self, name: str) -> bool:
        return bool(self._pod(name).tried)

    def started(self, name: str) -> bool:
        """Whether the pod is known to have started."""
        return bool(self._pod(name).started)

    def _pod(self, name: str) -> Any:
        return self.cache.pod_named("default", name)
