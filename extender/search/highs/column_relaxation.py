"""The relaxation over columns: prices, and what any prices prove, counted in whole numbers.

HiGHS only proposes prices, in floating point. Rounded, they give a lower bound of what everything
costs (Lagrangian relaxation), and for each variable what an answer costs at least that moves it
from its better end. Of many columns the relaxation begins with some, and takes others that its
prices say are worth it, until there are none (column generation).
"""

from __future__ import annotations

from math import ceil, inf, isfinite, log2
from typing import Any

from msgspec import Struct

from extender.search.highs import package
from extender.search.highs.column_rows import OPEN_END, ColumnProgram
from extender.search.problem.stop import Stop

MANY = 5_000
"""Columns that the relaxation begins with, and that it takes at a time."""
MOST_BITS = 24
"""Of a price, behind the point."""
PRIMAL = 4
"""HiGHS' simplex_strategy: another objective and more columns leave the point where it is."""


class Floor(Struct):
    """What prices prove: no answer costs less than ``least``; both in 2^-bits."""

    least: int
    rise: Any
    """(variables,) what an answer costs more that moves the variable by one from its better end,
    which is the lower one where this is positive, else the upper one."""
    bits: int

    @property
    def bound(self) -> int:
        """As a whole cost."""
        return max(0, -(-self.least >> self.bits))


class ColumnRelaxation:
    """A linear program over some of the columns; those not in it count all the same."""

    def __init__(self, program: ColumnProgram, worth: Any, stop: Stop) -> None:
        """``worth`` (variables,): the lowest are begun with, and those without a column."""
        import numpy as np

        self.program, self.stop = program, stop
        self.held: list[tuple[Any, int]] = []
        """(variables,) costs of a level and what they may add up to: the last rows."""
        inside = np.ones(program.variables, dtype=bool)
        if program.columns > MANY:
            order = np.lexsort((-program.weight(), worth[: program.columns]))
            inside[order[MANY:]] = False
        self.inside = inside.nonzero()[0]
        """Its variables, in its order, and"""
        self.outside = ~inside
        """which are not among them."""
        self.cost = np.zeros(program.variables, dtype=np.int64)
        self.highs = package.fresh(model(program, inside), None)
        self.highs.setOptionValue("simplex_strategy", PRIMAL)

    def hold(self, cost: Any, most: int) -> None:
        """From now on these costs add up to that at most."""
        import numpy as np

        self.held.append((cost, most))
        mine = cost[self.inside]
        columns = mine.nonzero()[0].astype(np.int32)
        values = mine[columns].astype(float)
        self.highs.addRow(-inf, float(most), len(columns), columns, values)

    def let_go(self) -> None:
        """Forget what was held last."""
        self.held.pop()
        self.highs.deleteRows(1, [self.highs.getNumRow() - 1])

    def bounds_changed(self) -> None:
        """The program's bounds are others now."""
        import numpy as np

        every = np.arange(len(self.inside), dtype=np.int32)
        low, high = self.program.low[self.inside], self.program.high[self.inside]
        self.highs.changeColsBounds(len(every), every, low.astype(float), high.astype(float))

    def floor(self, cost: Any) -> Floor | None:
        """What the best prices for these costs prove; None without time or without any point."""
        import numpy as np

        self.cost = cost
        every = np.arange(len(self.inside), dtype=np.int32)
        self.highs.changeColsCost(len(every), every, cost[self.inside].astype(float))
        while True:
            left = self.stop.seconds
            if left <= 0 or self.stop.over():
                return None
            self.highs.setOptionValue("time_limit", self.highs.getRunTime() + left)
            self.highs.run()
            solution = self.highs.getSolution()
            feasible = solution.dual_valid
            # Where these columns hold no point at all, the ray says which rows forbid it, and so
            # which others are missing, whatever they cost (Farkas' lemma).
            prices = np.array(solution.row_dual if feasible else self.highs.getDualRay()[2])
            if len(prices) != len(solution.row_dual):
                return None
            of = cost if feasible else np.zeros_like(cost)
            floor = proved(self.program, self.held, of, np.nan_to_num(prices))
            if floor is None:
                return None
            better = self._missing(floor)
            if not len(better):
                return floor if feasible else None
            self._add(better)

    def away(self, ends: Any) -> Any:
        """(variables,) whether the relaxation has them away from these ends."""
        import numpy as np

        values = ends.astype(float)
        values[self.inside] = self.highs.getSolution().col_value
        return np.abs(values - ends) > 1e-6

    def _missing(self, floor: Floor) -> Any:
        """Columns that the relaxation lacks and that make it cheaper; of many the best a node."""
        import numpy as np

        program = self.program
        better = self.outside & (floor.rise < 0) & (program.high > 0)
        wanted = better.nonzero()[0]
        if len(wanted) <= MANY:
            return wanted
        order = wanted[np.argsort(floor.rise[wanted], kind="stable")]
        first = np.unique(program.node[order], return_index=True)[1]
        return np.sort(order[np.sort(first)][:MANY])

    def _add(self, which: Any) -> None:
        """Take these columns in."""
        import numpy as np

        program, first = self.program, self.program.column_first
        many = np.diff(first)[which]
        start = np.concatenate(([0], np.cumsum(many)))
        entries = np.repeat(first[which] - start[:-1], many) + np.arange(start[-1])
        column = np.repeat(np.arange(len(which)), many)
        row, value = program.entry_row[entries], program.entry_value[entries]
        for i, (cost, _) in enumerate(self.held):
            mine = cost[which].nonzero()[0]
            column = np.concatenate((column, mine))
            row = np.concatenate((row, np.full(len(mine), len(program.row_low) + i)))
            value = np.concatenate((value, cost[which][mine]))
        order = np.argsort(column, kind="stable")
        start = np.searchsorted(column[order], np.arange(len(which)))
        self.highs.addCols(
            len(which),
            self.cost[which].astype(float),
            program.low[which].astype(float),
            program.high[which].astype(float),
            len(order),
            start.astype(np.int32),
            row[order].astype(np.int32),
            value[order].astype(float),
        )
        self.inside = np.concatenate((self.inside, which))
        self.outside[which] = False


def model(program: ColumnProgram, inside: Any, cost: Any = None, ends: Any = None) -> Any:
    """These variables as HiGHS' program, of whole numbers where a ``cost`` is given; the others are
    at their ``ends``, or not there."""
    import numpy as np

    highspy = package.loaded()
    places = np.cumsum(inside) - 1
    mine = inside[program.entry_column]
    row, column = program.entry_row[mine], places[program.entry_column[mine]]
    value = program.entry_value[mine]
    low, high = program.row_low, program.row_high
    if ends is not None:
        rest = np.where(inside, 0, ends)
        aside = np.zeros(len(low), dtype=np.int64)
        fixed = rest[program.entry_column].nonzero()[0]
        moved = program.entry_value[fixed] * rest[program.entry_column[fixed]]
        np.add.at(aside, program.entry_row[fixed], moved)
        low = np.where(low > -OPEN_END, low - aside, low)
        high = np.where(high < OPEN_END, high - aside, high)
    order = np.argsort(row, kind="stable")
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = int(inside.sum()), len(low)
    lp.col_cost_ = np.zeros(lp.num_col_) if cost is None else cost[inside].astype(float)
    lp.col_lower_ = program.low[inside].astype(float)
    lp.col_upper_ = program.high[inside].astype(float)
    lp.row_lower_ = np.where(low > -OPEN_END, low.astype(float), -inf)
    lp.row_upper_ = np.where(high < OPEN_END, high.astype(float), inf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.searchsorted(row[order], np.arange(len(low) + 1)).astype(np.int32)
    lp.a_matrix_.index_ = column[order].astype(np.int32)
    lp.a_matrix_.value_ = value[order].astype(float)
    if cost is not None:
        lp.integrality_ = [highspy.HighsVarType.kInteger] * lp.num_col_
    return lp


def proved(
    program: ColumnProgram, held: list[tuple[Any, int]], cost: Any, prices: Any
) -> Floor | None:
    """What these prices of the rows, those held last, prove, whatever they are: whole numbers."""
    import numpy as np

    rows, low, high = len(program.row_low), program.row_low, program.row_high
    bits = _bits(program, held, cost, prices)
    if bits is None:
        return None
    whole = np.rint(prices * float(1 << bits)).astype(np.int64)
    mine = whole[:rows]
    mine[(mine > 0) & (low == -OPEN_END)] = 0
    mine[(mine < 0) & (high == OPEN_END)] = 0
    parts = np.zeros(len(program.entry_row) + 1, dtype=np.int64)
    np.cumsum(program.entry_value * mine[program.entry_row], out=parts[1:])
    first = program.column_first
    rise = (cost << bits) - (parts[first[1:]] - parts[first[:-1]])
    least = int((mine * np.where(mine > 0, low, np.where(mine < 0, high, 0))).sum())
    for price, (row, most) in zip(whole[rows:].tolist(), held, strict=True):
        rise -= min(0, price) * row
        least += min(0, price) * most
    least += int(np.where(rise < 0, rise * program.high, rise * program.low).sum())
    return Floor(least, rise, bits)


def _bits(
    program: ColumnProgram, held: list[tuple[Any, int]], cost: Any, prices: Any
) -> int | None:
    """So many behind the point that each sum of ``proved`` is an int64; None where none are."""
    import numpy as np

    rows = len(program.row_low)
    size = np.abs(prices)
    ends = np.where(prices[:rows] > 0, program.row_low, program.row_high)
    ends = np.where(np.abs(ends) < OPEN_END, np.abs(ends), 0)
    entries = np.abs(program.entry_value) * size[program.entry_row]
    most = float(cost.astype(float) @ program.high) + float(size[:rows] @ ends)
    most += float((entries * np.maximum(1, program.high[program.entry_column])).sum())
    for price, (row, limit) in zip(size[rows:].tolist(), held, strict=True):
        most += price * (limit + float(row.sum()) + float(row @ program.high))
    if not isfinite(most):
        return None
    bits = min(MOST_BITS, 60 - ceil(log2(most + 2)))
    return bits if bits > 0 else None
