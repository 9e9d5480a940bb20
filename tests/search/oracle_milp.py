"""The same problem as a mixed-integer program for HiGHS; shares no code with the solvers.

Binaries: unit u chosen, gang g broken, member class c let onto node n, seats in
topology domain d. Integers: members of c on n. Continuous: the excess over soft
budgets. The cost levels are minimised one after the other, each fixed at its
optimum before the next. HiGHS computes in floating point, so amounts are divided
by their greatest common divisor, the answer is rounded, and its cost is counted
again in integers; a caller verifies feasibility by other means.
"""

from __future__ import annotations

from functools import reduce
from math import gcd

import highspy

from extender.search.problem import Problem, Vector

Row = dict[int, float]


class Model:
    """The program of one problem."""

    def __init__(self, problem: Problem, *, seconds: float = 60.0) -> None:
        self.problem = problem
        self.highs = highspy.Highs()
        self.highs.setOptionValue("output_flag", False)  # noqa: FBT003 - takes no keyword
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.setOptionValue("mip_abs_gap", 0.0)
        self.highs.setOptionValue("mip_feasibility_tolerance", 1e-7)
        self.highs.setOptionValue("time_limit", seconds)
        self.columns = 0
        self.chosen = [self._column(0, 1) for _ in problem.units]
        self.broken = [self._column(0, 1) for _ in problem.gangs]
        self.excess = [self._column(0, None, whole=False) for _ in problem.budgets]
        self.seats = {
            (c, n): self._column(0, cls.count)
            for c, cls in enumerate(problem.classes)
            for n in range(len(problem.nodes))
            if cls.allowed[n]
        }
        self._members()
        self._room()
        self._rules()
        self._spreads()
        self.scattered = self._domain()

    def _column(self, low: int, high: int | None, *, whole: bool = True) -> int:
        most = highspy.kHighsInf if high is None else float(high)
        self.highs.addVar(float(low), most)
        if whole:
            self.highs.changeColIntegrality(self.columns, highspy.HighsVarType.kInteger)
        self.columns += 1
        return self.columns - 1

    def _row(self, low: float | None, high: float | None, entries: Row) -> None:
        self.highs.addRow(
            -highspy.kHighsInf if low is None else low,
            highspy.kHighsInf if high is None else high,
            len(entries),
            list(entries),
            list(entries.values()),
        )

    def _members(self) -> None:
        self._row(float(self.problem.need), None, dict.fromkeys(self.seats.values(), 1.0))
        for c, cls in enumerate(self.problem.classes):
            mine: Row = {x: 1.0 for (k, _), x in self.seats.items() if k == c}
            self._row(float(cls.least), float(cls.count), mine)

    def _room(self) -> None:
        """Per node and resource: members <= free + releases, where somebody asks.

        Negative room on a node counts only where a member uses the resource; a
        class asking for some of it then needs the switch "c is on n".
        """
        problem = self.problem
        released: dict[int, list[tuple[int, Vector]]] = {}
        for u, unit in enumerate(problem.units):
            for n, amounts in unit.releases:
                released.setdefault(n, []).append((u, amounts))
        for n in range(len(problem.nodes)):
            for r in range(len(problem.resources)):
                asking = {
                    self.seats[c, n]: cls.request[r]
                    for c, cls in enumerate(problem.classes)
                    if (c, n) in self.seats and cls.request[r]
                }
                if not asking:
                    continue
                free = problem.free[r][n]
                freed = {
                    self.chosen[u]: amounts[r] for u, amounts in released.get(n, []) if amounts[r]
                }
                scale = reduce(gcd, [free, *asking.values(), *freed.values()])
                row: Row = {x: ask / scale for x, ask in asking.items()}
                for x, amount in freed.items():
                    row[x] = -amount / scale
                if free < 0:
                    # Without members the node may stay short: a slack as large as the debt.
                    used = self._column(0, 1)
                    for x in asking:
                        most = max(cls.count for cls in problem.classes)
                        self._row(None, 0.0, {x: 1.0, used: -float(most)})
                    row[used] = -free / scale
                    self._row(None, 0.0, row)
                else:
                    self._row(None, free / scale, row)

    def _rules(self) -> None:
        problem = self.problem
        for g, gang in enumerate(problem.gangs):
            units = [self.chosen[u] for u, unit in enumerate(problem.units) if unit.gang == g]
            if len(units) > gang.surplus:
                row: Row = dict.fromkeys(units, 1.0)
                row[self.broken[g]] = -float(len(units) - gang.surplus)
                self._row(None, float(gang.surplus), row)
        for b, budget in enumerate(problem.budgets):
            row = {}
            for u, unit in enumerate(problem.units):
                for index, pods in unit.budgets:
                    if index == b:
                        row[self.chosen[u]] = float(pods)
            if not budget.hard:
                row[self.excess[b]] = -1.0
            self._row(None, float(budget.allowed), row)
        for blocker in problem.blockers:
            if (blocker.cls, blocker.node) in self.seats:
                x = self.seats[blocker.cls, blocker.node]
                for u in set(blocker.units):
                    count = problem.classes[blocker.cls].count
                    self._row(None, 0.0, {x: 1.0, self.chosen[u]: -float(count)})
        for cap in problem.caps:
            for domain in sorted({d for d in cap.domain if d >= 0}):
                row = {
                    x: 1.0
                    for (c, n), x in self.seats.items()
                    if c in cap.classes and cap.domain[n] == domain
                }
                self._row(None, float(cap.limit), row)

    def _spreads(self) -> None:
        """The least count per rule is a column; a switch per domain says "bound members here"."""
        for spread in self.problem.spreads:
            total = sum(self.problem.classes[c].count for c in set(spread.counted))
            floor = self._column(0, 0 if spread.from_zero else None)
            inside: dict[int, Row] = {
                d: {
                    x: 1.0
                    for (c, n), x in self.seats.items()
                    if c in spread.counted and spread.domain[n] == d
                }
                for d in range(len(spread.most))
            }
            for d, row in inside.items():
                self._row(-float(spread.fewest[d]), None, {**row, floor: -1.0})
                held = self._column(0, 1)
                for (c, n), x in self.seats.items():
                    if c in spread.bound and spread.domain[n] == d:
                        count = float(self.problem.classes[c].count)
                        self._row(None, 0.0, {x: 1.0, held: -count})
                slack = float(max(0, spread.most[d] + total - spread.max_skew))
                limit = float(spread.max_skew - spread.most[d]) + slack
                self._row(None, limit, {**row, floor: -1.0, held: slack})

    def _domain(self) -> int | None:
        """One domain holds every seat, or (preferred) the returned switch is paid for."""
        problem = self.problem
        if problem.domain is None:
            return None
        scattered = None if problem.domain_required else self._column(0, 1)
        inside = {d: self._column(0, 1) for d in sorted(set(problem.domain)) if d >= 0}
        self._row(None, 1.0, dict.fromkeys(inside.values(), 1.0))
        for (c, n), x in self.seats.items():
            row: Row = {x: 1.0}
            if problem.domain[n] >= 0:
                row[inside[problem.domain[n]]] = -float(problem.classes[c].count)
            if scattered is not None:
                row[scattered] = -float(problem.classes[c].count)
            self._row(None, 0.0, row)
        return scattered

    def level(self, at: int) -> Row:
        """The cost at one level as a row over the columns."""
        row: Row = {}
        for u, unit in enumerate(self.problem.units):
            if unit.cost[at]:
                row[self.chosen[u]] = float(unit.cost[at])
        for g, gang in enumerate(self.problem.gangs):
            if gang.break_cost[at]:
                row[self.broken[g]] = float(gang.break_cost[at])
        for b, budget in enumerate(self.problem.budgets):
            if not budget.hard and budget.level == at:
                row[self.excess[b]] = 1.0
        if self.scattered is not None and self.problem.domain_level == at:
            row[self.scattered] = 1.0
        return row

    def solve(self) -> Vector | None:
        """The least cost vector, or None where nothing fits.

        Raises TimeoutError when HiGHS does not finish a level in time.
        """
        cost: list[int] = []
        for at in range(len(self.problem.levels)):
            row = self.level(at)
            for column in range(self.columns):
                self.highs.changeColCost(column, row.get(column, 0.0))
            self.highs.run()
            status = self.highs.getModelStatus()
            if status in (
                highspy.HighsModelStatus.kInfeasible,
                highspy.HighsModelStatus.kUnboundedOrInfeasible,
            ):
                return None
            if status != highspy.HighsModelStatus.kOptimal:
                raise TimeoutError(str(status))
            value = round(self.highs.getInfo().objective_function_value)
            cost.append(value)
            if row:
                self._row(None, value + 0.25, row)
        return tuple(cost)


def milp(problem: Problem, *, seconds: float = 60.0) -> Vector | None:
    """The least cost vector by HiGHS, or None where nothing fits."""
    return Model(problem, seconds=seconds).solve()
