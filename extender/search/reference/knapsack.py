"""The cheapest of a node's units that release a given amount: the plain search's knapsack.

Several resources, lexicographic cost. A branch looks at the resource whose need is
dearest to meet (at least so many more units, at the cheapest prices among those
that release it), and takes one of its units or leaves it out for good. A unit is
not taken where a cheaper one that releases no less was left out.
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
        self.best: Price | None = None
        self.taken: tuple[int, ...] = ()
        self.patience = PATIENCE

    def run(self) -> Covering | None:
        everything = tuple(range(len(self.items)))
        measured = self._measure(everything, self.need)
        if measured is None:
            return None
        self._descend(everything, (), self.need, self.zero, ())
        if self.best is None:
            return Covering(measured[0], tuple(item.unit for item in self.items))
        bound = self.best if self.patience > 0 else measured[0]
        return Covering(bound, tuple(self.items[i].unit for i in self.taken))

    def _measure(self, open_: Sequence[int], need: Sequence[int]) -> tuple[Price, int] | None:
        """(price still to pay at least, dearest needed resource or -1); None: too little."""
        bound, dearest = self.zero, -1
        for r, want in enumerate(need):
            if want <= 0:
                continue
            useful = [i for i in open_ if self.items[i].amounts[r] > 0]
            if sum(self.items[i].amounts[r] for i in useful) < want:
                return None
            count = -(-want // max(self.items[i].amounts[r] for i in useful))
            price = self.zero
            for i in useful[:count]:
                price = total(price, self.items[i].price)
            if dearest < 0 or price > bound:
                bound, dearest = price, r
        return bound, dearest

    def _descend(
        self,
        open_: tuple[int, ...],
        left_out: tuple[int, ...],
        need: tuple[int, ...],
        paid: Price,
        taken: tuple[int, ...],
    ) -> None:
        if self.patience <= 0:
            return
        self.patience -= 1
        measured = self._measure(open_, need)
        if measured is None or self._beaten(total(paid, measured[0])):
            return
        if measured[1] < 0:
            self.best, self.taken = paid, taken
            return
        for i in [i for i in open_ if self.items[i].amounts[measured[1]] > 0]:
            price = total(paid, self.items[i].price)
            if self._beaten(price):
                return
            open_ = tuple(k for k in open_ if k != i)
            if not any(k < i and self._no_less(k, i, need) for k in left_out):
                rest = tuple(
                    want - have for want, have in zip(need, self.items[i].amounts, strict=True)
                )
                self._descend(open_, left_out, rest, price, (*taken, i))
            left_out = (*left_out, i)

    def _beaten(self, price: Price) -> bool:
        return self.best is not None and price >= self.best

    def _no_less(self, a: int, b: int, need: Sequence[int]) -> bool:
        """Whether item a releases at least as much as b of everything still needed."""
        return all(
            x >= y
            for x, y, want in zip(self.items[a].amounts, self.items[b].amounts, need, strict=True)
            if want > 0
        )
