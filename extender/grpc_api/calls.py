"""One call: limits, metrics, log lines, and which status an error becomes.

=====================  =============================================  ====
status                 when                                           HTTP
=====================  =============================================  ====
INVALID_ARGUMENT       the question is malformed; says what and where  400
PERMISSION_DENIED      a certificate of a name that may not call       403
FAILED_PRECONDITION    the pod is not as the cluster has it            409
UNAVAILABLE            not ready, stale, not leading, stopping         503
RESOURCE_EXHAUSTED     too large, too many calls or streams            413
INTERNAL               a defect; the log has it                        500
CANCELLED,             the caller has gone or waited long enough
DEADLINE_EXCEEDED
=====================  =============================================  ====
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from time import perf_counter
from typing import Any, TypeAlias, TypeVar

import grpc
import structlog
from google.protobuf.message import DecodeError, Message

from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.model.settings import Settings
from extender.server.metrics import Metrics, VerbMetrics
from extender.server.seldom import Seldom

Question = TypeVar("Question", bound=Message)
T = TypeVar("T")
Call: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
Answered = tuple[Message, int, int]
"""(answer, nodes in, nodes out)."""
Code = grpc.StatusCode
SHOWN = 1000
"""Characters of an error's text that are told: all of a call's trailers have 8 KiB."""
REQUEST_ID = "x-request-id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")


class Denied(Exception):  # noqa: N818 - reads as the condition it is
    """The caller's certificate is good, but of somebody else."""


class Exhausted(Exception):  # noqa: N818 - reads as the condition it is
    """There is no room for this call now."""


def parsed(kind: type[Question], data: bytes) -> Question:
    """Return the message. Raises InvalidInput."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        name: str = kind.DESCRIPTOR.full_name
        raise InvalidInput(f"is no {name}: {error}", "message") from None


class Calls:
    """Everything that is being answered. One event loop only."""

    def __init__(self, metrics: Metrics, settings: Settings) -> None:
        self._metrics = metrics
        self._max_calls = settings.grpc.max_calls
        self._max_streams = settings.grpc.max_streams
        self._names = frozenset(settings.grpc_names)
        self._calls: set[asyncio.Task[Any]] = set()
        self._left: set[asyncio.Task[Any]] = set()
        """Verbs at work whose caller has gone."""
        self._holding = 0
        """Binds among them that are held: they wait for others, and are bounded by what is held."""
        self._streams: dict[asyncio.Task[Any], str] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._seldom = Seldom(time.monotonic)
        self.draining = False
        self._cut = False
        self._ids = count(1)
        self._id_prefix = f"g{time.time_ns() // 1_000_000:x}"

    def unary(
        self, verb: str, answer: Callable[[bytes, Call], Awaitable[Answered]]
    ) -> Callable[[bytes, Call], Awaitable[bytes]]:
        """Return the handler of a call with one answer."""
        metrics = self._metrics.verb(verb, "grpc")

        async def handle(data: bytes, call: Call) -> bytes:
            started = perf_counter()
            log = self._log(verb, call)
            body, code, text = b"", Code.OK, ""
            task = _current()
            try:
                self._admit(call)
                if len(self._calls) + len(self._left) - self._holding >= self._max_calls:
                    raise Exhausted(f"{self._max_calls} calls are being answered already")
                self._enter(task)
                message, nodes_in, nodes_out = await answer(data, call)
                body = message.SerializeToString()
                metrics.weighed(nodes_in, nodes_out)
            except asyncio.CancelledError:
                code, text = self._cancelled(call)
                log.info("call ended early", status=code.name)
                if not self._cut:
                    metrics.answered(code.name, perf_counter() - started, len(data), 0)
                    raise
            except Exception as error:
                code, text = self._status(error, metrics, log)
            finally:
                self._leave(task)
            metrics.answered(code.name, perf_counter() - started, len(data), len(body))
            log.debug("answered", status=code.name, bytes_in=len(data), bytes_out=len(body))
            if code is not Code.OK:
                await call.abort(code, text[:SHOWN])
            return body

        return handle

    def stream(
        self, watch: str, feed: Callable[[bytes, Call], Awaitable[None]]
    ) -> Callable[[bytes, Call], Awaitable[None]]:
        """Return the handler of a watch; ``feed`` writes until it raises."""
        metrics = self._metrics.verb(watch, "grpc")

        async def handle(data: bytes, call: Call) -> None:
            started = perf_counter()
            log = self._log(watch, call)
            task = _current()
            try:
                self._admit(call)
                if len(self._streams) >= self._max_streams:
                    raise Exhausted(f"{self._max_streams} streams are open already")
                if self.draining:
                    raise NotReady("stopping")
                self._streams[task] = watch
                await feed(data, call)
                code, text = Code.INTERNAL, "the watch ended by itself"
            except asyncio.CancelledError:
                if not self.draining:
                    code, text = self._cancelled(call)
                    metrics.answered(code.name, perf_counter() - started, len(data), 0)
                    raise
                code, text = Code.UNAVAILABLE, "stopping"
            except Exception as error:
                code, text = self._status(error, metrics, log)
            finally:
                self._streams.pop(task, None)
            metrics.answered(code.name, perf_counter() - started, len(data), 0)
            await call.abort(code, text[:SHOWN])

        return handle

    async def going_on(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a verb answers. When the caller leaves, only the waiting ends.

        A gang's other members wait for the same search, and what was begun is finished in one
        piece: so it is over HTTP.
        """
        task = asyncio.create_task(work)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not task.done():
                self._left.add(task)
                task.add_done_callback(self._worked)
            raise

    async def holding(self) -> None:
        """Wait for ever, as a bind that is held whose caller stays; it is no busy call then."""
        self._holding += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._holding -= 1

    def streams(self) -> dict[str, float]:
        """Return how many streams are open, by watch."""
        found: dict[str, float] = {}
        for watch in self._streams.values():
            found[watch] = found.get(watch, 0.0) + 1
        return found

    async def drain(self, seconds: float) -> None:
        """End the streams, wait for calls; what is left after ``seconds`` is cut off."""
        self.draining = True
        for task in self._streams:
            task.cancel()
        try:
            await asyncio.wait_for(self._idle.wait(), seconds)
        except TimeoutError:
            self._cut = True
            for task in (*self._calls, *self._left):
                task.cancel()

    def _enter(self, task: asyncio.Task[Any]) -> None:
        self._calls.add(task)
        self._idle.clear()

    def _leave(self, task: asyncio.Task[Any]) -> None:
        self._calls.discard(task)
        if not self._calls:
            self._idle.set()

    def _worked(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotReady):
            log = structlog.get_logger()
            log.error("a call failed that nobody waits for", exc_info=error)

    def _cancelled(self, call: Call) -> tuple[grpc.StatusCode, str]:
        if self._cut:
            return Code.UNAVAILABLE, "stopping: the time for calls in flight is over"
        left = call.time_remaining()
        late = left is not None and left <= 0
        return (Code.DEADLINE_EXCEEDED if late else Code.CANCELLED), ""

    def _status(
        self, error: Exception, metrics: VerbMetrics, log: structlog.stdlib.BoundLogger
    ) -> tuple[grpc.StatusCode, str]:
        text = str(error)
        if isinstance(error, InvalidInput):
            metrics.malformed()
            if self._seldom.due(("malformed", error.where)):
                log.warning("malformed request", error=error.message[:SHOWN], where=error.where)
            return Code.INVALID_ARGUMENT, text
        if isinstance(error, NotReady):
            if self._seldom.due(("not ready", text)):
                log.warning("not ready", reason=text)
            return Code.UNAVAILABLE, text
        if isinstance(error, UnknownPod):
            about = "" if error.absent else text
            return Code.FAILED_PRECONDITION, self._refused("unknown-pod", about, text, log)
        if isinstance(error, Denied):
            return Code.PERMISSION_DENIED, self._refused("name", text, text, log)
        if isinstance(error, Exhausted):
            return Code.RESOURCE_EXHAUSTED, self._refused("calls", text, text, log)
        log.exception("internal error")
        return Code.INTERNAL, "internal error, see the log"

    def _refused(self, kind: str, about: str, text: str, log: structlog.stdlib.BoundLogger) -> str:
        """Count a refusal, and log it once a minute for each that it is ``about``."""
        self._metrics.refused(kind)
        if self._seldom.due((kind, about)):
            log.warning("call refused", kind=kind, reason=text)
        return text

    def _admit(self, call: Call) -> None:
        """Raise Denied unless the caller's certificate has a name that may call."""
        if not self._names:
            return
        shown = call.auth_context()
        found = {
            value.decode("utf-8", "replace")
            for key in ("x509_common_name", "x509_subject_alternative_name", "x509_uri")
            for value in shown.get(key, ())
        }
        if found.isdisjoint(self._names):
            names = ", ".join(sorted(found)) or "no name"
            raise Denied(f"a certificate for {names} may not call (grpc.allowedNames)")

    def _log(self, verb: str, call: Call) -> structlog.stdlib.BoundLogger:
        given = dict(call.invocation_metadata() or ()).get(REQUEST_ID)
        if not isinstance(given, str) or not _REQUEST_ID.fullmatch(given):
            given = f"{self._id_prefix}-{next(self._ids)}"
        structlog.contextvars.bind_contextvars(request_id=given, verb=verb, transport="grpc")
        log: structlog.stdlib.BoundLogger = structlog.get_logger()
        return log


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
