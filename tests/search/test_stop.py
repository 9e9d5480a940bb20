"""A search ends when it shall, with the best answer it has, whatever it was doing."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable

import pytest

from extender.search import reference, solver
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.verify import verify
from tests.search.build import COMPILED
from tests.search.gangs import leader_and_workers, one_kind, three_kinds
from tests.search.generate import kinds, medium, medium_mixed, small, tied

MORE = 0.05
"""Seconds of work that a search may need to come to an end."""
GENERATORS: list[Callable[[int], Problem]] = [
    small,
    medium,
    medium_mixed,
    kinds,
    tied,
    leader_and_workers,
    three_kinds,
    one_kind,
]
SEEDS = 12


def cpu_seconds(problem: Problem, seconds: float) -> tuple[float, Solution | Infeasible]:
    """CPU time beyond a deadline that this thread's own CPU time has reached, and the answer.

    The deadline is on the wall clock; time that other processes took is given back.
    """
    started, cpu = time.monotonic(), time.thread_time()
    answer = solver.solve(problem, deadline=started + seconds)
    return time.thread_time() - cpu - seconds, answer


@pytest.mark.skipif(not COMPILED, reason="the plain search takes long for a first answer")
@pytest.mark.parametrize("seconds", [0.02, 0.2])
@pytest.mark.parametrize("generator", GENERATORS, ids=lambda generator: generator.__name__)
def test_an_answer_within_the_deadline(
    generator: Callable[[int], Problem], seconds: float
) -> None:
    over = []
    for seed in range(SEEDS):
        problem = generator(seed)
        late, answer = cpu_seconds(problem, seconds)
        over.append(late)
        if isinstance(answer, Solution):
            assert verify(problem, answer) == (), f"seed {seed}"
    assert max(over) < MORE, over
