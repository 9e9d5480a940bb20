"""The cheapest of a node's units that release a given amount: the plain search's knapsack.

Several resources, lexicographic cost. Depth first over the units in ascending
cost; a branch ends when the units left cannot cover, or when the least number
of units still needed, at the cheapest prices left, reaches the best set known.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TypeAlias

from msgspec import Struct

Price: TypeAlias = tuple[Fraction | int, ...]

PATIENCE = 2_000
"""Branches per question; after that the answer is a bound only."""


class Item(Struct, frozen=True):
    """A unit as one node sees it."""

    price: Price
    """(L,) what choosing it costs here (a share, when it spans nodes)."""
    amounts: tuple[int, ...]
    """(R,) what it releases here."""
    unit: int


class Covering(Struct, frozen=True):
    """``bound`` holds for every set; ``units`` is a set that covers, at best the optimum."""

    bound: Price
    units: tuple[int, ...]


def total(left: Price, right: Price) -> Price:
    """Level by level sum."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def cover(items: Sequence[Item], need: Sequence[int], levels: int) -> Covering | None:
    """Least-cost items whose amounts reach ``need`` (R,) in every resource.

    ``items`` ascend by price. None when all of them together do not cover.
    """
    return _Search(items, need, levels).run()


class _Search:
    def __init__(self, items: Sequence[Item], need: Sequence[int], levels: int) -> None:
        self.items = items
        self.need = tuple(need)
        self.zero: Price = (0,) * levels
        self.sums = [(0,) * len(need)]
        self.largest = [(0,) * len(need)]
        for item in reversed(items):
            self.sums.append(tuple(a + b for a, b in zip(item.amounts, self.sums[-1], strict=True)))
            self.largest.append(
                tuple(max(a, b) for a, b in zip(item.amounts, self.largest[-1], strict=True))
            )
        self.sums.reverse()
        self.largest.reverse()
        self.best: Price | None = None
        self.best_units: tuple[int, ...] = ()
        self.patience = PATIENCE

    def run(self) -> Covering | None:
        least = self._fewest(0, self.need)
        if least is None:
            return None
        bound = self._cheapest(0, least)
        self._descend(0, self.need, self.zero, ())
        if self.best is None:
            return Covering(bound, tuple(item.unit for item in self.items))
        return Covering(self.best if self.patience > 0 else bound, self.best_units)

    def _fewest(self, start: int, need: Sequence[int]) -> int | None:
        """At least so many items from ``start`` on are needed; None when all are too few."""
        count = 0
        for have, most, want in zip(self.sums[start], self.largest[start], need, strict=True):
            if want > 0:
                if have < want:
                    return None
                count = max(count, -(-want // most))
        return count

    def _cheapest(self, start: int, count: int) -> Price:
        price = self.zero
        for item in self.items[start : start + count]:
            price = total(price, item.price)
        return price

    def _descend(
        self, start: int, need: Sequence[int], paid: Price, taken: tuple[int, ...]
    ) -> None:
        while self.patience > 0:
            self.patience -= 1
            count = self._fewest(start, need)
            if count is None:
                return
            if self.best is not None and total(paid, self._cheapest(start, count)) >= self.best:
                return
            if count == 0:
                self.best, self.best_units = paid, taken
                return
            item = self.items[start]
            if any(a > 0 and w > 0 for a, w in zip(item.amounts, need, strict=True)):
                rest = tuple(w - a for a, w in zip(item.amounts, need, strict=True))
                self._descend(start + 1, rest, total(paid, item.price), (*taken, item.unit))
            start += 1
