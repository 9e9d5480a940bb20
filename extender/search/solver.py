"""The one entry of the search: check the problem, pick the solver that can take it."""

from __future__ import annotations

from extender.search import reference
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.reference import Flag
from extender.search.validate import validate

BACKEND = "reference"
"""Which solver answers: "compiled", or "reference" where no extension was built."""


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """The cheapest seats and victims with proof or bound, or why there are none.

    ``deadline`` is a ``time.monotonic`` value for the compiled core; the plain
    search reads no clock and stops at ``limits.branch_nodes`` or when
    ``cancel[0]`` becomes non-zero. Raises InvalidInput for a malformed problem.
    """
    validate(problem)
    return reference.solve(problem, limits, cancel=cancel)
