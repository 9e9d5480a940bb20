"""How many bytes of bodies are held at the same time."""

from __future__ import annotations

SMALL = 4 * 1024 * 1024
"""Bodies up to this size may use all of the budget, bigger ones three quarters of it: a few huge
ones must not keep kube-scheduler's own out (5,000 node names are 0.2 MiB)."""


class BudgetSpent(Exception):  # noqa: N818 - reads as the condition it is
    """There is no room for more of a body now."""


class Budget:
    """Bytes that may be held; one event loop only."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0

    def take(self, more: int, size: int) -> None:
        """Hold ``more`` bytes of a body that has ``size`` with them. Raises BudgetSpent."""
        limit = self.limit if size <= SMALL else self.limit * 3 // 4
        if self.held + more > limit:
            raise BudgetSpent
        self.held += more

    def give(self, size: int) -> None:
        """Hold so many bytes no longer."""
        self.held -= size
