"""A few seconds of the wire fuzzer; ``python -m tests.fuzz.wire`` runs for longer."""

from __future__ import annotations

import pytest

from tests.fuzz.bytes_of import Piece
from tests.fuzz.wire import Target, decode, rounds


def test_a_few_rounds() -> None:
    lines: list[str] = []
    with Target() as target:
        assert rounds(target, 1, 40, 0.0, lines.append) >= 40
        assert target.statuses[200] > 0
        assert target.statuses[400] > 0
    assert lines


def test_the_fuzzer_notices() -> None:
    """An internal error, an eviction and an answer of 500 are seen as such."""
    with Target() as target:
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
