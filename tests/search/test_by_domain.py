"""Members over topology domains: what the relaxation by domain proves, and what it shares out."""

from __future__ import annotations

from array import array

import pytest
from msgspec.structs import replace

from extender.search import solver
from extender.search.problem import Infeasible, Limits, Problem, Solution, Spread
from extender.search.problem.verify import verify
from tests.search.build import COMPILED, cluster, cost, gang, single
from tests.search.generate import medium_mixed
from tests.search.test_oracles import enclosed


def spread(problem: Problem, *domains: int, skew: int = 1, there: tuple[int, ...] = ()) -> Problem:
    there = there or (0,) * (max(domains) + 1)
    return replace(problem, spreads=(Spread((0,), (0,), array("i", domains), there, there, skew),))


def solved(problem: Problem) -> Solution:
    answer = solver.solve(problem)
    assert isinstance(answer, Solution), answer
    assert verify(problem, answer) == ()
    assert answer.optimal
    return answer


def test_a_gang_over_both_zones_is_paid_once() -> None:
    """It frees a seat in each zone for (1, 2); the singles of zone 1 are of priority 5."""
    units = [gang("both", [0, 2], 3), single("dear-2", 2, 0, 5), single("dear", 3, 3, 5)]
    answer = solved(spread(cluster([0, 0, 0, 0], units, need=2, cpu=3), 0, 0, 1, 1))
    assert answer.chosen == (0,)
    assert answer.cost == cost(1, 2, 1)


def test_a_gang_is_not_taken_for_its_part_in_one_zone() -> None:
    """Zone 0 is free: a single of zone 1 costs less than the gang that sits in both."""
    units = [gang("both", [1, 2], 3), single("one", 3, 3)]
    answer = solved(spread(cluster([3, 0, 0, 0], units, need=2, cpu=3), 0, 0, 1, 1))
    assert answer.cost == cost(1, 1)
    assert answer.chosen == (1,)


def test_pods_there_and_the_skew_shape_the_split() -> None:
    problem = cluster([3] * 6, [], need=3, cpu=3)
    even = solved(spread(problem, 0, 0, 0, 1, 1, 1, there=(2, 0)))
    assert sum(k for _, n, k in even.seats if n < 3) == 0 or len(even.seats) == 3
    held = {n: k for _, n, k in even.seats}
    assert sum(k for n, k in held.items() if n >= 3) >= 2
    assert isinstance(
        solver.solve(spread(cluster([3, 3, 3, 0], [], need=3, cpu=3), 0, 0, 0, 1)), Infeasible
    )
    assert solved(spread(cluster([3, 3, 3, 0], [], need=2, cpu=3), 0, 0, 0, 1, skew=2)).cost == (
        cost(1, 0)
    )


@pytest.mark.oracle
@pytest.mark.skipif(not COMPILED, reason="the plain search proves too few of them")
def test_spread_medium_cases_are_proved_and_equal_to_highs() -> None:
    proved, asked = 0, 0
    for seed in range(2, 66, 4):
        problem = medium_mixed(seed)
        assert problem.spreads
        told = enclosed(seed, problem, solver.solve(problem, Limits(branch_nodes=5000)))
        asked += told is not None
        proved += bool(told)
    assert asked
    assert proved >= asked - 1
