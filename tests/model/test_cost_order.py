"""Costs as a person reads them."""

from __future__ import annotations

import pytest

from extender.settings.cost_order import cost_words


@pytest.mark.parametrize(
    ("level", "value", "beside", "words"),
    [
        ("pods@1", 4, 3, "4"),
        ("gangs", 4000, 3999, "4000"),
        ("age", 4000, 3999, "4000"),
        ("work", 0, 0, "0 GPU-seconds"),
        ("work@1", 359, 1, "359 GPU-seconds"),
        ("work@1", 360, 360, "0.1 GPU-hours"),
        ("work@-7", 4_500_000, 0, "1,250.0 GPU-hours"),
        # As many digits as tell it from what stands beside it, and no more.
        ("work@1", 1_000_080, 1_000_000, "277.80 GPU-hours"),
        ("work@1", 1_000_000, 1_000_080, "277.78 GPU-hours"),
        ("work", 1_000_001, 1_000_000, "277.7781 GPU-hours"),
        ("work", 1_000_000, 1_000_001, "277.7778 GPU-hours"),
        ("work", 360, 359, "0.1 GPU-hours"),
        ("work", 359, 360, "359 GPU-seconds"),
        # Two that are equal are told as equal.
        ("work", 1_000_001, 1_000_001, "277.8 GPU-hours"),
    ],
)
def test_what_a_level_costs_in_words(level: str, value: int, beside: int, words: str) -> None:
    assert cost_words(level, value, beside) == words


def test_a_second_more_is_told_from_what_stands_beside_it() -> None:
    """Also where a node says that it has GPUs without number."""
    for value in (*range(355, 800), 10**6, 10**9, 10**20):
        assert cost_words("work", value + 1, value) != cost_words("work", value, value + 1)
