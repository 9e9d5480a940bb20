"""The least priority at which seats are sure, summed up by hand."""

from __future__ import annotations

from array import array
from itertools import product
from random import Random

import pytest

from extender.gang.plan.priority_cutoff import least_priority, least_priority_over
from extender.gang.plan.spreads import enough
from extender.search.problem import Spread


def test_the_least_priority_in_one_domain() -> None:
    gains = {0: {1: 1, 5: 2}, 1: {2: 1, 3: 1}}
    assert least_priority(gains, 1) == 1
    assert least_priority(gains, 2) == 3
    assert least_priority(gains, 3) == 5
    assert least_priority(gains, 4) is None
    assert least_priority({}, 1) is None


def test_the_least_priority_over_domains_adds_up_what_came_before() -> None:
    gains = {0: {1: 1, 5: 2}, 1: {2: 1}}
    asked: list[dict[int, int]] = []

    def three_and_one(seats: object) -> bool:
        assert isinstance(seats, dict)
        asked.append(dict(seats))
        return seats == {0: 3, 1: 1}

    assert least_priority_over(gains, three_and_one) == 5
    assert asked == [{0: 1, 1: 0}, {0: 1, 1: 1}, {0: 3, 1: 1}]
    assert least_priority_over(gains, lambda seats: False) is None


def can(rule: Spread, seats: list[int], members: int) -> bool:
    """Whether so many of one class can sit there under the rule, by trying every way."""
    for way in product(*(range(count + 1) for count in seats)):
        there = [have + more for have, more in zip(rule.fewest, way, strict=True)]
        least = 0 if rule.from_zero else min(there)
        kept = all(
            not more or total - least <= rule.max_skew
            for total, more in zip(there, way, strict=True)
        )
        if sum(way) == members and kept:
            return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_enough_seats_under_a_spread_rule(seed: int) -> None:
    """Whoever is counted already stays, so what is sure and what is possible are the same."""
    draw = Random(seed)
    answers = []
    for _ in range(200):
        domains = draw.randint(1, 3)
        there = tuple(draw.randint(0, 2) for _ in range(domains))
        rule = Spread(
            bound=(0,),
            counted=(0,),
            domain=array("i", range(domains)),
            most=there,
            fewest=there,
            max_skew=draw.randint(1, 2),
            from_zero=draw.random() < 0.3,
        )
        seats = [draw.randint(0, 3) for _ in range(domains)]
        members = draw.randint(1, 6)
        answers.append(can(rule, seats, members))
        found = enough(rule, dict(enumerate(seats)), members)
        assert found == answers[-1], (rule, seats, members)
        open_ones = {domain: count for domain, count in enumerate(seats) if count}
        assert enough(rule, open_ones, members) == found, "none elsewhere"
    assert 20 < sum(answers) < 180
