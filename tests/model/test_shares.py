"""A bounded store from which nobody pushes out others, step by step against a plain one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from extender.model.fair_lru import Shares

MOST = 6


def plain_put(kept: dict[int, tuple[str, int]], key: int, share: str, size: int) -> None:
    """Count all anew for each that has to go."""
    kept.pop(key, None)
    kept[key] = (share, size)
    while sum(each for _, each in kept.values()) > MOST and len(kept) > 1:
        sizes: Counter[str] = Counter()
        for name, each in kept.values():
            sizes[name] += each
        first = {name: next(k for k, v in kept.items() if v[0] == name) for name in sizes}
        others = [name for name in sizes if first[name] != key]
        most = max(sizes[name] for name in others)
        crowded = {first[name] for name in others if sizes[name] == most}
        gone = next(k for k in kept if k in crowded)
        if len(crowded) > 1:
            raise AmbiguousError
        del kept[gone]


class AmbiguousError(Exception):
    """Two shares have as much: either may lose."""


PUTS = st.tuples(st.integers(0, 9), st.sampled_from("abc"), st.integers(0, 4))


@given(steps=st.lists(st.one_of(PUTS, st.integers(0, 9)), max_size=30))
def test_whoever_has_most_loses_its_oldest(steps: list[tuple[int, str, int] | int]) -> None:
    shares: Shares[int, str] = Shares(MOST)
    kept: dict[int, tuple[str, int]] = {}
    for step in steps:
        if isinstance(step, int):
            known = kept.pop(step, None)
            assert shares.pop(step) == (None if known is None else known[0])
        else:
            key, share, size = step
            shares.put(key, share, share, size)
            try:
                plain_put(kept, key, share, size)
            except AmbiguousError:
                return
        assert list(shares.values()) == [share for share, _ in kept.values()]
        assert [key in shares for key in range(10)] == [key in kept for key in range(10)]
        assert shares.size == sum(size for _, size in kept.values())
        oldest = shares.oldest()
        assert (None if oldest is None else oldest[0]) == next(iter(kept), None)


def test_what_would_only_push_out_its_own_is_told_beforehand() -> None:
    shares: Shares[int, None] = Shares(4)
    for key in range(4):
        assert shares.takes("crowd")
        shares.put(key, None, "crowd")
    assert not shares.takes("crowd")
    for key in (10, 11):
        assert shares.takes("other")
        shares.put(key, None, "other")
    assert not shares.takes("other"), "each has two"
    assert [key in shares for key in range(4)] == [False, False, True, True]
    assert shares.takes("third")


def test_the_newest_stays_however_large_it_is() -> None:
    shares: Shares[str, int] = Shares(4)
    shares.put("small", 1, "a")
    shares.put("large", 9, "b", 9)
    assert list(shares.values()) == [9]
    assert shares.get("small") is None
    assert len(shares) == 1


def test_the_oldest_are_forgotten_until_one_is_not_over() -> None:
    shares: Shares[str, int] = Shares(10)
    for key, until in (("a", 1), ("b", 2), ("c", 5), ("d", 1)):
        shares.put(key, until, "ns")
    shares.forget(lambda until: until <= 2)
    assert list(shares.values()) == [5, 1]
    shares.forget(lambda until: True)
    assert not len(shares)


def test_each_share_has_its_turn_with_its_oldest() -> None:
    shares: Shares[int, str] = Shares(10)
    for key, share in enumerate("aaaabbc"):
        shares.put(key, f"{share}{key}", share)
    taken = [shares.take() for _ in range(4)]
    assert taken == ["a0", "b4", "c6", "a1"]
    shares.put(7, "a7", "a")  # its turn is not before that of b
    shares.put(8, "c8", "c")
    assert [shares.take() for _ in range(6)] == ["b5", "a2", "c8", "a3", "a7", None]
    assert not len(shares)
    assert shares.size == 0
