"""A few seconds of the gRPC fuzzer; ``python -m tests.fuzz.grpc_wire`` runs for longer.

See docs/security.md, row 8.
"""

from __future__ import annotations

import pytest

from tests.fuzz.frames_of import Called, Spoken
from tests.fuzz.grpc_wire import HONEST, GrpcWire
from tests.fuzz.playing import one_round
from tests.grpc_api.test_calls import FILTER

ASKED = Called(FILTER, [HONEST.SerializeToString()], [], None, "reads")


def test_a_round() -> None:
    with GrpcWire() as target:
        assert one_round(target, 1, 15, lambda: False) >= 30
        target.check()
        assert target.statuses["connection answered"] > 0
        assert len(target.statuses) > 2


def test_the_fuzzer_notices() -> None:
    """A defect's status, an error that is logged, an eviction and a caller that is kept waiting."""
    with GrpcWire() as target:
        target.call_all([ASKED])
        assert target.statuses["FAILED_PRECONDITION"] == 1
        target.check()
        whole, filters = target.rig.verbs, target.rig.verbs.filter

        async def broken(args: object) -> None:
            raise ZeroDivisionError

        whole.filter = broken  # type: ignore[method-assign, assignment]
        with pytest.raises(AssertionError, match="INTERNAL"):
            target.call_all([ASKED])
        whole.filter = filters  # type: ignore[method-assign]
        with pytest.raises(AssertionError, match="internal error"):
            target.speak(Spoken([(b"GET / HTTP/1.1\r\n\r\n", 1)], reads=True))
        target.call(target.rig.remove("low-0"))
        with pytest.raises(AssertionError, match="evicted"):
            target.check()
