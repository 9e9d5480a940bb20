"""Whoever comes again at once evicts the same victim so often at most, and urgency is not kept."""

from __future__ import annotations

from itertools import pairwise

from tests.fairness.thrash import FIRST, LONGEST, SECONDS, Thrash, bound


def test_evictions_are_bounded_whoever_comes_again() -> None:
    for seed in range(4):
        played = Thrash(seed).play()
        assert len(played.evictions) <= bound(played.levels), seed
        assert len(played.evictions) >= SECONDS / LONGEST, "it is not protected for ever"
        assert played.blocked == [], "nobody more urgent than the last one has to wait"
        for times, ((at, before), (then, now)) in enumerate(pairwise(played.evictions), 1):
            undisturbed = min(FIRST * 2 ** (times - 1), LONGEST)
            assert now > before or then >= at + undisturbed, (seed, times)


def test_without_protection_they_are_not() -> None:
    for seed in range(3):
        played = Thrash(seed, protection=False).play(60)
        assert len(played.evictions) > bound(played.levels, 60)


def test_who_is_more_urgent_each_time_is_never_blocked() -> None:
    for seed in range(2):
        played, plain = (Thrash(seed, protection=on, rising=True).play(30) for on in (True, False))
        assert played.evictions == plain.evictions
        assert played.blocked == []
