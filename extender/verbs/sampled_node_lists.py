"""Pods of no gang that were offered a sample of which seats keep every node.

kube-scheduler has then looked at a part of the nodes only (gang/plan/lists.py) and goes on where it
stopped when it tries the pod again. So the pod is woken at once, and nobody is evicted for it
before it has seen them all: a free node may be in the next list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cachetools import TTLCache
from msgspec import Struct

from extender.gang.plan.lists import complete

MEMORY_SECONDS = 30.0
"""How long the samples of one pod count as one walk over the nodes."""
MAX_PODS = 4096


class Walk(Struct):
    """How far kube-scheduler has come."""

    seen: set[str]
    tries: int = 0
    goes_on: bool = True


class Samples:
    """Walks by pod uid, remembered for a moment."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._walks: TTLCache[str, Walk] = TTLCache(
            maxsize=MAX_PODS, ttl=MEMORY_SECONDS, timer=monotonic
        )
        self._withheld: TTLCache[str, bool] = TTLCache(
            maxsize=MAX_PODS, ttl=MEMORY_SECONDS, timer=monotonic
        )

    def refused(self, uid: str, names: Sequence[str], nodes: int) -> bool:
        """Note a list of which the pod gets nothing; return whether others may follow.

        ``nodes``: how many there are. A walk ends when a list is complete, when all nodes were
        seen, or after twice the tries that it takes at least.
        """
        walk = self._walks.get(uid) or Walk(set())
        walk.seen.update(names)
        walk.tries += 1
        most = 2 * (nodes // max(1, len(names)) + 1)
        walk.goes_on = (
            not complete(len(names), nodes) and len(walk.seen) < nodes and walk.tries < most
        )
        self._walks[uid] = walk
        return walk.goes_on

    def goes_on(self, uid: str) -> bool:
        """Whether the pod has not been offered all nodes yet: no pod is evicted for it. True once a
        list: an attempt that ends before filter is asked has looked at all nodes."""
        walk = self._walks.get(uid)
        if walk is None or not walk.goes_on:
            return False
        walk.goes_on = False
        return True

    def forget(self, uid: str) -> None:
        """The pod has a node to go to."""
        self._walks.pop(uid, None)

    def withhold(self, uid: str) -> None:
        """A member was kept off every node: where it fails now says nothing about the nodes."""
        self._withheld[uid] = True

    def offered(self, uid: str) -> None:
        """It has been offered nodes since, as a pod of no gang is."""
        self._withheld.pop(uid, None)

    def withheld(self, uid: str) -> bool:
        """Whether the pod's last attempt came to nothing by our word alone; true once.

        The next attempt may end before filter is asked, so an old word must not count for ever.
        """
        return bool(self._withheld.pop(uid, False))
