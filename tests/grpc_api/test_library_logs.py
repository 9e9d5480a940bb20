"""What the library says of callers that have gone is no error of this process."""

from __future__ import annotations

import logging

import grpc
import pytest

from extender.grpc_api.library_logs import LIBRARY
from tests.grpc_api.site import serving
from tests.server.doubles import Echo


async def test_a_caller_that_was_gone_first_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """Found by tests.fuzz.grpc_wire: a traceback for each call, as often as somebody liked."""
    library = logging.getLogger(LIBRARY)
    async with serving(Echo()):
        for error in (grpc.aio.InternalError("Failed"), RuntimeError("a fault")):
            try:
                raise error
            except Exception:
                library.exception("%s raised by servicer method [/x]", type(error).__name__)
    found = [each.getMessage() for each in caplog.records if each.name == library.name]
    assert found == ["RuntimeError raised by servicer method [/x]"]
