"""The best answer that a search of several regions has found so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from extender.search.problem import Vector

if TYPE_CHECKING:
    from extender.search.reference.region import Region

BestFound = tuple[Vector, tuple[int, ...], tuple[tuple[int, int, int], ...]]
"""Cost, units, seats of an answer."""


class BestAnswer:
    """The best answer so far, over all regions."""

    def __init__(self) -> None:
        self.cost: Vector | None = None
        self.chosen: frozenset[int] = frozenset()
        self.search: Region | None = None
        self.seats: tuple[tuple[int, int, int], ...] = ()
        self.last_resort: Callable[[], BestFound | None] | None = None
        """A quick way to an answer that asks no clock, where the searches have none of their
        own: taken once, before the exact search goes beyond its first relaxation, or at the
        end that comes before that. So a search with more time is never worse."""

    def resort(self, search: Region) -> None:
        """Take the last resort, unless it was."""
        ask, self.last_resort = self.last_resort, None
        found = ask() if ask is not None else None
        if found is not None and (self.cost is None or found[0] < self.cost):
            self.cost, self.chosen, self.seats = found[0], frozenset(found[1]), found[2]
            self.search = search

    def offer(self, cost: Vector, chosen: frozenset[int], search: Region) -> bool:
        """Keep it when it is cheaper than what is known; the region's room holds it now."""
        if self.cost is not None and self.cost <= cost:
            return False
        self.seats = search.room.place()
        self.cost, self.chosen, self.search = cost, chosen, search
        return True

    def beaten_by(self, bound: Vector) -> bool:
        """Whether nothing at or above this bound can be better."""
        return self.cost is not None and bound >= self.cost
