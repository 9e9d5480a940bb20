"""Under any stream of small work of its priority the big gang starts within the bound."""

from __future__ import annotations

import pytest

from tests.fairness.streams import Stream


@pytest.mark.parametrize("first", [0, 10, 20])
async def test_the_big_gang_has_its_turn(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = await Stream(seed).play()
        assert not outcome.wrong, outcome
        assert not outcome.late, outcome


async def test_it_has_its_turn_among_others_who_lie_about_their_ends() -> None:
    for seed in range(12):
        outcome = await Stream(seed, own="mine", lie=True).play()
        assert not outcome.wrong, outcome
        assert not outcome.late, outcome


async def test_without_booked_starts_it_waits_beyond_the_bound() -> None:
    outcomes = [await Stream(seed, booking=False).play() for seed in range(8)]
    assert any(outcome.late for outcome in outcomes)
