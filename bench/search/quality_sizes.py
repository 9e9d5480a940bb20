"""How much bench.search.quality runs."""

from __future__ import annotations

from msgspec import Struct


class Size(Struct, frozen=True):
    """How much to run."""

    small_cases: int
    medium_cases: int
    tied_cases: int
    mixed_cases: int
    mixes: tuple[tuple[int, int], ...]
    """(nodes, seeds) per fill, placement."""
    oracle_mixes: tuple[tuple[int, int], ...]
    """(nodes, states) that HiGHS has to decide."""
    rounds: int
    hard: tuple[int, ...]
    oracle_nodes: int
    """Hard problems up to this many nodes are given to HiGHS."""
    seconds: float
    """HiGHS: longest time for one level of one problem."""


FULL = Size(
    2000, 200, 200, 60, ((200, 4), (1000, 2), (5000, 1)), ((50, 200), (100, 200), (200, 120)), 3,
    (11, 40, 100, 400, 1600), 100, 5.0,
)  # fmt: skip
SHORT = Size(40, 4, 4, 2, ((40, 1),), ((20, 2),), 1, (11,), 11, 5.0)
