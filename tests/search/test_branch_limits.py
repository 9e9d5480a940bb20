"""A search of the core that ends early claims no bound above the optimum, nor a false optimum.

No clock: the count of branches is the end, so every machine looks at the same moments.
"""

from __future__ import annotations

import pytest

from extender.search import solver
from extender.search.problem import Limits, Problem, Solution, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.stop import Countdown
from extender.search.problem.verify import verify
from extender.search.seating.spread import settled
from tests.search.build import COMPILED
from tests.search.gangs import leader_and_workers, one_kind

pytestmark = pytest.mark.skipif(not COMPILED, reason="of the compiled core")

FOREVER = 1e18
LIMITS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60, 100, 200, 300, 600)


def claims(problem: Problem, most: int) -> tuple[Vector | None, Vector | None]:
    """(cost of the answer, bound of what was left open) after at most so many branches."""
    from extender.search.core.branch_and_bound import BranchAndBound
    from extender.search.core.columns import Columns

    core = BranchAndBound(Columns(problem), b"\x01" * len(problem.nodes))
    chosen, bound, closed, _ = core.search(None, most, FOREVER, None)
    assert closed == (bound is None)
    return None if chosen is None else cost_of(problem, chosen), bound


@pytest.mark.parametrize("seed", [3, 12, 18, 31, 34, 60])
def test_what_a_search_cut_anywhere_claims_holds(seed: int) -> None:
    """Seeds 12 and 34: a level's bound was raised and the program cut off, and the bounds of the
    later levels, which held of the lower one, stayed: too high together. Seed 60: such a bound
    closed a branch that held the optimum, and what was left was called optimal."""
    problem = settled(one_kind(seed))
    optimum, open_bound = claims(problem, 20_000)
    assert open_bound is None
    assert optimum is not None
    for most in LIMITS:
        cost, bound = claims(problem, most)
        told = f"{most} branches: {cost}, at least {bound}; optimum {optimum}"
        assert cost is None or cost >= optimum, told
        if bound is None:
            assert cost == optimum, told
        else:
            assert bound <= optimum, told


def test_nor_does_a_gang_of_several_classes_whose_questions_are_cut() -> None:
    """The workers alone, after 300 branches, seemed to cost more than the whole gang does."""
    problem = leader_and_workers(700_166)
    known = solver.search(problem, Limits(20_000))
    assert isinstance(known, Solution)
    assert verify(problem, known) == ()
    for asks in (10_000, 30_000, 100_000, 300_000):
        cut = solver.search(problem, Limits(2_000), cancel=Countdown(asks))
        assert isinstance(cut, Solution)
        assert cut.bound <= known.cost, (asks, cut, known.cost)
