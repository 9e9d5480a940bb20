"""An answer for a hint: any will do, and it is searched for briefly. Pure."""

from __future__ import annotations

from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.problem.stop import Stop
from extender.search.solver import solve

FEW = Limits(branch_nodes=1_000)


def any_answer(problem: Problem, stop: Stop) -> Solution | Infeasible:
    """Return what a short search finds. Raises OutOfTime."""
    return solve(problem, FEW, deadline=stop.deadline or None, cancel=stop.cancel)
