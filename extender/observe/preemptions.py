"""What schedulers' own preemption did, read off the pods: who went, and for whom.

kube-scheduler writes condition DisruptionTarget with reason PreemptionByScheduler on a victim and
deletes it; the pod that it is done for gets the node as its nomination, a moment before or after
(asynchronous preemption), and is bound there. So a victim is kept for a moment, and then counted as
that of the pod that came to its node last and is more urgent; the extender's own question (preempt)
says so more surely, where we are asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cachetools import LRUCache, TTLCache
from msgspec import Struct

from extender.model.objects import Pod

SETTLE_SECONDS = 3.0
"""How long the pod that a victim goes for may take to show up, and its gang to follow it."""
MEMORY_SECONDS = 60.0
MOST = 65_536


class Arrival(Struct, frozen=True):
    """A pod that was nominated to a node, or bound there."""

    pod: Pod
    at: float


class Sighting(Struct, frozen=True):
    """A pod that a scheduler has evicted for another one."""

    victim: Pod
    at: float
    """Monotonic."""


class Preemptions:
    """Finds victims in pod events, and for whom they went. One event loop only; bounded."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._now = monotonic
        self._arrivals: TTLCache[str, dict[str, Arrival]] = TTLCache(
            maxsize=MOST, ttl=MEMORY_SECONDS, timer=monotonic
        )
        """Node -> pods that came there lately, by uid."""
        self._asked: TTLCache[str, str] = TTLCache(
            maxsize=MOST, ttl=MEMORY_SECONDS, timer=monotonic
        )
        """Uid of a possible victim -> uid of the pod that was asked about last with it."""
        self._seen: LRUCache[str, None] = LRUCache(MOST)
        """Uids of victims that were counted."""

    def asked(self, pod: Pod, victims: Iterable[str]) -> None:
        """Note that kube-scheduler may evict these pods (uids) for the pod."""
        for uid in victims:
            self._asked[uid] = pod.uid

    def observe(self, old: Pod | None, new: Pod | None) -> Sighting | None:
        """Take note of one pod event; return the victim that it shows, once."""
        if new is not None:
            self._arrived(old, new)
        pod = new if new is not None else old
        if pod is None or not pod.preempted or not pod.node or pod.uid in self._seen:
            return None
        if new is not None and not new.deleting:
            return None
        self._seen[pod.uid] = None
        return Sighting(pod, self._now())

    def _arrived(self, old: Pod | None, new: Pod) -> None:
        node = new.node or new.nominated
        if not node or new.deleting or (old is not None and node in (old.node, old.nominated)):
            return
        came = self._arrivals.get(node, {})
        came = {uid: each for uid, each in came.items() if each.at > self._now() - MEMORY_SECONDS}
        came[new.uid] = Arrival(new, self._now())
        self._arrivals[node] = came

    def preemptor(self, sighting: Sighting) -> Pod | None:
        """Return the pod that a victim went for, None when nothing shows it."""
        victim = sighting.victim
        came = self._arrivals.get(victim.node, {})
        urgent = [each for each in came.values() if each.pod.priority > victim.priority]
        wanted = self._asked.get(victim.uid)
        for each in urgent:
            if each.pod.uid == wanted:
                return each.pod
        near = [each for each in urgent if each.at >= sighting.at - SETTLE_SECONDS]
        return max(near, key=lambda each: each.at).pod if near else None
