"""Nodes that kube-scheduler has named for pods, for a while: bounded by names, shared by namespace.

A list may have every node of the cluster in it, and each pod that waits has one. What a pod is, and
how many wait, is a tenant's to choose: whoever has most in here loses its oldest.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable

from msgspec import Struct

from extender.model.objects import Pod

MEMORY_SECONDS = 60.0
MOST_NAMES = 500_000
"""Of all pods together. One takes a hundred bytes of a set at most; equal ones are one string."""
NOTHING: frozenset[str] = frozenset()


class _Accepted(Struct, frozen=True):
    names: frozenset[str]
    until: float
    namespace: str


class AcceptedNodes:
    """Node names by pod uid. ``monotonic`` gives seconds."""

    def __init__(self, monotonic: Callable[[], float], most: int = MOST_NAMES) -> None:
        self._now = monotonic
        self._most = most
        self._kept: OrderedDict[str, _Accepted] = OrderedDict()
        """Uid -> what was named; the oldest first."""
        self._of: dict[str, OrderedDict[str, None]] = {}
        """Namespace -> uids, the oldest first."""
        self._sizes: Counter[str] = Counter()
        """Namespace -> how many names it has."""
        self.size = 0
        """How many names there are."""

    def __contains__(self, uid: str) -> bool:
        return self.get(uid) is not None

    def get(self, uid: str) -> frozenset[str] | None:
        """Return the nodes named for the pod within the minute, None when there were none."""
        known = self._kept.get(uid)
        return known.names if known is not None and self._now() < known.until else None

    def add(self, pod: Pod, nodes: Iterable[str]) -> None:
        """Note that these were named for the pod as well."""
        now = self._now()
        while self._kept and next(iter(self._kept.values())).until <= now:
            self._drop(next(iter(self._kept)))
        named = frozenset(map(sys.intern, nodes))
        known = self.get(pod.uid) or NOTHING
        names = known if named <= known else known | named
        self._drop(pod.uid)
        self._kept[pod.uid] = _Accepted(names, now + MEMORY_SECONDS, pod.namespace)
        self._of.setdefault(pod.namespace, OrderedDict())[pod.uid] = None
        self._sizes[pod.namespace] += len(names)
        self.size += len(names)
        while self.size > self._most and len(self._kept) > 1:
            most = max(self._others(pod), key=lambda name: self._sizes[name])
            self._drop(next(iter(self._of[most])))

    def _others(self, newest: Pod) -> list[str]:
        """Return the namespaces that have more than the pod that was just added."""
        return [name for name, uids in self._of.items() if next(iter(uids)) != newest.uid]

    def _drop(self, uid: str) -> None:
        known = self._kept.pop(uid, None)
        if known is None:
            return
        uids = self._of[known.namespace]
        del uids[uid]
        self._sizes[known.namespace] -= len(known.names)
        self.size -= len(known.names)
        if not uids:
            del self._of[known.namespace]
            del self._sizes[known.namespace]
