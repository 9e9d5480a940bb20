"""What all three verbs share: who the pod is, and whether an answer can be given."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from extender.gang.act.coordinator import Coordinator
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import Pod
from extender.model.snapshot import Snapshot
from extender.verbs.spare import Spare

POD_WAIT = 0.25
"""Seconds to wait for a pod that kube-scheduler knows and our cache does not yet."""


class Cluster(Protocol):
    """What the verbs need of the cache."""

    @property
    def synced(self) -> bool:
        """Whether every list has been read once."""

    @property
    def generation(self) -> int:
        """Grows with every change."""

    def snapshot(self) -> Snapshot:
        """Return the present state."""

    def pod(self, uid: str) -> Pod | None:
        """Return a non-finished pod by uid."""

    async def wait_change(self, generation: int, timeout: float) -> int:
        """Return the present generation once it is above ``generation``, or after a time."""


class Context(Struct, frozen=True):
    """Shared by the verbs."""

    cluster: Cluster
    coordinator: Coordinator
    spare: Spare

    def require_ready(self) -> None:
        """Raise NotReady until caches are synced and plans recovered."""
        if not self.cluster.synced:
            raise NotReady("caches are not synced yet")
        if not self.coordinator.recovered:
            raise NotReady("plan records are not read yet")

    async def waiting_gang(self, pod: Pod) -> Gang | None:
        """Return the gang whose quorum this pod is needed for, None to treat it alone.

        Alone go pods of no gang, pods of a gang whose members start one by one,
        and members beyond a quorum that runs already.
        """
        key = self.coordinator.resolver.member_key(pod)
        if key is None:
            return None
        await self._seen(pod)
        gang = self.coordinator.resolver.resolve(key, self.cluster.snapshot())
        if gang.problems:
            return gang
        return gang if gang.starts_whole and gang.missing else None

    async def _seen(self, pod: Pod) -> None:
        """Give the cache a moment: kube-scheduler's own watch may be ahead of ours."""
        if self.cluster.pod(pod.uid) is None:
            await self.cluster.wait_change(self.cluster.generation, POD_WAIT)
