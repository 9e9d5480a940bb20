"""The pod that a question is about, as the cluster has it and not as the caller tells it.

A caller's document may be old, or invented: its priority, requests and gang would decide who is
evicted. So every verb looks the pod up by UID and goes on with the cached object. kube-scheduler's
watch may be some milliseconds ahead of ours; such a pod is waited for, for a bounded time.
"""

from __future__ import annotations

import asyncio

from extender.model.errors import UnknownPod
from extender.model.objects import Pod
from extender.verbs.context import Cluster

SHOWN = 300
"""Characters of a caller's words that an error repeats."""


class PodLookup:
    """Looks pods up. ``wait_seconds`` is how long one may take to show up."""

    def __init__(self, cluster: Cluster, wait_seconds: float) -> None:
        self._cluster = cluster
        self._wait_seconds = wait_seconds

    async def pod(self, told: Pod) -> Pod:
        """Return the cached object of a pod that waits for a node.

        Raises UnknownPod when there is none in time, when the UID is another pod's, and when the
        pod is bound or being deleted: nobody schedules such a pod.
        """
        found = await self.known(told.uid, told.namespace, told.name)
        if found.node:
            raise UnknownPod(f"{found.key} has a node already: {found.node}")
        if found.deleting:
            raise UnknownPod(f"{found.key} is being deleted")
        if found.gated:
            raise UnknownPod(f"{found.key} is held back by its scheduling gates")
        return found

    async def known(self, uid: str, namespace: str, name: str) -> Pod:
        """Return the cached object of a pod, whatever its state, without gates if that comes soon.

        Raises UnknownPod when there is none in time, and when the UID is another pod's.
        """
        told = f"{namespace}/{name}"
        found = self._cluster.pod(uid)
        if found is None or found.gated:
            found = await self._soon(uid)
        if found is None:
            raise UnknownPod(
                f"no pod with UID {_cut(uid)} ({_cut(told)}) is known here after "
                f"{self._wait_seconds:g} s; nothing is done for it",
                absent=True,
            )
        if (found.namespace, found.name) != (namespace, name):
            raise UnknownPod(f"UID {uid} is that of {found.key}, not of {_cut(told)}")
        return found

    async def _soon(self, uid: str) -> Pod | None:
        """Wait for the cache to have the pod, and without gates."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait_seconds
        while True:
            generation = self._cluster.generation
            found = self._cluster.pod(uid)
            left = deadline - loop.time()
            if left <= 0 or (found is not None and not found.gated):
                return found
            await self._cluster.wait_change(generation, left)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
