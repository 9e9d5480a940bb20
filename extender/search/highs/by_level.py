"""A second opinion from HiGHS, where it is installed: proofs for small contested problems.

The extra ``highs`` is optional: without it fewer answers are proved, and none is lost. HiGHS
is asked what the project's own search left open, level by level: the cost of one level is
minimised with the levels before it held at what they are. It computes in floating point, so

- rows hold whole numbers below 2^20 (rows.py), and a level is asked only while its cost stays
  below ``MOST_COST``: a bound is then off by far less than the half that rounding forgives;
- of HiGHS only its bound is believed, and that only as far as it does not contradict an answer;
- its answer counts as far as ``verify`` finds nothing wrong with it, in integers, with its cost
  counted anew; what it calls infeasible it is asked twice, in different ways.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import cache
from importlib import import_module
from math import ceil, inf, isfinite
from time import monotonic
from typing import Any

from msgspec import Struct

from extender.search.highs.rows import Row, Rows, covers
from extender.search.problem import Infeasible, Problem, Solution, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.stop import Flag, Stop
from extender.search.problem.unanswered import no_answer
from extender.search.problem.verify import verify

MOST_UNITS, MOST_SEATS = 6_000, 4_000
"""Units, and classes times nodes, of a problem that is asked: more take longer than there is."""
MOST_COST = 1_000_000
"""Of a level that is asked, the most that an answer known costs there."""
ROUNDING = 0.01
"""By so much a bound may be too high: far more than the tolerances allow at such costs."""

OPTIONS: dict[str, object] = {
    "output_flag": False,
    "threads": 1,
    "mip_rel_gap": 0.0,
    "mip_abs_gap": 0.0,
    "mip_feasibility_tolerance": 1e-7,
    # Like units on like nodes are many, and what is found of them is not worth the time.
    "mip_detect_symmetry": False,
    # An answer is mostly there, or found by rounding: what remains is the proof.
    "mip_heuristic_run_feasibility_jump": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_rens": False,
}


@cache
def _package() -> Any:
    """highspy, or None where it is not installed."""
    try:
        return import_module("highspy")
    except ImportError:
        return None


def available() -> bool:
    """Whether HiGHS can be asked at all. The first call loads it: some 0.1 s."""
    return _package() is not None


def takes(problem: Problem) -> bool:
    """Whether the (settled) problem is one that HiGHS may be asked about."""
    return (
        len(problem.units) <= MOST_UNITS
        and len(problem.nodes) * len(problem.classes) <= MOST_SEATS
        and covers(problem)
        and available()
    )


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
OPTIMAL, NO_ANSWER = "kOptimal", "kInfeasible"
CUT = ("kTimeLimit", "kInterrupt")
"""HiGHS' own words: names of HighsModelStatus."""


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
) -> Solution | Infeasible:
    """The better answer and the higher bound of what was found and what HiGHS finds until the
    ``deadline`` (a time.monotonic value). ``takes(problem)`` holds, ``found`` is not proved."""
    stop = Stop(None, deadline, cancel)
    before = found if isinstance(found, Solution) else None
    known = _Levels(problem, before, stop).settle()
    if known is None:
        return found
    if known.infeasible:
        return no_answer(problem, None, stop, unproved=False)
    answer = known.answer
    if answer is None:
        return found
    bound = known.bound if before is None else max(known.bound, before.bound)
    if bound > answer.cost:
        return found  # floats went astray somewhere: nothing of it is believed
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


class _Levels:
    """The program of one problem, minimised level by level."""

    def __init__(self, problem: Problem, before: Solution | None, stop: Stop) -> None:
        self.problem, self.before, self.stop = problem, before, stop
        levels = range(len(problem.levels))
        self.sure: list[int] = []
        """The least cost of the first levels, as far as the search before has proved it."""
        if before is not None:
            for cost, least in zip(before.cost, before.bound, strict=True):
                if cost != least:
                    break
                self.sure.append(cost)
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
        package, rows = _package(), self.rows
        import numpy

        program = package.HighsLp()
        program.num_col_, program.num_row_ = len(rows.low), len(rows.row_low)
        program.col_cost_ = numpy.zeros(len(rows.low))
        program.col_lower_, program.col_upper_ = numpy.array(rows.low), numpy.array(rows.high)
        program.row_lower_ = numpy.array(rows.row_low)
        program.row_upper_ = numpy.array(rows.row_high)
        program.a_matrix_.format_ = package.MatrixFormat.kRowwise
        program.a_matrix_.start_ = numpy.array(rows.start)
        program.a_matrix_.index_ = numpy.array(rows.index)
        program.a_matrix_.value_ = numpy.array(rows.value)
        program.integrality_ = [package.HighsVarType.kInteger] * len(rows.low)
        highs = package.Highs()
        for name, value in OPTIONS.items():
            highs.setOptionValue(name, value)
        highs.passModel(program)
        cancel = self.stop.cancel
        if cancel is not None:

            def ask(event: Any) -> None:
                if cancel[0]:
                    event.interrupt()

            highs.cbMipInterrupt += ask
        return highs

    def _hold(self, row: Row, most: int) -> None:
        if row:
            import numpy

            columns = numpy.array(list(row), dtype=numpy.int32)
            costs = numpy.array(list(row.values()), dtype=float)
            self.highs.addRow(-inf, float(most), len(row), columns, costs)

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
            start = _package().HighsSolution()
            start.col_value = [float(value) for value in self.point]
            highs.setSolution(start)
        highs.setOptionValue("time_limit", left)
        highs.run()
        return str(highs.getModelStatus().name)

    def _minimise(self, row: Row) -> Settled:
        """Settle one level."""
        most = sum(row.values()) if self.point is None else self._sum(row)
        if most > MOST_COST:
            return Settled.OPEN
        if self.point is not None and not most:
            self.proved.append(0)
            return Settled.PROVED
        status = self._run(row)
        if status == NO_ANSWER:
            return Settled.INFEASIBLE if self.point is None else Settled.CONTRADICTION
        if status != OPTIMAL and status not in CUT:
            return Settled.OPEN
        self._take()
        bound = self.highs.getInfo().mip_dual_bound
        least = max(0, ceil(bound - ROUNDING)) if isfinite(bound) else 0
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
