"""Simplex over groups of choices against HiGHS, and against the duality of linear programs."""

from __future__ import annotations

import random

import highspy
import pytest

from tests.search.core.doors import lp

Column = tuple[int, float, list[tuple[int, float]]]
NEAR = 1e-6
EXCESS = 50.0

Program = tuple[list[int], list[float], int, list[Column]]


def program(seed: int) -> Program:
    """Rows that bind or do not, some beyond reach, groups with few or many columns."""
    rng = random.Random(seed)
    rows, groups = rng.randint(1, 7), rng.randint(1, 12)
    signs = [-1] + [rng.choice((1, 1, -1)) for _ in range(rows - 1)]
    limits = [float(rng.randint(0, 6)) + rng.choice((0.0, 0.5)) for _ in range(rows)]
    limits[0] += groups / 2
    columns: list[Column] = []
    for group in range(groups):
        for _ in range(rng.randint(0, 6)):
            some = rng.sample(range(rows), rng.randint(1, rows))
            entries = [(row, float(rng.choice((1, 1, 2, 3)))) for row in sorted(some)]
            columns.append((group, rng.choice((0.0, 1.0, 1.0, rng.uniform(0, 9))), entries))
    return signs, limits, groups, columns


def least(given: Program, counting: list[int], barred: set[int]) -> float:
    """The same program's least cost, by HiGHS."""
    signs, limits, groups, columns = given
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)  # noqa: FBT003 - takes no keyword
    taken = [
        highs.addVariable(0, 0 if groups + j in barred else highspy.kHighsInf, cost)
        for j, (_, cost, _) in enumerate(columns)
    ]
    for group in range(groups):
        mine = [taken[j] for j, column in enumerate(columns) if column[0] == group]
        empty = highs.addVariable(0, highspy.kHighsInf, 0)
        highs.addConstr(sum(mine, empty) == 1)
    for row in counting:
        excess = highs.addVariable(0, highspy.kHighsInf, EXCESS)
        total = sum(
            (
                entry * taken[j]
                for j, (_, _, entries) in enumerate(columns)
                for place, entry in entries
                if place == row
            ),
            -signs[row] * excess,
        )
        highs.addConstr(total <= limits[row] if signs[row] == 1 else total >= limits[row])
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(highs.getInfo().objective_function_value)


def by_prices(given: Program, counting: list[int], prices: list[float]) -> float:
    """What the prices bound the cost by: each group takes the cheapest it has under them."""
    signs, limits, groups, columns = given
    bound = sum(-signs[row] * prices[row] * limits[row] for row in counting)
    cheapest = [0.0] * groups
    for group, cost, entries in columns:
        priced = cost + sum(signs[r] * prices[r] * e for r, e in entries if r in counting)
        cheapest[group] = min(cheapest[group], priced)
    return bound + sum(cheapest)


@pytest.mark.oracle
def test_the_least_cost_is_that_of_highs() -> None:
    for seed in range(150):
        given = program(seed)
        signs, limits, groups, columns = given
        every = list(range(len(signs)))
        ((cost, parts, _, _),) = lp.steps(signs, limits, groups, columns, EXCESS, [(every, {}, [])])
        assert cost == pytest.approx(least(given, every, set()), abs=NEAR), f"seed {seed}"
        of_group = [0.0] * groups
        for j, part in parts.items():
            assert -NEAR < part < 1 + NEAR
            of_group[j if j < groups else columns[j - groups][0]] += part
        assert of_group == pytest.approx([1.0] * groups, abs=NEAR), f"seed {seed}"


def test_the_prices_prove_the_cost() -> None:
    """Strong duality, without another solver; no price is negative or above an excess's."""
    for seed in range(150):
        given = program(seed)
        signs, limits, groups, columns = given
        every = list(range(len(signs)))
        ((cost, _, prices, _),) = lp.steps(
            signs, limits, groups, columns, EXCESS, [(every, {}, [])]
        )
        assert all(0 <= price < EXCESS + NEAR for price in prices), f"seed {seed}"
        assert by_prices(given, every, prices) == pytest.approx(cost, abs=NEAR), f"seed {seed}"


@pytest.mark.oracle
def test_rows_and_limits_that_come_later_are_kept_too() -> None:
    """As the search uses it: a few rows first, others once they are exceeded, limits moved."""
    for seed in range(50):
        rng = random.Random(seed)
        signs, limits, groups, columns = program(seed)
        every = list(range(len(signs)))
        first = every[: 1 + len(every) // 2]
        moved = {row: limits[row] + rng.choice((-1.0, 0.5, 2.0)) for row in first}
        barred = [groups + j for j in range(len(columns)) if rng.random() < 0.2]
        moments: list[lp.Moment] = [
            (first, {}, []),
            (every[len(first) :], {}, []),
            ([], moved, []),
        ]
        answers = lp.steps(signs, limits, groups, columns, EXCESS, moments)
        after = [moved.get(row, limit) for row, limit in enumerate(limits)]
        expected = [
            least((signs, limits, groups, columns), first, set()),
            least((signs, limits, groups, columns), every, set()),
            least((signs, after, groups, columns), every, set()),
        ]
        assert [a[0] for a in answers] == pytest.approx(expected, abs=NEAR), f"seed {seed}"
        ((cost, parts, _, _),) = lp.steps(
            signs, limits, groups, columns, EXCESS, [(every, {}, barred)]
        )
        assert not parts.keys() & set(barred), f"seed {seed}"
        assert cost == pytest.approx(
            least((signs, limits, groups, columns), every, set(barred)), abs=NEAR
        ), f"seed {seed}"


def test_what_cannot_be_reached_costs_the_excess() -> None:
    ((cost, _, prices, excess),) = lp.steps(
        [-1], [3.0], 1, [(0, 4.0, [(0, 1.0)])], EXCESS, [([0], {}, [])]
    )
    assert (cost, excess) == (4.0 + 2 * EXCESS, 2 * EXCESS)
    assert prices == [EXCESS]
