"""A tenant whose pods come to seats' nodes by spec.nodeName, past kube-scheduler.

They take a victim's room, or next to none and keep every other pod off their node by a rule.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.chaos.history import SQUATTERS, PodLife
from tests.chaos.injecting import Injection
from tests.chaos.pod_faults import PodFaults
from tests.controlplane.objects import make_pod

ROOM_SECONDS = 6.0
"""How long it waits for room on the node: what a victim there has for its end."""
STAYS_SECONDS = 4.0
"""How long it waits for its pod's eviction."""
LOOK_SECONDS = 0.02
TINY = 10
ALONE = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": {}}
        ]
    }
}
"""Affinity that lets no other pod onto the node."""


class Squatters:
    """One at a time. Its pods are gone when the fault is over."""

    def __init__(self, injection: Injection, pods: PodFaults) -> None:
        self._injection = injection
        self._pods = pods

    async def squat(self, rng: random.Random) -> None:
        """A pod takes the room that a victim leaves, and another one when it is evicted itself."""
        seats = {life.seen.nominated for life in self._pods.planned()}
        if not seats:
            return
        node, cpu = rng.choice(sorted(seats)), rng.choice((TINY, 1000, 3000))
        times = rng.choice((1, 3, 6))
        client, history = self._injection.bed.client, self._injection.history
        async with self._injection.fault("squatter", f"{times} times {cpu}m on {node}"):
            for _ in range(times):
                if not await self._took(node, cpu):
                    break
            history.disturb(time.time(), "squatters leave")
            await self._injection.blocking(lambda: client.delete_all("Pod", SQUATTERS, grace=0))

    async def _took(self, node: str, cpu: int) -> bool:
        """Put a pod on a node when there is room; return whether it was evicted again."""
        if not await self._wait(ROOM_SECONDS, lambda: self._room(node) >= cpu):
            return False
        name = f"squatter-{time.time_ns()}"
        self._injection.history.disturb(time.time(), f"squatter: {name} on {node}")
        pod = make_pod(
            name,
            f"{cpu}m",
            namespace=SQUATTERS,
            priority_class="p0",
            node=node,
            spec={"affinity": ALONE} if cpu == TINY else None,
        )
        await self._injection.blocking(lambda: self._injection.bed.client.create(pod))
        return await self._wait(STAYS_SECONDS, lambda: self._gone(name))

    async def _wait(self, seconds: float, true: Callable[[], bool]) -> bool:
        """Wait for something, so long at most and not past the end of the lanes."""
        until = time.monotonic() + seconds
        while not true():
            if self._injection.stop.is_set() or time.monotonic() > until:
                return False
            await self._injection.pause(LOOK_SECONDS)
        return True

    def _room(self, node: str) -> int:
        history = self._injection.history
        used = sum(life.seen.cpu for life in history.on_node(node))
        return history.nodes.get(node, 0) - used

    def _gone(self, name: str) -> bool:
        lives = self._injection.history.pods.values()
        life: PodLife | None = next((each for each in lives if each.seen.name == name), None)
        return life is not None and not life.exists
