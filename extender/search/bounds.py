"""A lower bound of what a branch must still pay.

Each undecided unit adds at most so many seats, wherever it is used; the seats
that are missing must come from some of them. Per cost level that is a
fractional knapsack; rounded up, the levels together bound the cost vector from
below, since a vector that is nowhere smaller is not lexicographically smaller.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from extender.search.cost import cost_of
from extender.search.problem import Problem, Vector
from extender.search.room import Room


class Bound:
    """Bounds for the branches of one region; built while every unit is chosen."""

    def __init__(self, problem: Problem, room: Room, units: Sequence[int], base: Vector) -> None:
        self._problem = problem
        self._room = room
        self._units = tuple(units)
        self._base = base
        self._gain = {u: self._most_seats(u) for u in units}
        position = {u: at for at, u in enumerate(self._units)}
        self._levels: list[tuple[int, list[tuple[int, int, int]]]] = []
        for level in range(len(problem.levels)):
            priced = [u for u in units if self._gain[u]]
            if any(problem.units[u].cost[level] for u in priced):
                ratio = {u: Fraction(problem.units[u].cost[level], self._gain[u]) for u in priced}
                priced.sort(key=ratio.__getitem__)
                rows = [(position[u], problem.units[u].cost[level], self._gain[u]) for u in priced]
                self._levels.append((level, rows))

    def _most_seats(self, unit: int) -> int:
        """Seats that choosing the unit can add on its nodes, whatever else is chosen.

        Two limits per node: all seats there with every unit chosen, and, for
        each resource, the seats that its amount alone could carry. The smaller
        of two resources never moves by more than the larger of their moves.
        """
        seats = 0
        releases = dict(self._problem.units[unit].releases)
        for n in self._room.touched(unit):
            most = self._room.seats_on(n)
            if len(self._problem.classes) == 1 and not self._room.lifts(unit, n):
                request = self._problem.classes[0].request
                amounts = releases.get(n, ())
                most = min(
                    most,
                    max(
                        (
                            -(-have // ask)
                            for have, ask in zip(amounts, request, strict=True)
                            if ask
                        ),
                        default=0,
                    ),
                )
            seats += most
        return seats

    def given(self, chosen: Sequence[int], position: int) -> Vector:
        """Lower bound when ``chosen`` is fixed and units from ``position`` on are open.

        The room must hold exactly the chosen (and the free) units.
        """
        total = list(cost_of(self._problem, chosen))
        for level, amount in enumerate(self._base):
            total[level] += amount
        missing = max(0, self._problem.need - self._room.seats)
        if not missing:
            return tuple(total)
        for level, rows in self._levels:
            left, paid, extra = missing, 0, 0
            for at, cost, gain in rows:
                if at < position:
                    continue
                if gain >= left:
                    extra = -(-(cost * left) // gain)
                    break
                left -= gain
                paid += cost
            total[level] += paid + extra
        return tuple(total)
