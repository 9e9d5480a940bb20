"""A second opinion from HiGHS, where it is installed: proofs for small contested problems.

The extra ``highs`` is optional: without it fewer answers are proved, and none is lost. HiGHS
is asked what the project's own search left open, level by level: the cost of one level is
minimised with the levels before it held at what they are. It computes in floating point, so

- rows hold whole numbers below 2^20 (rows.py), and a level whose cost is above ``MOST_COST`` is
  asked in larger units: a bound is then off by far less than the half that rounding forgives;
- of HiGHS only its bound is believed, and that only as far as it does not contradict an answer;
- its answer counts as far as ``verify`` finds nothing wrong with it, in integers, with its cost
  counted anew; what it calls infeasible it is asked twice, in different ways.
"""

from __future__ import annotations

from enum import Enum, auto
from math import ceil, inf, isfinite
from time import monotonic
from typing import Any

from msgspec import Struct

from extender.search.highs import by_columns, column_rows, package
from extender.search.highs.column_rows import Sets
from extender.search.highs.package import CUT, MOST_COST, NO_ANSWER, OPTIMAL, ROUNDING
from extender.search.highs.rows import Row, Rows, covers
from extender.search.problem import Infeasible, Problem, Solution, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.stop import Flag, Stop
from extender.search.problem.unanswered import no_answer
from extender.search.problem.verify import verify

MOST_UNITS, MOST_SEATS = 6_000, 4_000
"""Units, and classes times nodes, of a problem that is asked: more take longer than there is."""
MOST_SET_UNITS, MOST_SET_SEATS = 30_000, 15_000
"""The same where nodes are asked about by their sets of units."""
CHECKED = 4e-6
"""Seconds that reading and checking an answer takes, for each of these: they are kept back."""


def available() -> bool:
    """Whether HiGHS can be asked at all. The first call loads it: some 0.1 s."""
    return package.loaded() is not None


def takes(problem: Problem) -> bool:
    """Whether the (settled) problem is one that HiGHS may be asked about."""
    small = _is_small(problem)
    large = len(problem.units) <= MOST_SET_UNITS and _seats(problem) <= MOST_SET_SEATS
    by_sets = large and column_rows.covers(problem)
    return (small or by_sets) and covers(problem) and available()


def _seats(problem: Problem) -> int:
    return len(problem.nodes) * len(problem.classes)


def _is_small(problem: Problem) -> bool:
    """Whether members and units may be asked about one by one, and not in sets of nodes only."""
    return len(problem.units) <= MOST_UNITS and _seats(problem) <= MOST_SEATS


class Settled(Enum):
    """How one level's minimum came out."""

    PROVED = auto()
    OPEN = auto()
    INFEASIBLE = auto()
    """HiGHS finds no answer at all."""
    CONTRADICTION = auto()
    """HiGHS contradicts itself, or an answer that is there."""


NOT_RUN = ""
"""In the place of HiGHS' word where it was not asked."""


class Known(Struct):
    """What is certain of a problem so far."""

    answer: Solution | None
    bound: Vector
    """Of every answer's cost."""
    infeasible: bool = False


def improve(
    problem: Problem,
    found: Solution | Infeasible,
    deadline: float,
    cancel: Flag | None = None,
    sets: Sets | None = None,
) -> Solution | Infeasible:
    """The better answer and the higher bound of what was found and what HiGHS finds until the
    ``deadline`` (a time.monotonic value). ``takes(problem)`` holds, ``found`` is not proved.
    ``sets``: core.node_sets.NodeSets, where it was built and holds the problem's numbers."""
    stop = Stop(None, deadline, cancel)
    if isinstance(found, Solution) and sets is not None and column_rows.covers(problem):
        kept = CHECKED * (len(problem.units) + _seats(problem))
        sooner = Stop(None, deadline - kept, cancel)
        told = by_columns.improve(problem, found, _sure(found), sets, sooner)
        if told is not None:
            found = _joined(found, *told, stop)
        if found.optimal or stop.over():
            return found
    if not _is_small(problem):
        return found
    before = found if isinstance(found, Solution) else None
    known = _Levels(problem, before, stop).settle()
    if known is None:
        return found
    if known.infeasible:
        return no_answer(problem, None, stop, unproved=False)
    if known.answer is None:
        return found
    return _joined(before, known.answer, known.bound, stop)


def _sure(found: Solution) -> Vector:
    """The least cost of the first levels, as far as the search before has proved it."""
    sure: list[int] = []
    for cost, least in zip(found.cost, found.bound, strict=True):
        if cost != least:
            break
        sure.append(cost)
    return tuple(sure)


def _joined(before: Solution | None, answer: Solution, bound: Vector, stop: Stop) -> Solution:
    """The answer, no dearer than the one before, with the higher bound."""
    if before is not None:
        if answer.cost > before.cost:
            return before
        bound = max(bound, before.bound)
        if bound > answer.cost:
            return before  # floats went astray somewhere: nothing of it is believed
    optimal = bound == answer.cost
    return Solution(
        seats=answer.seats,
        chosen=answer.chosen,
        cost=answer.cost,
        bound=bound,
        optimal=optimal,
        branch_nodes=before.branch_nodes if before else 0,
        cut="" if optimal else (before and before.cut) or stop.why() or "its work was used up",
    )


def _in_units(row: Row, most: int) -> tuple[int, Row]:
    """Return a level's costs in units of which ``most`` has at most ``MOST_COST``, and the unit.

    They are rounded down, so what HiGHS proves of them holds of the level as well, as far as a
    unit. What costs more than ``most`` stays so, and is no larger than a row may hold.
    """
    unit = max(1, -(-most // MOST_COST))
    return unit, {column: min(cost // unit, MOST_COST + 1) for column, cost in row.items()}


class _Levels:
    """The program of one problem, minimised level by level."""

    def __init__(self, problem: Problem, before: Solution | None, stop: Stop) -> None:
        self.problem, self.before, self.stop = problem, before, stop
        levels = range(len(problem.levels))
        self.sure = () if before is None else _sure(before)
        nothing = [level for level in levels[: len(self.sure)] if not self.sure[level]]
        self.rows = Rows(problem, before.cost if before else None, nothing)
        self.point = None if before is None else self.rows.point(before)
        self.best = before
        self.proved: list[int] = []
        self.rest = 0
        """What the level after the proved ones costs at least."""

    def settle(self) -> Known | None:
        """What was found out until the end; None where HiGHS contradicts itself or an answer."""
        self.highs = self._model()
        for level in range(len(self.problem.levels)):
            row = self.rows.level(level)
            if not row:
                self.proved.append(0)
            elif level < len(self.sure):
                self.proved.append(self.sure[level])
            else:
                settled = self._minimise(row)
                if settled is Settled.INFEASIBLE:
                    return self._infeasible()
                if settled is Settled.CONTRADICTION:
                    return None
                if settled is Settled.OPEN:
                    break
            self._hold(row, self.proved[-1])
        else:
            self._fewest()
        left = len(self.problem.levels) - len(self.proved)
        bound = (*self.proved, self.rest, *[0] * left)[: len(self.problem.levels)]
        return Known(self.best, bound)

    def _model(self) -> Any:
        highspy, rows = package.loaded(), self.rows
        import numpy

        program = highspy.HighsLp()
        program.num_col_, program.num_row_ = len(rows.low), len(rows.row_low)
        program.col_cost_ = numpy.zeros(len(rows.low))
        program.col_lower_, program.col_upper_ = numpy.array(rows.low), numpy.array(rows.high)
        program.row_lower_ = numpy.array(rows.row_low)
        program.row_upper_ = numpy.array(rows.row_high)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = numpy.array(rows.start)
        program.a_matrix_.index_ = numpy.array(rows.index)
        program.a_matrix_.value_ = numpy.array(rows.value)
        program.integrality_ = [highspy.HighsVarType.kInteger] * len(rows.low)
        return package.fresh(program, self.stop.cancel)

    def _hold(self, row: Row, most: int) -> None:
        if row:
            import numpy

            unit, row = _in_units(row, most)
            columns = numpy.array(list(row), dtype=numpy.int32)
            costs = numpy.array(list(row.values()), dtype=float)
            self.highs.addRow(-inf, float(most // unit), len(row), columns, costs)

    def _run(self, row: Row) -> str:
        """Minimise the row; HiGHS' word for how that ended, NOT_RUN without time."""
        import numpy

        left = self.stop.deadline - monotonic()
        if left <= 0 or self.stop.over():
            return NOT_RUN  # what HiGHS tells is of the run before
        costs = numpy.zeros(len(self.rows.low))
        for column, cost in row.items():
            costs[column] = cost
        highs = self.highs
        columns = numpy.arange(len(costs), dtype=numpy.int32)
        highs.changeColsCost(len(costs), columns, costs)
        if self.point is not None:
            start = package.loaded().HighsSolution()
            start.col_value = [float(value) for value in self.point]
            highs.setSolution(start)
        highs.setOptionValue("time_limit", left)
        highs.run()
        return str(highs.getModelStatus().name)

    def _minimise(self, row: Row) -> Settled:
        """Settle one level."""
        most = sum(row.values()) if self.point is None else self._sum(row)
        if self.point is not None and not most:
            self.proved.append(0)
            return Settled.PROVED
        unit, asked = _in_units(row, most)
        status = self._run(asked)
        if status == NO_ANSWER:
            return Settled.INFEASIBLE if self.point is None else Settled.CONTRADICTION
        if status != OPTIMAL and status not in CUT:
            return Settled.OPEN
        self._take()
        bound = self.highs.getInfo().mip_dual_bound
        least = max(0, ceil(bound - ROUNDING)) * unit if isfinite(bound) else 0
        if self.point is None:
            self.rest = least
            return Settled.OPEN
        cost = self._sum(row)
        if least > cost:
            return Settled.CONTRADICTION
        if least < cost:
            self.rest = least
            return Settled.OPEN
        self.proved.append(cost)
        return Settled.PROVED

    def _sum(self, row: Row) -> int:
        assert self.point is not None
        return sum(cost * self.point[column] for column, cost in row.items())

    def _take(self) -> None:
        """Keep what HiGHS found where that is an answer, and no worse than the best."""
        solution = self.highs.getSolution()
        if not solution.value_valid:
            return
        values = [round(value) for value in solution.col_value]
        if len(values) != len(self.rows.low):
            return
        seats, chosen = self.rows.read(values)
        cost = cost_of(self.problem, chosen)
        nothing = (0,) * len(cost)
        answer = Solution(seats, chosen, cost, nothing, optimal=cost == nothing)
        if verify(self.problem, answer):
            return
        if self.best is None or cost <= self.best.cost:
            self.best, self.point = answer, self.rows.point(answer)

    def _fewest(self) -> None:
        """Of equally good answers one without units that it could do without."""
        row = self.rows.weightless()
        if self.point is not None and self._sum(row):
            self._run(row)
            self._take()

    def _infeasible(self) -> Known | None:
        """HiGHS finds no answer at all: whether it says so again, asked in another way."""
        if not any(budget.hard for budget in self.problem.budgets):
            return None  # nothing but a hard budget can stand against an answer here
        self.highs.setOptionValue("presolve", "off")
        self.highs.setOptionValue("random_seed", 1)
        if self._run({}) == NO_ANSWER:
            return Known(None, (), infeasible=True)
        return None
