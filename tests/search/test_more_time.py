"""More time never gives a worse answer, and none a refusal of what fits.

No clock: a ``Countdown`` ends the search at its N-th question of whether to go on, which is
the same moment of the same search on every machine. N runs from none to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from extender.search import solver
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.stop import Countdown
from extender.search.verify import verify
from tests.search.build import COMPILED
from tests.search.gangs import leader_and_workers, one_kind, three_kinds
from tests.search.generate import kinds, medium, medium_mixed, small, tied
from tests.search.test_many_kinds import asked_for, many_zones, own_nodes, own_spreads

Generator = Callable[[int], Problem]
MOST = 1 << 40


def moments(asks: int) -> Iterator[int]:
    """Ends worth a look of a search that asks so often: early ones close together."""
    at = 0
    while at < asks:
        yield at
        at += 1 + at // 2


def stopped(problem: Problem, asks: int, branches: int) -> tuple[Solution | Infeasible, int]:
    """The answer of a search that ends when it has asked so often, and how often it did."""
    stop = Countdown(asks)
    answer = solver.solve(problem, Limits(branches), cancel=stop)
    return answer, asks - max(0, stop.asks[0])


CASES: list[tuple[Generator, range, int]] = [
    (small, range(150), 2_000),
    (medium, range(4), 200),
    (medium_mixed, range(8), 100),
    (kinds, range(8), 100),
    (tied, range(12), 400),
]
MANY = (asked_for, own_nodes, own_spreads, many_zones)


def many_kinds(number: int) -> Problem:
    """More kinds of members than are solved as they are."""
    return MANY[number]()


LARGE: list[tuple[Generator, range, int]] = [
    (leader_and_workers, range(3), 60),
    (three_kinds, range(2), 60),
    (one_kind, range(6), 400),
    (many_kinds, range(len(MANY)), 20),
]


@pytest.mark.parametrize(
    ("generator", "seeds", "branches"),
    CASES + LARGE if COMPILED else CASES[:1],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_more_time_is_never_worse(generator: Generator, seeds: range, branches: int) -> None:
    for seed in seeds:
        problem = generator(seed)
        longest, asks = stopped(problem, MOST, branches)
        before: Solution | None = None
        for moment in moments(asks):
            answer, _ = stopped(problem, moment, branches)
            told = f"seed {seed}, {moment} of {asks}: {answer}, before {before}, in the end {longest}"
            if isinstance(answer, Infeasible):
                assert isinstance(longest, Infeasible), told
                continue
            assert verify(problem, answer) == (), told
            assert before is None or answer.cost <= before.cost, told
            before = answer
        if before is not None:
            assert isinstance(longest, Solution), f"seed {seed}: {before}"
            assert longest.cost <= before.cost, f"seed {seed}: {longest} {before}"
