from __future__ import annotations

from extender.model.interning import Interner, Memo


def test_a_memo_never_outgrows_its_limit_and_stays_right() -> None:
    memo: Memo[int, str] = Memo(limit=10)
    for number in range(1000):
        assert memo.put(number, str(number)) == str(number)
        assert memo.get(number) == str(number)
        assert len(memo) <= 10


def test_an_interner_gives_back_the_first_of_equals() -> None:
    intern: Interner[tuple[str, ...]] = Interner(limit=3)
    first = intern(tuple("ab"))
    assert intern(tuple("ab")) is first
    for number in range(10):
        assert intern((str(number),)) == (str(number),)
