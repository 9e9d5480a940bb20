"""Which status an error becomes, and as what it is counted.

=====================  =============================================  ======
status                 when                                           HTTP
=====================  =============================================  ======
INVALID_ARGUMENT       the question is malformed; says what and where  400
UNAUTHENTICATED        no token, or none that the cluster knows        401
PERMISSION_DENIED      a name or a token that may not call this        403
UNIMPLEMENTED          turned off here                                 404
DEADLINE_EXCEEDED      the message did not come in time                408
FAILED_PRECONDITION    the pod is not as the cluster has it            409
UNAVAILABLE            not ready, stale, not leading, stopping         503
RESOURCE_EXHAUSTED     too large; too many calls, streams or bytes     413/503
INTERNAL               a defect; the log has it                        500
CANCELLED,             the caller has left or waited long enough
DEADLINE_EXCEEDED
=====================  =============================================  ======
"""

from __future__ import annotations

import time

import grpc
import structlog

from extender.gang.tell.what_ifs import TooManyAsked
from extender.grpc_api.message_reading import MessageLate, MessageLimits, NoRoom
from extender.grpc_api.rights import Denied, NotAllowed, TurnedOff
from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.server.logs import Seldom
from extender.server.metrics import Metrics

StatusCode = grpc.StatusCode
SHOWN = 1000
"""Characters of an error's text that are told: all of a call's trailers have 8 KiB."""
OF_REVIEWS = {
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    503: StatusCode.UNAVAILABLE,
}


class Exhausted(Exception):  # noqa: N818 - reads as the condition it is
    """There is no room for this call now."""


class Statuses:
    """Tells callers, metrics and the log what went wrong."""

    def __init__(self, metrics: Metrics, limits: MessageLimits) -> None:
        self._metrics = metrics
        self._limits = limits
        self._seldom = Seldom(time.monotonic)

    def of(
        self, error: Exception, page: str, log: structlog.stdlib.BoundLogger
    ) -> tuple[grpc.StatusCode, str]:
        """Return the status of an error and its text, having counted and logged it."""
        code, kind, text = self._told(error)
        if kind:
            about = page if kind == "token" else text
            if isinstance(error, UnknownPod) and error.absent:
                about = ""
            self.refused(kind, about, log, text)
        elif isinstance(error, InvalidInput):
            if self._seldom.due(("malformed", error.where)):
                log.warning("malformed request", error=error.message[:SHOWN], where=error.where)
        elif isinstance(error, NotReady):
            if self._seldom.due(("not ready", text)):
                log.warning("not ready", reason=text)
        elif code is StatusCode.INTERNAL:
            log.error("internal error", exc_info=error)
        return code, text[:SHOWN]

    def _told(self, error: Exception) -> tuple[grpc.StatusCode, str, str]:
        """Return (status, what it is counted as, text)."""
        match error:
            case InvalidInput():
                return StatusCode.INVALID_ARGUMENT, "", str(error)
            case NotReady():
                return StatusCode.UNAVAILABLE, "", str(error)
            case UnknownPod():
                return StatusCode.FAILED_PRECONDITION, "unknown-pod", str(error)
            case Denied():
                return StatusCode.PERMISSION_DENIED, "name", str(error)
            case NotAllowed():
                return OF_REVIEWS[error.status], "token", str(error)
            case TurnedOff():
                return StatusCode.UNIMPLEMENTED, "", str(error)
            case Exhausted() | TooManyAsked():
                return StatusCode.RESOURCE_EXHAUSTED, "calls", str(error)
            case NoRoom():
                held = self._limits.budget.limit
                text = f"the bodies being read exceed {held} bytes; try again"
                return StatusCode.RESOURCE_EXHAUSTED, "bytes", text
            case MessageLate():
                text = f"no complete message within {self._limits.seconds:g} s"
                return StatusCode.DEADLINE_EXCEEDED, "body-late", text
            case grpc.aio.InternalError():
                # grpcio's, of an operation on a call whose caller has gone.
                return StatusCode.CANCELLED, "", "the caller has left"
            case _:
                return StatusCode.INTERNAL, "", "internal error, see the log"

    def refused(self, kind: str, about: str, log: structlog.stdlib.BoundLogger, text: str) -> None:
        """Count a refusal, and log it once a minute for each that it is ``about``."""
        self._metrics.refused(kind)
        if self._seldom.due((kind, about)):
            log.warning("call refused", kind=kind, reason=text)
