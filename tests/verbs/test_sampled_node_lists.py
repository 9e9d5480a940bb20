"""A pod of no gang that was offered only nodes with seats, of a hundred at a time."""

from __future__ import annotations

from extender.verbs.sampled_node_lists import MEMORY_SECONDS, Samples

NAMES = [f"n{i}" for i in range(300)]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_walk_goes_on_until_all_nodes_were_offered() -> None:
    samples = Samples(Clock())
    assert samples.refused("a", NAMES[:100], 300)
    assert samples.goes_on("a")
    assert not samples.goes_on("a"), "filter was not asked since, so all nodes were looked at"
    assert samples.refused("a", NAMES[100:200], 300)
    assert not samples.refused("a", NAMES[200:], 300)
    assert not samples.goes_on("a")


def test_a_complete_list_is_no_walk() -> None:
    samples = Samples(Clock())
    assert not samples.refused("a", NAMES[:99], 300)
    assert not samples.refused("b", NAMES[:100], 100)
    assert not samples.goes_on("a")
    assert not samples.goes_on("unknown")


def test_the_same_sample_again_and_again_ends_the_walk() -> None:
    samples = Samples(Clock())
    tries = 1
    while samples.refused("a", NAMES[:100], 300):
        tries += 1
        assert tries < 20
    assert not samples.goes_on("a")


def test_a_walk_is_forgotten_with_a_node_and_after_a_while() -> None:
    clock = Clock()
    samples = Samples(clock)
    samples.refused("a", NAMES[:100], 300)
    samples.refused("b", NAMES[:100], 300)
    samples.forget("a")
    assert not samples.goes_on("a")
    clock.now = MEMORY_SECONDS + 1
    assert not samples.goes_on("b")


def test_that_a_pod_was_kept_off_every_node_is_told_once() -> None:
    samples = Samples(Clock())
    assert samples.withheld("a") is False
    samples.withhold("a")
    assert samples.withheld("b") is False
    assert samples.withheld("a") is True
    assert samples.withheld("a") is False


def test_a_pod_that_was_offered_nodes_since_was_not_kept_off() -> None:
    clock = Clock()
    samples = Samples(clock)
    samples.withhold("a")
    samples.offered("a")
    samples.offered("never withheld")
    assert samples.withheld("a") is False
    samples.withhold("a")
    clock.now = MEMORY_SECONDS + 1
    assert samples.withheld("a") is False


def test_a_walk_ends_with_the_last_of_twice_the_tries_it_takes() -> None:
    samples = Samples(Clock())
    answers = [samples.refused("a", NAMES[:100], 300) for _ in range(8)]
    assert answers == [True] * 7 + [False]
