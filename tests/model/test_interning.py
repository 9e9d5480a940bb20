from __future__ import annotations

from extender.decode.interning import Interner, Memo


def test_a_memo_never_outgrows_its_limit_and_stays_right() -> None:
    memo: Memo[int, str] = Memo(limit=10)
    for number in range(1000):
        assert memo.put(number, str(number), 1) == str(number)
        assert memo.get(number) == str(number)
        assert len(memo) <= 10


def test_an_interner_gives_back_the_first_of_equals() -> None:
    intern: Interner[tuple[str, ...]] = Interner(limit=3)
    first = intern(tuple("ab"), 1)
    assert intern(tuple("ab"), 1) is first
    for number in range(10):
        assert intern((str(number),), 1) == (str(number),)


def test_both_are_bounded_by_bytes() -> None:
    memo: Memo[int, str] = Memo(most_bytes=100)
    for number in range(1000):
        memo.put(number, "x" * 40, 40)
        assert len(memo) <= 2
    intern: Interner[str] = Interner()
    large = "x" * 10_000
    assert intern(large, len(large)) is large
    assert intern("".join(large), len(large)) == large
    assert intern.size == 0
