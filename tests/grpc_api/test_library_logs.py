"""What the library says of callers that have gone is no error of this process."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import grpc
import pytest
from structlog.testing import capture_logs

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


class Gone:
    """A call whose caller went before it could be told how it ends, as grpcio shows that."""

    def __init__(self) -> None:
        self.tried: list[grpc.StatusCode] = []

    def invocation_metadata(self) -> tuple[()]:
        return ()

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        self.tried.append(code)
        if len(self.tried) > 1:
            raise grpc.aio.UsageError("Abort already called!")
        raise grpc.aio.InternalError("Failed")


async def test_nor_is_it_one_that_it_is_told_in_vain() -> None:
    """It was logged with two tracebacks: of the telling, and of telling that the telling failed."""
    call = Gone()

    async def work(given: Any) -> None:
        await given.abort(grpc.StatusCode.NOT_FOUND, "there is no service")

    async with serving(Echo()) as site:
        with capture_logs() as logs, pytest.raises(asyncio.CancelledError):
            await site.server.calls.beside("health", 1, work)(None, cast("Any", call))
    assert call.tried == [grpc.StatusCode.NOT_FOUND, grpc.StatusCode.CANCELLED]
    assert [each for each in logs if each["log_level"] == "error"] == []
