"""Which part of the nodes an attempt looks at."""

from __future__ import annotations

import pytest

from extender.gang.plan.lists import SMALLEST_SAMPLE
from extender.sandbox.sampling import SMALLEST, NodeSampling


@pytest.mark.parametrize(
    ("nodes", "most"),
    [(10, 10), (100, 100), (101, 100), (200, 100), (1000, 420), (6000, 300), (12_000, 600)],
)
def test_how_many_nodes_are_enough(nodes: int, most: int) -> None:
    """50 percent less one of each 125 nodes, 5 at least (TestNumFeasibleNodesToFind)."""
    assert NodeSampling().most(nodes) == most


def test_what_the_extender_knows_of_samples_is_what_the_scheduler_does() -> None:
    assert SMALLEST == SMALLEST_SAMPLE


def test_the_next_attempt_goes_on_where_this_one_stopped() -> None:
    sampling = NodeSampling(2)
    names = {"d", "a", "c", "b"}
    assert sampling.most(4) == 2
    assert sampling.order(names) == ["a", "b", "c", "d"]
    sampling.looked_at(3, 4)
    assert sampling.order(names) == ["d", "a", "b", "c"]
    sampling.looked_at(2, 4)
    assert sampling.order(names) == ["b", "c", "d", "a"]
    assert sampling.order({"a"}) == ["a"]  # the others were deleted
    assert sampling.order(()) == []
