"""Evictions that were asked for, before the cluster shows them.

A request cannot be called back, so the pod's room is nobody's to spare: a plan
that takes another victim instead would evict one too many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachetools import TTLCache
from msgspec.structs import replace

from extender.model.plan import Victim
from extender.model.snapshot import Snapshot

MEMORY_SECONDS = 60.0
MAX_PODS = 65536


class Expectations:
    """Pods whose eviction was asked for lately, whoever asked."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._asked: TTLCache[str, str] = TTLCache(
            maxsize=MAX_PODS, ttl=MEMORY_SECONDS, timer=monotonic
        )

    def ask(self, uid: str, node: str) -> None:
        """Note that a request is about to leave."""
        self._asked[uid] = node

    def gone(self, uid: str) -> None:
        """Note that the pod is gone."""
        self._asked.pop(uid, None)

    def shown_in(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot with these pods already terminating."""
        if not self._asked:
            return snapshot
        bound = dict(snapshot.bound)
        for node in set(self._asked.values()) & bound.keys():
            bound[node] = tuple(
                replace(pod, deleting=snapshot.now + pod.grace, disrupted=True)
                if pod.uid in self._asked and not pod.deleting
                else pod
                for pod in bound[node]
            )
        return replace(snapshot, bound=bound)


def not_shown(waits: Iterable[Victim], snapshot: Snapshot) -> list[Victim]:
    """Return pods a plan waits for whose deletion the cluster does not show.

    The plan that asked for it is over: asking again is harmless, and without it
    a lost request would be waited for in vain.
    """
    return [
        victim
        for victim in waits
        for pod in snapshot.bound.get(victim.node, ())
        if pod.uid == victim.uid and not pod.deleting
    ]
