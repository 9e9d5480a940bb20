"""Pods that go away by others' hands: members that wait or run, and victims."""

from __future__ import annotations

import random
import time

from tests.chaos.history import PodLife
from tests.chaos.injecting import Injection


class PodFaults:
    """Each takes one pod, if there is one of its kind."""

    def __init__(self, injection: Injection) -> None:
        self._injection = injection

    def planned(self) -> list[PodLife]:
        """Members that wait for their seats."""
        return [life for life in self._waiting() if life.seen.nominated]

    def _waiting(self) -> list[PodLife]:
        """Pods without a node."""
        return [
            life
            for life in self._injection.history.pods.values()
            if life.alive and not life.seen.node and self._present(life.seen.group)
        ]

    async def delete_waiting(self, rng: random.Random) -> None:
        """A member that waits goes away, most likely one that a plan has a seat for."""
        names = [life.seen.name for life in self.planned() or self._waiting()]
        await self._delete_pod(rng, "waiting member deleted", names)

    async def delete_running(self, rng: random.Random) -> None:
        """A member that has a node goes away."""
        running = [
            life.seen.name
            for life in self._injection.history.pods.values()
            if life.seated and self._present(life.seen.group)
        ]
        await self._delete_pod(rng, "running member deleted", running)

    async def delete_victim(self, rng: random.Random) -> None:
        """A victim is deleted by hand too, or force deleted while it terminates."""
        for _ in range(40):
            marked = [
                life.seen.name
                for life in self._injection.history.pods.values()
                if life.exists and life.seen.disrupted and not life.finished_at
            ]
            if marked or self._injection.stop.is_set():
                break
            await self._injection.pause(0.2)
        await self._delete_pod(rng, "victim deleted", marked, grace=rng.choice((0, None)))

    def _present(self, group: str) -> bool:
        life = self._injection.history.groups.get(group)
        return life is not None and life.present

    async def _delete_pod(
        self, rng: random.Random, kind: str, names: list[str], grace: int | None = None
    ) -> None:
        if not names:
            return
        name = rng.choice(sorted(names))
        async with self._injection.fault(kind, name):
            self._injection.history.disturb(time.time(), f"{kind}: {name}")
            await self._injection.blocking(
                lambda: self._injection.bed.client.delete("Pod", name, grace=grace, missing_ok=True)
            )
