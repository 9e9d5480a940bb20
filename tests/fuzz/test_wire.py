"""A few seconds of the wire fuzzer; ``python -m tests.fuzz.wire`` runs for longer.

See docs/security.md, row 8.
"""

from __future__ import annotations

from itertools import count

import pytest

from tests.fuzz.bytes_of import Piece
from tests.fuzz.playing import one_round, rounds
from tests.fuzz.wire import Wire, decode


def test_a_round() -> None:
    with Wire() as target:
        assert one_round(target, 1, 40, lambda: False) >= 40
        target.check()
        assert target.statuses[200] > 0
        assert target.statuses[400] > 0


def test_the_time_ends_a_round_that_is_being_played() -> None:
    """Each look at this clock is a second later."""
    seconds = count()
    lines: list[str] = []
    with Wire() as target:
        tried = rounds(target, 1, 1000, 12.0, lines.append, lambda: float(next(seconds)))
    assert tried <= 12
    assert len(lines) == 1


def test_a_failure_is_shrunk_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(text: bytes) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tests.fuzz.wire.decode", refuse)
    looks = count()
    with Wire() as target, pytest.raises(ZeroDivisionError):
        one_round(target, 1, 2, lambda: next(looks) > 2)


def test_the_fuzzer_notices() -> None:
    """An internal error, an eviction and an answer of 500 are seen as such."""
    with Wire() as target:
        question = b'{"Pod":{"metadata":{"name":"x","uid":"u"}},"NodeNames":[]}'
        head = b"POST /filter HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(question)
        pieces: list[Piece] = [(head + question, 1)]
        target.talk(pieces)
        target.check()

        async def broken(args: object) -> None:
            raise ZeroDivisionError

        target.rig.verbs.filter = broken  # type: ignore[method-assign, assignment]
        with pytest.raises(AssertionError, match="500"):
            target.talk(pieces)
        target.errors.take()
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match="evicted"):
            target.check()


@pytest.mark.parametrize("data", [b"", b"\xff", b'{"Pod":' * 10_000, b'{"Pod":1e99999}'])
def test_the_decoders_alone(data: bytes) -> None:
    decode(data)
