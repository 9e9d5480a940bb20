"""One call: who may, limits, metrics, log lines, and a stop that finishes what was begun."""

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

from extender.grpc_api.message_reading import AnswerNotRead, MessageLimits, largest, write
from extender.grpc_api.message_reading import Call as Call
from extender.grpc_api.message_reading import Message as Asked
from extender.grpc_api.peers import cut
from extender.grpc_api.rights import Rights
from extender.grpc_api.statuses import Exhausted, StatusCode, Statuses
from extender.model.errors import InvalidInput, NotReady
from extender.model.texts import counted
from extender.server.limits import ByteBudget, Load
from extender.server.metrics import Metrics, VerbMetrics
from extender.settings.settings import Settings

Question = TypeVar("Question", bound=Message)
T = TypeVar("T")
CallAnswer = tuple[Message, int, int]
"""(answer, nodes in, nodes out)."""
Handler: TypeAlias = "Callable[[object, Call], Awaitable[None]]"
REQUEST_ID = "x-request-id"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")
MOST_WATCH = 64 * 1024
"""Bytes of what a watch asks, which is kept as long as it is open."""
BESIDE_SECONDS = 1.0
"""For messages about health and the interface to come: they are read one at a time."""


def parsed(kind: type[Question], data: bytes) -> Question:
    """Return the message. Raises InvalidInput."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        name: str = kind.DESCRIPTOR.full_name
        raise InvalidInput(f"is no {name}: {error}", "message") from None


class Calls:
    """Everything that is being answered. One event loop only."""

    def __init__(self, metrics: Metrics, settings: Settings, rights: Rights, load: Load) -> None:
        self._metrics = metrics
        self._max_calls = settings.grpc.max_calls
        self._max_streams = settings.grpc.max_streams
        self._rights = rights
        self._load = load
        self._limits = MessageLimits(settings.server.body_seconds, largest(settings), load.budget)
        # One message at a time, so that health is told whatever the verbs' callers send.
        one = ByteBudget(2 * self._limits.size)
        self.beside_limits = MessageLimits(
            min(BESIDE_SECONDS, self._limits.seconds), self._limits.size, one
        )
        self._statuses = Statuses(metrics, self._limits)
        self._calls: set[asyncio.Task[Any]] = set()
        self._left: set[asyncio.Task[Any]] = set()
        """Verbs at work whose caller has gone."""
        self._holding = 0
        """Binds among them that are held: they wait for others, and are bounded by what is held."""
        self._unread: set[asyncio.Task[Any]] = set()
        """Calls whose answer is not taken."""
        self._streams: dict[asyncio.Task[Any], str] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self.draining = False
        self._cut = False
        self._ids = count(1)
        self._id_prefix = f"g{time.time_ns() // 1_000_000:x}"

    @property
    def working(self) -> int:
        """How many calls are being read, answered or taken, streams and held binds apart."""
        return len(self._calls) + len(self._left) + len(self._unread) - self._holding

    def unary(
        self, verb: str, answer: Callable[[bytes, Call], Awaitable[CallAnswer]], page: str = ""
    ) -> Handler:
        """Return the handler of a call with one answer.

        ``page`` is the debug page that shows the same; "" for what callers of the verbs may.
        """
        metrics = self._metrics.verb(verb, "grpc")

        async def handle(_: object, call: Call) -> None:
            started = perf_counter()
            log = self._log(verb, call)
            asked, read, sent = Asked(self._limits), 0, 0
            code, text = StatusCode.OK, ""
            task = _current()
            try:
                await self._rights.admit(call, page)
                if self.working >= self._max_calls:
                    raise Exhausted(
                        f"{counted(self._max_calls, 'call', 'is', 'are')} being answered already"
                    )
                self._enter(task)
                data = await asked.read(call)
                read = len(data)
                if self._load.working > 1:
                    await self._load.turns.take()
                message, nodes_in, nodes_out = await answer(data, call)
                body = message.SerializeToString()
                await write(call, body, self._limits.seconds)
                sent = len(body)
                metrics.weighed(nodes_in, nodes_out)
            except asyncio.CancelledError:
                code, text = self._cancelled(call)
                log.info("call ended early", status=code.name)
                if not self._cut:
                    metrics.answered(code.name, perf_counter() - started, read, 0)
                    raise
            except AnswerNotRead:
                self._leave(task)
                metrics.answered(StatusCode.CANCELLED.name, perf_counter() - started, read, 0)
                await self._give_up(call, task, log)
            except Exception as error:
                code, text = self._failed(error, page, metrics, log)
            finally:
                self._leave(task)
                asked.release()
            metrics.answered(code.name, perf_counter() - started, read, sent)
            log.debug("answered", status=code.name, bytes_in=read, bytes_out=sent)
            if code is not StatusCode.OK:
                await _end(call, code, text)

        return handle

    def stream(
        self, watch: str, feed: Callable[[bytes, Call], Awaitable[None]], page: str = ""
    ) -> Handler:
        """Return the handler of a watch; ``feed`` writes until it raises. ``page`` as above."""
        metrics = self._metrics.verb(watch, "grpc")

        async def handle(_: object, call: Call) -> None:
            started = perf_counter()
            log = self._log(watch, call)
            asked, read = Asked(self._limits), 0
            task = _current()
            try:
                await self._rights.admit(call, page)
                if len(self._streams) >= self._max_streams:
                    raise Exhausted(
                        f"{counted(self._max_streams, 'stream', 'is', 'are')} open already"
                    )
                if self.draining:
                    raise NotReady("stopping")
                self._streams[task] = watch
                data = await asked.read(call)
                asked.release()
                read = len(data)
                if read > MOST_WATCH:
                    raise InvalidInput(f"has more than {MOST_WATCH} bytes", "message")
                await feed(data, call)
                code, text = StatusCode.INTERNAL, "the watch ended by itself"
            except asyncio.CancelledError:
                if not self.draining:
                    code, text = self._cancelled(call)
                    metrics.answered(code.name, perf_counter() - started, read, 0)
                    raise
                code, text = StatusCode.UNAVAILABLE, "stopping"
            except AnswerNotRead:
                metrics.answered(StatusCode.CANCELLED.name, perf_counter() - started, read, 0)
                await self._give_up(call, task, log)
            except Exception as error:
                code, text = self._failed(error, page, metrics, log)
            finally:
                self._streams.pop(task, None)
                asked.release()
            metrics.answered(code.name, perf_counter() - started, read, 0)
            await _end(call, code, text)

        return handle

    def beside(
        self, what: str, most: int, work: Callable[[Call], Awaitable[None]], page: str = ""
    ) -> Handler:
        """Return the handler of what is no service of ours, ``most`` of it at a time.

        Without ``page`` everybody may who can connect.
        """
        taken = 0

        async def handle(_: object, call: Call) -> None:
            nonlocal taken
            log = self._log(what, call)
            try:
                if page:
                    await self._rights.admit(call, page)
                if taken >= most:
                    calls = counted(most, "call", f"about {what} is", f"about {what} are")
                    raise Exhausted(f"{calls} open already")
                taken += 1
                try:
                    await work(call)
                finally:
                    taken -= 1
                return
            except grpc.aio.AbortError:
                raise
            except AnswerNotRead:
                await self._give_up(call, _current(), log)
            except Exception as error:
                code, text = self._statuses.of(error, page, log)
            await _end(call, code, text)

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
        self._load.working -= 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._holding -= 1
            self._load.working += 1

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
        self._load.working += 1
        self._idle.clear()

    def _leave(self, task: asyncio.Task[Any]) -> None:
        if task not in self._calls:
            return
        self._calls.discard(task)
        self._load.working -= 1
        if not self._calls:
            self._idle.set()

    def _worked(self, task: asyncio.Task[Any]) -> None:
        self._left.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, NotReady):
            log = structlog.get_logger()
            log.error("a call failed after its caller had left", exc_info=error)

    async def _give_up(
        self, call: Call, task: asyncio.Task[Any], log: structlog.stdlib.BoundLogger
    ) -> None:
        """Close the caller's connection; ends by being cancelled when that is gone.

        Where it cannot be closed the call is there as long as its caller wants, and counts.
        """
        peer = call.peer()
        text = f"an answer was not taken within {self._limits.seconds:g} s"
        self._statuses.refused("answer-not-read", "", log, text)
        self._unread.add(task)
        try:
            cut(peer)
            await asyncio.get_running_loop().create_future()
        finally:
            self._unread.discard(task)

    def _cancelled(self, call: Call) -> tuple[grpc.StatusCode, str]:
        if self._cut:
            return StatusCode.UNAVAILABLE, "stopping: the time for open calls is over"
        left = call.time_remaining()
        late = left is not None and left <= 0
        return (StatusCode.DEADLINE_EXCEEDED if late else StatusCode.CANCELLED), ""

    def _failed(
        self, error: Exception, page: str, metrics: VerbMetrics, log: structlog.stdlib.BoundLogger
    ) -> tuple[grpc.StatusCode, str]:
        if isinstance(error, InvalidInput):
            metrics.malformed()
        return self._statuses.of(error, page, log)

    def _log(self, verb: str, call: Call) -> structlog.stdlib.BoundLogger:
        given = dict(call.invocation_metadata() or ()).get(REQUEST_ID)
        if not isinstance(given, str) or not _REQUEST_ID.fullmatch(given):
            given = f"{self._id_prefix}-{next(self._ids)}"
        structlog.contextvars.bind_contextvars(request_id=given, verb=verb, transport="grpc")
        log: structlog.stdlib.BoundLogger = structlog.get_logger()
        return log


async def _end(call: Call, code: grpc.StatusCode, text: str) -> None:
    """Tell the caller how its call has ended; one that has gone is told nothing more."""
    try:
        await call.abort(code, text)
    except (grpc.aio.InternalError, grpc.aio.UsageError):
        raise asyncio.CancelledError from None


def _current() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task
