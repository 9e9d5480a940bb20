"""Costs at the edge of what fields hold, asked of HiGHS over columns: nothing overflows."""

from __future__ import annotations

import random
import time

import pytest
from msgspec.structs import replace

from extender.search import highs, solver
from extender.search.highs import column_rows
from extender.search.problem import Infeasible, Limits, Problem
from extender.search.problem.verify import verify
from tests.search.build import COMPILED
from tests.search.oracle_brute import brute
from tests.search.test_highs import everyone, openly

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(not highs.available() or not COMPILED, reason="needs highspy and the core"),
]
FACTORS = (1, 1, 10**6, 10**12, 3 * 10**14, 2 * 10**15, 10**16)


def dearer(problem: Problem, seed: int) -> Problem:
    """The same with some costs of each level far larger."""
    rng = random.Random(seed)
    factors = [rng.choice(FACTORS) for _ in problem.levels]
    share = rng.choice((0.3, 1.0))

    def large(cost: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(
            paid * (factor if rng.random() < share else 1)
            for paid, factor in zip(cost, factors, strict=True)
        )

    return replace(
        problem,
        units=tuple(replace(unit, cost=large(unit.cost)) for unit in problem.units),
        gangs=tuple(replace(gang, break_cost=large(gang.break_cost)) for gang in problem.gangs),
    )


def test_large_costs_of_small_problems_by_brute_force() -> None:
    """Weighed, or added up over all columns, they left an int64; HiGHS takes no row of them."""
    asked = closed = 0
    for seed in range(400):
        problem = dearer(everyone(seed), seed)
        poor = openly(solver.search(problem, Limits(branch_nodes=0)))
        sets = solver._node_sets(problem)
        if isinstance(poor, Infeasible) or poor.optimal or not column_rows.covers(problem):
            continue
        least = brute(problem)
        assert least is not None
        answer = highs.improve(problem, poor, time.monotonic() + 600, None, sets)
        told = f"seed {seed}: {answer}, by brute force {least}"
        assert verify(problem, answer) == (), told  # type: ignore[arg-type]
        assert answer.bound <= least <= answer.cost, told  # type: ignore[union-attr]
        asked += 1
        closed += answer.optimal  # type: ignore[union-attr]
    assert asked > closed > 5
