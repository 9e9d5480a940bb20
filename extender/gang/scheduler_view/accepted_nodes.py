"""Nodes that kube-scheduler has named for pods, for a while: bounded by names, shared by namespace.

A list may have every node of the cluster in it, and each pod that waits has one. What a pod is, and
how many wait, is a tenant's to choose: whoever has most in here loses its oldest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

from msgspec import Struct

from extender.gang.runtime.clocks import Clocks
from extender.model.objects import Pod
from extender.model.shares import Shares

MEMORY_SECONDS = 60.0
MOST_NAMES = 500_000
"""Of all pods together. One takes a hundred bytes of a set at most; equal ones are one string."""
NOTHING: frozenset[str] = frozenset()


class _Accepted(Struct, frozen=True):
    names: frozenset[str]
    until: float


class AcceptedNodes:
    """Node names by pod uid."""

    def __init__(self, clocks: Clocks, most: int = MOST_NAMES) -> None:
        self._clocks = clocks
        self._kept: Shares[str, _Accepted] = Shares(most)
        """By uid, sized by how many names were named."""

    @property
    def size(self) -> int:
        """How many names there are."""
        return self._kept.size

    def __contains__(self, uid: str) -> bool:
        return self.get(uid) is not None

    def get(self, uid: str) -> frozenset[str] | None:
        """Return the nodes named for the pod within the minute, None when there were none."""
        known = self._kept.get(uid)
        return known.names if known is not None and self._clocks.monotonic() < known.until else None

    def add(self, pod: Pod, nodes: Iterable[str]) -> bool:
        """Note that these were named for the pod as well; return whether one of them is new."""
        now = self._clocks.monotonic()
        self._kept.forget(lambda accepted: accepted.until <= now)
        named = frozenset(map(sys.intern, nodes))
        known = self.get(pod.uid) or NOTHING
        names = known if named <= known else known | named
        kept = _Accepted(names, now + MEMORY_SECONDS)
        self._kept.put(pod.uid, kept, pod.namespace, len(names))
        return names is not known
