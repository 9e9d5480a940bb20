"""Which nodes kube-scheduler itself has accepted for members with needs we do not model.

Volumes and claimed devices decide on their own where a pod can go. For such a
member only nodes count that kube-scheduler has named lately: in filter those it
accepts now, in preempt those it would accept after evictions there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

from cachetools import TTLCache

from extender.model.gang import Gang
from extender.model.objects import Pod

MEMORY_SECONDS = 60.0
MAX_PODS = 65536
MAX_SCHEDULERS = 100


class Evidence:
    """Accepted nodes by pod uid, remembered for a minute."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._accepted: TTLCache[str, frozenset[str]] = TTLCache(
            maxsize=MAX_PODS, ttl=MEMORY_SECONDS, timer=monotonic
        )
        self._now = monotonic
        self.asked_at = -inf
        """Monotonic time at which kube-scheduler asked about a pod last."""
        self.schedulers: frozenset[str] = frozenset()
        """Those that have asked about a pod."""

    def accepts(self, pod: Pod, nodes: Iterable[str]) -> None:
        """Note that kube-scheduler named these nodes for the pod."""
        self.asked_at = self._now()
        if pod.shape.scheduler not in self.schedulers and len(self.schedulers) < MAX_SCHEDULERS:
            self.schedulers |= {pod.shape.scheduler}
        if pod.shape.unmodelled:
            known = self._accepted.get(pod.uid, frozenset())
            self._accepted[pod.uid] = known.union(nodes)

    def unseen(self, gang: Gang) -> Pod | None:
        """Return a member for whose kind no node was ever named, None when all is known."""
        seen = {_kind(pod) for pod in gang.pending if pod.uid in self._accepted}
        for pod in gang.pending:
            if pod.shape.unmodelled and _kind(pod) not in seen:
                return pod
        return None

    def masks(self, gang: Gang, nodes: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return, per member uid, the nodes that nobody has named for its kind."""
        by_kind: dict[object, frozenset[str]] = {}
        for pod in gang.pending:
            known = self._accepted.get(pod.uid)
            if known is not None and pod.shape.unmodelled:
                by_kind[_kind(pod)] = by_kind.get(_kind(pod), frozenset()) | known
        if not by_kind:
            return {}
        everything = frozenset(nodes)
        return {
            pod.uid: everything - by_kind[_kind(pod)]
            for pod in gang.pending
            if _kind(pod) in by_kind
        }


def _kind(pod: Pod) -> object:
    return (pod.requests, pod.shape)
