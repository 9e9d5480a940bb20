"""More time never gives a worse answer, and none a refusal of what fits.

No clock: a ``Countdown`` ends the search at its N-th question of whether to go on, which is
the same moment of the same search on every machine. N runs from none to all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from extender.search import solver
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.problem.stop import Countdown
from extender.search.problem.verify import verify
from tests.search.build import COMPILED
from tests.search.gangs import leader_and_workers, one_kind, three_kinds
from tests.search.generate import kinds, medium, medium_mixed, small, tied
from tests.search.scarce import scarce_budgets
from tests.search.test_many_kinds import own_nodes, own_spreads

Generator = Callable[[int], Problem]
MOST = 1 << 40


def moments(asks: int) -> Iterator[int]:
    """Ends worth a look of a search that asks so often: early ones close together."""
    at = 0
    while at < asks:
        yield at
        at += 1 + at


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
MANY = (own_nodes, own_spreads)


def many_kinds(number: int) -> Problem:
    """More kinds of members than are solved as they are."""
    return MANY[number]()


LARGE: list[tuple[Generator, range, int]] = [
    (leader_and_workers, range(2), 20),
    (three_kinds, range(1, 2), 20),
    (one_kind, range(6), 400),
    (many_kinds, range(len(MANY)), 20),
]


def look(generator: Generator, seeds: range, branches: int) -> int:
    """Hold the searches of these problems to the promise; how many that fit were refused."""
    refused = 0
    for seed in seeds:
        problem = generator(seed)
        longest, asks = stopped(problem, MOST, branches)
        before: Solution | None = None
        for moment in moments(asks):
            answer, _ = stopped(problem, moment, branches)
            told = f"seed {seed}, {moment} of {asks}: {answer}, before {before}, last {longest}"
            if isinstance(answer, Infeasible):
                assert before is None, told
                assert isinstance(longest, Infeasible) or not answer.proved, told
                refused += isinstance(longest, Solution)
                continue
            assert verify(problem, answer) == (), told
            assert isinstance(longest, Solution), told
            assert answer.bound <= longest.cost <= answer.cost, told
            assert before is None or answer.cost <= before.cost, told
            before = answer
    return refused


@pytest.mark.parametrize(
    ("generator", "seeds", "branches"),
    CASES + LARGE if COMPILED else CASES[:1],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_more_time_is_never_worse_and_what_fits_is_never_refused(
    generator: Generator, seeds: range, branches: int
) -> None:
    assert look(generator, seeds, branches) == 0


@pytest.mark.skipif(not COMPILED, reason="the plain search looks for first answers by the clock")
def test_scarce_budgets_are_no_reason_to_refuse_what_fits() -> None:
    """Whatever the time is: of these some sixth was refused without any."""
    assert look(scarce_budgets, range(15), 300) == 0


@pytest.mark.skipif(not COMPILED, reason="the plain search looks for first answers by the clock")
def test_nor_is_it_where_every_rule_meets_and_the_clock_is_asked_from_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Small problems reach every rule; here they are not answered before the clock is asked.
    With hard budgets and rules over nodes together a first answer may then be missed."""
    monkeypatch.setattr(solver, "FEW_NODES", -1)
    assert look(small, range(400), 300) <= 14


@pytest.mark.skipif(not COMPILED, reason="of the compiled core")
def test_a_search_cut_among_its_first_answers_keeps_the_bound_it_has() -> None:
    """Seats for one class bound those for all: it said that nothing was certain."""
    answer, _ = stopped(three_kinds(2), 3_000, 2_000)
    assert isinstance(answer, Solution)
    assert any(answer.bound[:-1])
    assert answer.bound <= answer.cost


@pytest.mark.skipif(not COMPILED, reason="of the compiled core")
@pytest.mark.parametrize("asks", [61, 62, 63])
def test_a_search_cut_half_way_through_a_relaxation_proves_nothing(asks: int) -> None:
    """It called the problem infeasible for good: a frontier was left short, or the units of the
    knapsack's answer were not all found, and that was taken for the whole truth."""
    answer, _ = stopped(medium(1), asks, 200)
    assert isinstance(answer, Solution)


@pytest.mark.oracle
@pytest.mark.skipif(not COMPILED, reason="of the compiled core")
@pytest.mark.parametrize("seed", [9, 12, 18, 31, 45, 53])
def test_what_a_cut_search_claims_holds_by_highs(seed: int) -> None:
    """Questions about other problems (a few seats more, a leader seated) bound nothing here."""
    from tests.search.oracle_milp import milp

    problem = leader_and_workers(seed)
    least = milp(problem)
    assert least is not None
    for asks in (300, 3_000, 30_000, 60_000):
        answer, _ = stopped(problem, asks, 2_000)
        assert isinstance(answer, Solution)
        assert verify(problem, answer) == ()
        assert answer.bound <= least <= answer.cost, f"{asks}: {answer}, by HiGHS {least}"
