"""A relaxation in which every node is on its own: lower bounds, and units to try.

What couples nodes is let go: a unit that spans m nodes may be chosen on some of
them, at an m-th of its cost each; the break of a gang is shared among its pods;
budgets with pods left cost nothing; several classes count as one that asks the
least of each resource. Then each node has a frontier, the least cost of 1, 2,
... more seats there, and the demand takes the steps of the frontiers' lower
hulls by cost per seat. That is a lower bound of every true answer: whatever an
answer chooses, its parts on the nodes are allowed here and cost no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from math import ceil

from msgspec import Struct

from extender.search.problem import Problem, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.stop import Stop
from extender.search.reference.knapsack import Covering, Item, Price, cover, total
from extender.search.seating.room import Room


class HullStep(Struct, frozen=True):
    """One step of a node's lower hull."""

    rate: Price
    """Cost per seat."""
    node: int
    start: int
    end: int
    """Seats before and after the step."""


class NodeBound(Struct, frozen=True):
    """What the relaxation says about one branch."""

    bound: Vector
    units: tuple[int, ...]
    """Units it chooses, whole; with the branch's own they make enough relaxed seats."""
    first: int | None
    """The unit to branch on: a spanning one before a dear one. None: nothing is open."""


class NodeBounds:
    """The relaxation of one region; keeps node frontiers while they stay valid."""

    def __init__(self, problem: Problem, room: Room, units: Sequence[int], base: Vector) -> None:
        self.problem = problem
        self._base = base
        self._region = room.region
        active = [cls for cls in problem.classes if cls.count]
        least = [
            min((cls.request[r] for cls in active), default=0)
            for r in range(len(problem.resources))
        ]
        self._asked = [r for r, amount in enumerate(least) if amount > 0]
        self._request = [least[r] for r in self._asked]
        self._room = room
        self._touched = {u: room.touched(u) for u in units}
        self._on_node: dict[int, list[int]] = {n: [] for n in self._region}
        for u in units:
            for n in self._touched[u]:
                self._on_node[n].append(u)
        self._amounts = {
            (u, n): tuple(amounts[r] for r in self._asked)
            for u in units
            for n, amounts in problem.units[u].releases
        }
        of_gang = Counter(unit.gang for unit in problem.units)
        self._members = [of_gang[g] for g in range(len(problem.gangs))]
        self._frontiers: dict[
            int, tuple[object, list[tuple[Price, tuple[int, ...]]], list[HullStep]]
        ]
        self._frontiers = {}

    def price(self, unit: int, gone: Sequence[int]) -> Price:
        """What one node pays at least for its part of the unit.

        ``gone`` counts, per gang, the pods already chosen.
        """
        rule = self.problem.units[unit]
        price: list[Fraction | int] = list(rule.cost)
        for b, pods in rule.budgets:
            budget = self.problem.budgets[b]
            if not budget.hard and budget.allowed == 0:
                price[budget.level] += pods
        if rule.gang >= 0 and self.problem.gangs[rule.gang].surplus == 0 and not gone[rule.gang]:
            for level, amount in enumerate(self.problem.gangs[rule.gang].break_cost):
                if amount:
                    price[level] += Fraction(amount, self._members[rule.gang])
        parts = len(self._touched[unit])
        if parts > 1:
            price = [Fraction(amount, parts) if amount else 0 for amount in price]
        return tuple(price)

    def relax(
        self, chosen: Collection[int], open_units: Collection[int], stop: Stop | None = None
    ) -> NodeBound | None:
        """Bound and picks for a branch; the room holds exactly its chosen (and free) units.

        None when even the relaxation does not reach the demand. Raises OutOfTime.
        """
        gone = [0] * len(self.problem.gangs)
        for u in chosen:
            if self.problem.units[u].gang >= 0:
                gone[self.problem.units[u].gang] += 1
        undecided = set(open_units)
        seats = 0
        steps: list[HullStep] = []
        for n in self._region:
            seats += self._seats(n)
            if self._on_node[n]:
                steps += self._steps(n, undecided, gone, stop)
        base = list(cost_of(self.problem, chosen))
        value: Price = tuple(a + b for a, b in zip(base, self._base, strict=True))
        demand = max(self.problem.need, sum(cls.least for cls in self.problem.classes)) - seats
        picked: dict[int, int] = {}
        steps.sort(key=lambda step: (step.rate, step.node, step.start))
        for step in steps:
            if demand <= 0:
                break
            used = min(step.end - step.start, demand)
            value = tuple(a + b * used for a, b in zip(value, step.rate, strict=True))
            picked[step.node] = step.start + used
            demand -= used
        if demand > 0:
            return None
        units: dict[int, int] = {}
        for n, count in picked.items():
            for u in self._frontiers[n][1][count][1]:
                units[u] = units.get(u, 0) + 1
        return NodeBound(_raised(value), tuple(sorted(units)), self._branch(units, undecided))

    def _branch(self, units: dict[int, int], undecided: set[int]) -> int | None:
        """Spanning units chosen on the fewest of their nodes first, then the dearest."""
        every: Iterable[int] = units or undecided
        return max(
            every,
            key=lambda u: (
                len(self._touched[u]) - units.get(u, 0),
                len(self._touched[u]),
                self.problem.units[u].cost,
                u,
            ),
            default=None,
        )

    def _limit(self, n: int) -> int:
        return self._room.limit(n)

    def _seats(self, n: int) -> int:
        """Relaxed seats on n now: never fewer than the true ones."""
        if self._room.shut(n):
            return 0
        fits = self._limit(n)
        amounts = self._room.amounts(n)
        for r, ask in zip(self._asked, self._request, strict=True):
            fits = min(fits, max(0, amounts[r]) // ask)
        return fits

    def _steps(
        self, n: int, undecided: set[int], gone: Sequence[int], stop: Stop | None
    ) -> list[HullStep]:
        here = [u for u in self._on_node[n] if u in undecided]
        gangs = tuple(
            gone[g] > 0 for g in sorted({self.problem.units[u].gang for u in here} - {-1})
        )
        key = (tuple(here), gangs, self._room.amounts(n), self._room.shut(n))
        known = self._frontiers.get(n)
        if known is not None and known[0] == key:
            return known[2]
        rows = self._frontier(n, here, gone, stop)
        steps = hull(n, [price for price, _ in rows])
        self._frontiers[n] = (key, rows, steps)
        return steps

    def _frontier(
        self, n: int, here: Sequence[int], gone: Sequence[int], stop: Stop | None
    ) -> list[tuple[Price, tuple[int, ...]]]:
        """[k] = (least price, units) of k more relaxed seats on n."""
        levels = len(self.problem.levels)
        zero: Price = (0,) * levels
        now = self._seats(n)
        forced = [u for u in here if self._room.must(u, n)]
        if self._room.shut(n) > len(forced):
            return [(zero, ())]
        nothing = (0,) * len(self._asked)
        items = sorted(
            (
                Item(self.price(u, gone), self._amounts.get((u, n), nothing), u)
                for u in here
                if u not in forced
            ),
            key=lambda item: (item.price, self.problem.units[item.unit].uid),
        )
        paid = zero
        amounts = self._room.amounts(n)
        have = [amounts[r] for r in self._asked]
        for u in forced:
            paid = total(paid, self.price(u, gone))
            released = self._amounts.get((u, n), nothing)
            have = [a + b for a, b in zip(have, released, strict=True)]
        rows: list[tuple[Price, tuple[int, ...]]] = [(zero, ())]
        for seats in range(now + 1, self._limit(n) + 1):
            if stop is not None:
                stop.check()
            need = [ask * seats - a for ask, a in zip(self._request, have, strict=True)]
            found: Covering | None = cover(items, need, levels)
            if found is None:
                break
            rows.append((total(paid, found.bound), (*forced, *found.units)))
        return rows


def hull(node: int, prices: Sequence[Price]) -> list[HullStep]:
    """Steps of the lower convex hull of prices over seats, by rising rate."""
    steps: list[HullStep] = []
    for end in range(1, len(prices)):
        start = end - 1
        rate = _rate(prices, start, end)
        while steps and steps[-1].rate >= rate:
            start = steps.pop().start
            rate = _rate(prices, start, end)
        steps.append(HullStep(rate, node, start, end))
    return steps


def _rate(prices: Sequence[Price], start: int, end: int) -> Price:
    return tuple(
        (b - a) if end - start == 1 else Fraction(b - a, end - start)
        for a, b in zip(prices[start], prices[end], strict=True)
    )


def _raised(value: Price) -> Vector:
    """The least whole vector that is not below: up at the first fraction, nothing after it."""
    raised: list[int] = []
    for level, amount in enumerate(value):
        raised.append(ceil(amount))
        if raised[-1] != amount:
            return (*raised, *(0 for _ in value[level + 1 :]))
    return tuple(raised)
