"""The covering and the multiple-choice knapsack against trying everything."""

from __future__ import annotations

import random
from itertools import product

from tests.search.core.doors import knapsacks

IMPOSSIBLE, EXACT, CUT, GAP = range(4)
Cost = tuple[int, ...]
PATIENT = 1 << 40


def added(costs: list[Cost], width: int) -> Cost:
    return tuple(sum(cost[i] for cost in costs) for i in range(width))


def items(seed: int) -> tuple[list[tuple[int, ...]], list[Cost], list[int]]:
    rng = random.Random(seed)
    count, resources, width = rng.randint(0, 9), rng.choice((1, 2, 3)), rng.choice((1, 2))
    scale = [rng.choice((1, 1000, 1 << 40)) for _ in range(resources)]
    rows = sorted(
        (
            tuple(rng.choice((0, 0, 1, 5)) for _ in range(width)),
            tuple(rng.choice((0, 1, 1, 2, 3)) * s for s in scale),
        )
        for _ in range(count)
    )
    need = [rng.choice((-1, 0, 1, 2, 4, 7)) * s for s in scale]
    return [amounts for _, amounts in rows], [cost for cost, _ in rows] or [(0,) * width], need


def cheapest_cover(
    amounts: list[tuple[int, ...]], costs: list[Cost], need: list[int]
) -> Cost | None:
    best: Cost | None = None
    for taken in product((0, 1), repeat=len(amounts)):
        chosen = [i for i, one in enumerate(taken) if one]
        if all(sum(amounts[i][r] for i in chosen) >= want for r, want in enumerate(need)):
            cost = added([costs[i] for i in chosen], len(costs[0]))
            best = cost if best is None or cost < best else best
    return best


def covers(amounts: list[tuple[int, ...]], taken: list[int], need: list[int]) -> bool:
    return all(sum(amounts[i][r] for i in taken) >= want for r, want in enumerate(need))


def test_covering_is_what_trying_everything_finds() -> None:
    for seed in range(400):
        amounts, costs, need = items(seed)
        best, taken, exact, bound = knapsacks.cover(amounts, costs, need, PATIENT)
        assert exact
        assert best == bound == cheapest_cover(amounts, costs, need), f"seed {seed}"
        if best is not None:
            assert covers(amounts, taken, need), f"seed {seed}"
            assert added([costs[i] for i in taken], len(best)) == best, f"seed {seed}"


def test_covering_cut_short_encloses_it() -> None:
    inexact = 0
    for seed in range(400):
        amounts, costs, need = items(seed)
        truth = cheapest_cover(amounts, costs, need)
        for branches in (0, 1, 4):
            best, taken, exact, bound = knapsacks.cover(amounts, costs, need, branches)
            if truth is None:
                assert best is None, f"seed {seed}"
                continue
            assert best is not None, f"seed {seed}"
            assert bound is not None, f"seed {seed}"
            assert bound <= truth <= best, f"seed {seed}"
            assert covers(amounts, taken, need), f"seed {seed}"
            inexact += not exact
    assert inexact


def groups(seed: int) -> tuple[list[list[Cost | None]], int]:
    """Frontiers: never falling, nothing for no seat, some end early."""
    rng = random.Random(seed)
    width = rng.choice((1, 2, 3))
    wide = rng.choice((3, 40, 1 << 55))
    found: list[list[Cost | None]] = []
    for _ in range(rng.randint(1, 4)):
        costs = sorted(
            tuple(rng.randint(0, wide) for _ in range(width)) for _ in range(rng.randint(0, 5))
        )
        rows: list[Cost | None] = [(0,) * width]
        for cost in costs:
            rows.append(rows[-1] if rng.random() < 0.2 else cost)
        rows += [None] * rng.choice((0, 0, 1))
        found.append(rows)
    return found, rng.randint(0, sum(len(rows) - 1 for rows in found) + 1)


def answers(given: list[list[Cost | None]], demand: int) -> list[tuple[Cost, tuple[int, ...]]]:
    width = len(given[0][0] or ())
    found = []
    for picks in product(*(range(len(rows)) for rows in given)):
        costs = [rows[k] for rows, k in zip(given, picks, strict=True)]
        real = [cost for cost in costs if cost is not None]
        if sum(picks) >= demand and len(real) == len(costs):
            found.append((added(real, width), picks))
    return sorted(found)


def test_choices_are_what_trying_everything_finds() -> None:
    seen = set()
    for seed in range(300):
        rng = random.Random(seed)
        given, demand = groups(seed)
        every = answers(given, demand)
        cutoff = rng.choice(every)[0] if every and rng.random() < 0.4 else None
        status, picks, value, bound, _ = knapsacks.choose(given, demand, cutoff, PATIENT, None)
        seen.add(status)
        if status == IMPOSSIBLE:
            assert not every, f"seed {seed}"
        elif status == CUT:
            assert cutoff is not None, f"seed {seed}"
            assert every[0][0] >= cutoff, f"seed {seed}"
        else:
            assert status == EXACT, f"seed {seed}"
            assert value == bound == every[0][0], f"seed {seed}"
            assert (value, tuple(picks)) in every, f"seed {seed}"
    assert seen == {IMPOSSIBLE, EXACT, CUT}


def test_choices_cut_short_enclose_it() -> None:
    gaps = 0
    for seed in range(300):
        given, demand = groups(seed)
        every = answers(given, demand)
        status, picks, value, bound, _ = knapsacks.choose(given, demand, None, 0, None)
        if every:
            assert status in (EXACT, GAP), f"seed {seed}"
            assert bound <= every[0][0] <= value, f"seed {seed}"
            assert (value, tuple(picks)) in every, f"seed {seed}"
            gaps += status == GAP
    assert gaps


def test_settled_groups_are_settled_in_every_better_answer() -> None:
    settled_somewhere = 0
    for seed in range(300):
        rng = random.Random(seed)
        given, demand = groups(seed)
        every = answers(given, demand)
        if not every or demand == 0:
            continue
        below = rng.choice(every[: 1 + len(every) // 4])[0]
        *_, settled = knapsacks.choose(given, demand, None, PATIENT, below)
        for cost, picks in every:
            if cost >= below:
                break
            for rows, k, only in zip(given, picks, settled, strict=True):
                more = k
                while more + 1 < len(rows) and rows[more + 1] == rows[k]:
                    more += 1
                assert only in (-1, more), f"seed {seed}: {picks} {settled}"
                settled_somewhere += only == more
    assert settled_somewhere
