"""A few seconds of the console's fuzzer; ``python -m tests.fuzz.console`` runs for longer.

See docs/security.md, row 11.
"""

from __future__ import annotations

import pytest

from tests.fuzz.console import ConsoleFuzz
from tests.fuzz.pages_of import Visit, Visits
from tests.fuzz.playing import one_round

GANGS = b"GET /ui/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
ONE = Visits([Visit(GANGS, 1, "all")], 3)


def test_a_round() -> None:
    with ConsoleFuzz() as target:
        assert one_round(target, 1, 10, lambda: False) >= 20
        target.check()
        assert target.statuses[400] + target.statuses[404] > 0


def test_the_fuzzer_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of somebody else's script, one that cannot be made, and an eviction."""
    with ConsoleFuzz() as target:
        for server in (target.server, target.staged):
            target.visit(ONE, server)
        assert target.statuses == {200: 2}
        target.check()
        with pytest.raises(AssertionError, match="onclick"):
            target._look_at(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n"
                b"<p onclick='x'>"
            )

        def fails(*given: object) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(target.full.renderings, "get", fails)
        with pytest.raises(AssertionError, match="500"):
            target.visit(ONE, target.staged)
        target.errors.take()
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match="evicted"):
            target.check()
