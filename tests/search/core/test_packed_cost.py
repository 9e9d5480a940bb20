"""Packed costs: the order of words is the order of levels, at the edges of 64 bits too."""

from __future__ import annotations

import random
from array import array
from fractions import Fraction
from typing import Any

import pytest

from extender.search.core.columns import Columns, Doubtful
from extender.search.problem import MemberClass, Problem, Unit
from tests.search.core.doors import costs
from tests.search.core.doors.costs import Packing

WIDEST = (1 << 60) - 1
"""The largest word that levels can make: their fields hold 60 bits at most."""
NEVER = ((1 << 63) - 1) // 4


def sign(a: Any, b: Any) -> int:
    return int(a > b) - int(a < b)


def test_sums_and_differences_at_the_limit() -> None:
    for a in (0, 1, WIDEST - 1, WIDEST):
        for b in (0, 1, WIDEST, NEVER):
            assert costs.added([a, b], [b, a]) == ([a + b, a + b], [a, b])
            for c in (a + b - 1, a + b, a + b + 1):
                assert costs.compare_sum([a], [b], [c]) == sign(a + b, c)
                assert costs.compare_sum([0, a], [0, b], [0, c]) == sign(a + b, c)
                assert costs.compare([1, a + b], [1, c]) == sign(a + b, c)
                assert costs.compare([0, a + b], [1, c]) == -1


def test_rates_are_exact_beyond_64_bits() -> None:
    """Products of a cost and a number of seats need 123 bits; doubles would not tell."""
    edge = (1 << 62) - 1
    for a, per_a, b, per_b in (
        (edge, edge, edge - 1, edge - 1),
        (edge, edge - 1, edge - 1, edge - 2),
        (edge - 1, edge, edge, edge),
        (-edge, edge, -edge, edge - 1),
        (-edge, 3, edge, 3),
        (edge, 1, edge, 1),
    ):
        expected = sign(Fraction(a, per_a), Fraction(b, per_b))
        assert costs.compare_rates([a], per_a, [b], per_b) == expected
        assert costs.compare_rates([0, a], per_a, [0, b], per_b) == expected
    rng = random.Random(1)
    for _ in range(3000):
        a, b = (rng.randint(-edge, edge) >> rng.choice((0, 30, 60)) for _ in range(2))
        per_a, per_b = (1 + (rng.randint(0, edge) >> rng.choice((0, 30, 60))) for _ in range(2))
        expected = sign(Fraction(a, per_a), Fraction(b, per_b))
        assert costs.compare_rates([a], per_a, [b], per_b) == expected


def test_what_cannot_be_had_stays_so_whatever_is_added() -> None:
    for more in (0, 1, WIDEST // 2, WIDEST):
        never, real = costs.none_plus([more])
        assert never
        assert real == (more >= NEVER // 2)
    assert not costs.none_plus([1 << 59])[1]  # the widest sum of a level


def packing(amounts: list[tuple[int, ...]]) -> Packing:
    """The levels of a problem in which units of these costs all have to go."""
    units = tuple(Unit(f"u{i:03}", ((0, (1,)),), cost) for i, cost in enumerate(amounts))
    problem = Problem(
        resources=("cpu",),
        nodes=("n0",),
        free=(array("q", [0]),),
        classes=(MemberClass("member", (1,), len(units), b"\1"),),
        need=len(units),
        units=units,
        levels=tuple(f"level-{i}" for i in range(len(amounts[0]))),
    )
    return Packing(Columns(problem), b"\1")


def levels(seed: int) -> tuple[Packing, list[int], random.Random]:
    rng = random.Random(seed)
    count = rng.randint(1, 6)
    widths = [rng.choice((1, 3, 20, 40, 57)) for _ in range(count)]
    amounts = [
        tuple(rng.choice((0, 1, rng.getrandbits(bits))) for bits in widths)
        for _ in range(rng.randint(1, 4))
    ]
    packed = packing(amounts)
    return packed, [sum(cost[i] for cost in amounts) for i in range(count)], rng


def payable(rng: random.Random, most: list[int]) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, m // 2, m - 1, m)) if m > 1 else min(m, 1) for m in most)


def test_packed_costs_keep_their_order_and_are_read_back() -> None:
    wide = 0
    for seed in range(300):
        packed, most, rng = levels(seed)
        if not any(most):
            continue
        assert packed.most() == most, f"seed {seed}"
        wide += packed.limbs() > 1
        for _ in range(10):
            a, b = payable(rng, most), payable(rng, most)
            of_a, of_b = packed.pack(a), packed.pack(b)
            assert of_a is not None, f"seed {seed}"
            assert of_b is not None, f"seed {seed}"
            assert all(0 <= word <= WIDEST for word in of_a), f"seed {seed}"
            assert sign(of_a, of_b) == sign(a, b), f"seed {seed}"
            assert tuple(packed.unpack(of_a)) == a, f"seed {seed}"
    assert wide


def test_a_cost_of_other_origin_keeps_its_place_among_those_payable() -> None:
    for seed in range(300):
        packed, most, rng = levels(seed)
        for _ in range(10):
            other = tuple(rng.choice((0, 1, m, m + 1, m * 2 + 3)) for m in most)
            at = packed.pack(other)
            for _ in range(5):
                mine = payable(rng, most)
                if at is None:
                    assert mine < other, f"seed {seed}"
                    continue
                of_mine = packed.pack(mine)
                assert of_mine is not None, f"seed {seed}"
                assert (of_mine < at) == (mine < other), f"seed {seed}: {mine} {other}"


def test_a_raised_bound_is_no_lower_and_passes_no_payable_cost() -> None:
    raised_some = 0
    for seed in range(300):
        packed, most, rng = levels(seed)
        if not any(most):
            continue
        words = packed.pack(most)
        assert words is not None
        for _ in range(10):
            value = [rng.randint(-3, word + 3) for word in words]
            raised = packed.raised(value)
            assert raised >= [max(0, value[0]), *value[1:]] or value[0] < 0, f"seed {seed}"
            raised_some += raised > value
            for _ in range(5):
                cost = packed.pack(payable(rng, most))
                assert cost is not None
                if cost >= value:
                    assert cost >= raised, f"seed {seed}: {value} {raised} {cost}"
    assert raised_some


def test_the_widest_level_is_59_bits_and_one_more_is_doubted() -> None:
    packed = packing([((1 << 58), 1), ((1 << 58) - 1, 1)])
    assert packed.most() == [(1 << 59) - 1, 2]
    assert packed.limbs() == 2
    with pytest.raises(Doubtful, match="too wide"):
        packing([((1 << 58), 1), ((1 << 58), 1)])
