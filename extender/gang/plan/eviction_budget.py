"""How many pods the gangs of one namespace may have evicted within an hour.

The preemptor's namespace is what counts: priority says whom a gang may evict, this says
how often its owners may do so. A sliding window; times are given.
"""

from __future__ import annotations

from collections import deque

from extender.model.texts import counted

HOUR = 3600.0
MOST_NAMESPACES = 10_000


class EvictionBudget:
    """Evictions of the last hour, by the preemptor's namespace."""

    def __init__(self, most: int) -> None:
        """``most`` evictions an hour for each namespace; 0: no limit, and nothing is refused."""
        self._most = most
        self._sent: dict[str, deque[tuple[float, int]]] = {}

    def spend(self, namespace: str, evictions: int, now: float) -> None:
        """Count evictions."""
        if evictions <= 0:
            return
        self._sent.setdefault(namespace, deque()).append((now, evictions))
        if len(self._sent) > MOST_NAMESPACES:
            for name in [name for name in self._sent if not self.used(name, now)]:
                del self._sent[name]

    def used(self, namespace: str, now: float) -> int:
        """Return how many were evicted for the namespace within the last hour."""
        sent = self._sent.get(namespace)
        if sent is None:
            return 0
        while sent and now - sent[0][0] >= HOUR:
            sent.popleft()
        if not sent:
            del self._sent[namespace]
        return sum(evictions for _, evictions in sent)

    def totals(self, now: float) -> dict[str, int]:
        """Return the evictions of the last hour of every namespace that has any."""
        found = {namespace: self.used(namespace, now) for namespace in list(self._sent)}
        return {namespace: used for namespace, used in found.items() if used}

    def exceeded(self, namespace: str, planned: int, on_the_way: int, now: float) -> str:
        """Return why ``planned`` more may not be evicted now, "" when they may.

        ``on_the_way``: evictions of the namespace's other plans that are not counted yet.
        """
        if not self._most or planned <= 0:
            return ""
        used = self.used(namespace, now) + on_the_way
        if used + planned <= self._most:
            return ""
        return (
            f"namespace {namespace} may have {counted(self._most, 'pod')} evicted an hour "
            f"(eviction.perNamespaceHour): {used} were evicted in the last hour, "
            f"and this plan would evict {planned}"
        )
