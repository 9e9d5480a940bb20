"""Which part of the nodes one attempt looks at.

Source: numFeasibleNodesToFind and findNodesThatPassFilters in pkg/scheduler/schedule_one.go of 1.36
and 1.37: filters are run on one node after the other until enough have passed, and the next attempt
goes on with the node after the last one. Extenders are asked about those that passed.
"""

from __future__ import annotations

from collections.abc import Iterable

SMALLEST = 100
"""minFeasibleNodesToFind."""


class NodeSampling:
    """Where one scheduler's attempts begin and end. ``smallest``: nodes that are looked for at
    least."""

    def __init__(self, smallest: int = SMALLEST) -> None:
        self._smallest = smallest
        self._next = 0

    def most(self, nodes: int) -> int:
        """Return how many of so many nodes are enough: 50 to 5 percent, as by default."""
        if nodes <= self._smallest:
            return nodes
        return max(self._smallest, nodes * max(5, 50 - nodes // 125) // 100)

    def order(self, names: Iterable[str]) -> list[str]:
        """Return the nodes in the order in which this attempt looks at them."""
        found = sorted(names)
        start = self._next % len(found) if found else 0
        return found[start:] + found[:start]

    def looked_at(self, count: int, nodes: int) -> None:
        """Note how many an attempt has looked at, of how many."""
        self._next = (self._next + count) % max(1, nodes)
