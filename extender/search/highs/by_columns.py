"""The second opinion where nodes have few sets of units: level by level, over their columns.

First an answer is looked for that loses nothing at the most important levels (sparing.py), and is
good at all others. Then for each level the relaxation's
prices give a lower bound and, for each variable, what an answer costs at least that moves it
(column_relaxation.py). What costs more than the answer there is stays where it is for good: of
thousands of columns some tens to hundreds remain. Over those HiGHS is asked for whole numbers, a
few of them first: what was left out costs more than what was looked for, so that a cheap answer
among the few is the optimum.
"""

from __future__ import annotations

from math import ceil, inf, isfinite
from typing import Any

from extender.search.highs import package, sparing
from extender.search.highs.column_relaxation import ColumnRelaxation, Floor, model
from extender.search.highs.column_rows import ColumnProgram, Sets
from extender.search.highs.package import CUT, MOST_COST, OPTIMAL, ROUNDING
from extender.search.highs.rows import needed
from extender.search.problem import Problem, Solution, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.stop import Stop
from extender.search.problem.verify import verify

FEW = 400
"""Variables of the first program of whole numbers; each further one has four times as many."""
MOST_WHOLE = 6_000
"""Variables of any program of whole numbers: of larger ones HiGHS may forget the time, as it did
of 7,952 of leader_and_workers(900004) while it had its presolve: 53 s where it was given 1."""
GOOD = 0.02
"""So near to the best of its kind an answer may be that is only looked for."""
MOST_WEIGHT, MOST_TOGETHER = 10_000, 10**8
"""Of a level against the next one, and of the first against the last, where an answer is looked for
that is good at all of them."""
MOST_SUM = 2.0**53
"""Of all variables' costs, weighed: floats hold them."""


def improve(
    problem: Problem, before: Solution, sure: Vector, sets: Sets, stop: Stop
) -> tuple[Solution, Vector] | None:
    """The best answer now and a bound of all answers; None where nothing was found out.

    ``sure``: what was proved of the first levels before. Answers that lose nothing at the levels
    after those are looked for first: any of them is better than one that does, and what is
    proved of the cheapest of them holds of all answers."""
    seated = {n for _, n, _ in before.seats}
    for end in (*sparing.prefixes(problem, before, len(sure)), len(sure)):
        if stop.over():
            return None
        nothing = sparing.nothing_lost(sure, end)
        program = ColumnProgram(problem, sets, before.cost, nothing, stop.over, seated)
        if not program.complete or not program.columns:
            continue
        search = ByColumns(program, before, sure, stop)
        if not search.begin():
            continue
        bound = search.settle()
        levels = len(problem.levels)
        return search.best, tuple((*bound, *[0] * levels)[:levels])
    return None


class ByColumns:
    """One problem with an answer, minimised level by level."""

    def __init__(self, program: ColumnProgram, before: Solution, sure: Vector, stop: Stop) -> None:
        self.program, self.stop = program, stop
        self.problem = program.problem
        self.sure = (*sure, *[0] * len(program.cost))
        self.best = before
        self.point = program.point(before)
        """(variables,) the best answer, or None where it is no point of the program."""

    def begin(self) -> bool:
        """Look for an answer that is good at all levels; whether there is one now."""
        if self.point is not None:
            self._take(self.point)
        worth = self._together(0).astype(float)
        worth[: self.program.columns] /= self.program.weight()
        if self.point is not None:
            worth[self.point != 0] = -1.0
        self.relaxation = ColumnRelaxation(self.program, worth, self.stop)
        self._look(0)
        return self.point is not None

    def settle(self) -> list[int]:
        """Minimise until the end, from a first answer on: the bound, as far as it is known."""
        bound: list[int] = []
        for level, cost in enumerate(self.program.cost):
            # In units of which the answer costs no more than floats tell apart, rounded down.
            unit = max(1, -(-self._cost(cost) // MOST_COST))
            asked, sure = _clipped(cost // unit), self.sure[level]
            least = max(sure, unit * self._minimise(level, asked, sure if unit == 1 else 0))
            if least > self._cost(cost):
                return []  # floats went astray somewhere: nothing of it is believed
            bound.append(least)
            if least < self._cost(cost):
                break
            if least:
                self.relaxation.hold(asked, least // unit)
            else:
                self.program.high[cost > 0] = 0
                self.relaxation.bounds_changed()
        return bound

    def _cost(self, cost: Any) -> int:
        return int(cost @ self.point)

    def _together(self, level: int) -> Any:
        """(variables,) cost at this level and all later ones, weighed: as many as floats tell
        apart."""
        import numpy as np

        costs = [cost for cost in self.program.cost[level:] if cost.any()]
        weight = min(MOST_WEIGHT, int(MOST_TOGETHER ** (1 / max(1, len(costs) - 1))))
        together = np.zeros(self.program.variables, dtype=np.int64)
        for cost in costs:
            if together.sum(dtype=float) * weight + cost.sum(dtype=float) > MOST_SUM:
                break
            together = together * weight + cost
        return together

    def _look(self, level: int) -> None:
        """Look for an answer that is good at this level and all later ones."""
        together = self._together(level)
        if not together.any():
            return
        floor = self.relaxation.floor(together)
        if floor is None:
            return
        ends = self._ends(floor)
        taken = (self.program.high > self.program.low) & self.relaxation.away(ends)
        few = FEW
        while few <= MOST_WHOLE:
            inside = taken | self._nearest(floor, few)
            if self._holds():
                inside = self._with_point(inside, ends)
            self._among(inside, ends, together, gap=GOOD)
            if self._holds() or inside.all() or self.stop.over():
                return
            few *= 4

    def _holds(self) -> bool:
        """Whether there is an answer, and it keeps to what the levels may cost."""
        held = self.relaxation.held
        return self.point is not None and all(cost @ self.point <= most for cost, most in held)

    def _away(self, floor: Floor) -> tuple[Any, Any]:
        """(variables,) what moving each costs at least; whether it may be moved."""
        import numpy as np

        free = self.program.high > self.program.low
        return np.where(free, np.abs(floor.rise), 0), free

    def _ends(self, floor: Floor) -> Any:
        """(variables,) the better end of each."""
        import numpy as np

        return np.where(floor.rise < 0, self.program.high, self.program.low)

    def _minimise(self, level: int, cost: Any, least: int) -> int:
        """The least of a level, as far as it becomes known; the answer becomes better meanwhile.

        ``cost``: (variables,) of the level, as it is asked."""
        if not self._cost(cost):
            return 0
        floor = self.relaxation.floor(cost)
        if floor is None:
            return least
        least = max(least, floor.bound)
        self._fix(floor, self._cost(cost))
        if least < self._cost(cost) and self.program.cost[level + 1 :].any():
            # The prices of later levels tell which variables make a good answer, where this
            # level's own tell few apart.
            self.relaxation.hold(cost, least)
            self._look(level + 1)
            self.relaxation.let_go()
        least = self._close(floor, cost, least)
        self._fix(floor, self._cost(cost))
        return least

    def _close(self, floor: Floor, cost: Any, least: int) -> int:
        """Whole numbers for a level: its cost falls and its bound rises until they meet."""
        few, ends = FEW, self._ends(floor)
        while least < self._cost(cost):
            self._fix(floor, self._cost(cost))
            inside, wanted = self._within(floor, least, few, self._cost(cost))
            if inside.sum() > MOST_WHOLE:
                if few > MOST_WHOLE:
                    return least
                # No proof comes of these, but perhaps an answer that leaves fewer.
                few, inside = 2 * MOST_WHOLE, self._nearest(floor, MOST_WHOLE // 2)
                self._among(self._with_point(inside, ends), ends, cost)
                continue
            free = self.program.high > self.program.low
            everything = not (free & ~inside).any()
            sure = self._among(self._with_point(inside, ends), ends, cost)
            if sure is None:
                return least
            least = max(least, sure if everything else min(sure, wanted + 1))
            if sure < self._cost(cost):
                return least  # HiGHS was cut off
            few = max(4 * few, 2 * int(inside.sum()))
        return least

    def _within(self, floor: Floor, least: int, few: int, most: int) -> tuple[Any, int]:
        """(variables,) all that an answer of some cost may move, and that cost: one at which they
        are about so ``few``, between ``least`` and ``most``."""
        import numpy as np

        away, free = self._away(floor)
        if free.sum() > few:
            nearest = int(np.partition(away[free], few)[few])
            most = min(most, max(least, (floor.least + nearest) >> floor.bits))
        return free & (floor.least + away <= most << floor.bits), most

    def _nearest(self, floor: Floor, few: int) -> Any:
        """(variables,) so many that move at least cost."""
        import numpy as np

        away, free = self._away(floor)
        order = np.argsort(away, kind="stable")
        inside = np.zeros(len(free), dtype=bool)
        inside[order[free[order]][:few]] = True
        return inside

    def _with_point(self, inside: Any, ends: Any) -> Any:
        """(variables,) these, and what the answer needs of others."""
        free = self.program.high > self.program.low
        return inside | (free & (ends != self.point))

    def _fix(self, floor: Floor, most: int) -> None:
        """What no answer of at most this cost moves stays at its end for good."""
        import numpy as np

        program, ends = self.program, self._ends(floor)
        gone = floor.least + np.abs(floor.rise) > most << floor.bits
        program.low[gone] = ends[gone]
        program.high[gone] = ends[gone]
        self.relaxation.bounds_changed()

    def _among(self, inside: Any, ends: Any, cost: Any, gap: float = 0.0) -> int | None:
        """Minimise over these variables, the others at their ends: what that costs at least, by
        HiGHS. None where it has nothing to say."""
        import numpy as np

        left = self.stop.seconds
        if inside.sum() > MOST_WHOLE or left <= 0 or self.stop.over():
            return None
        highs = package.fresh(model(self.program, inside, cost, ends), self.stop.cancel)
        rest = np.where(inside, 0, ends)
        for row, most in self.relaxation.held:
            mine = row[inside]
            columns = mine.nonzero()[0].astype(np.int32)
            limit = float(most - int(row @ rest))
            highs.addRow(-inf, limit, len(columns), columns, mine[columns].astype(float))
        if self._holds():
            start = package.loaded().HighsSolution()
            start.col_value = self.point[inside].astype(float).tolist()
            highs.setSolution(start)
        highs.setOptionValue("time_limit", left)
        highs.setOptionValue("mip_rel_gap", gap)
        # The prices have presolved it; what presolve finds besides takes longer than the answer,
        # and it forgets the time (three_kinds(1, 3000): 0.75 s where it was given 0.5).
        highs.setOptionValue("presolve", "off")
        highs.run()
        status = str(highs.getModelStatus().name)
        if status != OPTIMAL and status not in CUT:
            return None
        solution = highs.getSolution()
        if solution.value_valid:
            values = rest.copy()
            values[inside] = np.rint(np.array(solution.col_value)).astype(np.int64)
            self._take(values)
        bound = highs.getInfo().mip_dual_bound
        return max(0, ceil(bound - ROUNDING) + int(cost @ rest)) if isfinite(bound) else 0

    def _take(self, values: Any) -> None:
        """Keep what HiGHS found where that is an answer, and no worse than what is there."""
        program = self.program
        program.switch_on(values)
        seats, chosen = program.read(values)
        chosen = needed(self.problem, seats, chosen)
        cost = cost_of(self.problem, chosen)
        nothing = (0,) * len(cost)
        answer = Solution(seats, tuple(sorted(chosen)), cost, nothing, optimal=cost == nothing)
        if verify(self.problem, answer):
            return
        if self.point is None:
            kept = answer.cost < self.best.cost
        else:
            kept = (program.cost @ values).tolist() <= (program.cost @ self.point).tolist()
        if kept:
            self.point = values
            # Without the units that its seats do not need, the best before may be the cheaper one.
            if answer.cost <= self.best.cost:
                self.best = answer


def _clipped(cost: Any) -> Any:
    """(variables,) a level's cost, where more than an answer that is asked about may cost is just
    too much: sums stay far from the end of an int64, and HiGHS takes no row with larger numbers."""
    import numpy as np

    return np.minimum(cost, MOST_COST + 1)
