"""A verb as it comes over HTTP: who calls, the body, its turn, the answer, what went wrong.

kube-scheduler reads the body only of a 200 and takes anything else for an
error, so every refusal here is for the person who reads logs or calls by hand.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, NamedTuple, Protocol

import structlog

from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.server.access_rules import Rules
from extender.server.in_flight import InFlight
from extender.server.limits import BudgetSpent, Load
from extender.server.metrics import Metrics, VerbMetrics
from extender.server.pages import from_browser
from extender.server.refused_calls import RefusedCalls
from extender.server.responses import (
    CLOSE,
    Body,
    BodyTooLarge,
    BodyTooLate,
    Disconnected,
    Receive,
    Scope,
    Send,
    error_body,
    header,
    method_not_allowed,
    respond,
    respond_unread,
)
from extender.settings.settings import ServerSettings
from extender.wire.bind_json import BindArgs, BindResult, decode_bind_args, encode_bind_result
from extender.wire.filter_json import (
    FilterArgs,
    FilterResult,
    HostPriority,
    decode_filter_args,
    encode_filter_result,
    encode_priorities,
)
from extender.wire.preempt_json import (
    PreemptArgs,
    PreemptResult,
    decode_preempt_args,
    encode_preempt_result,
)

VERBS = ("filter", "prioritize", "preempt")
BIND = "bind"
"""Served only where the settings say so."""
SHOWN = 500
"""Characters of an error about a caller's words that are logged."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")

VerbAnswer = tuple[bytes, int, int]
"""(body, nodes in, nodes out) of a verb."""
VerbAnswering = Callable[[Scope, Receive, bytes], Awaitable[VerbAnswer]]
"""Answers the body of a verb."""


class Reply(NamedTuple):
    """What a caller is told."""

    status: int
    body: bytes
    unread: bool = False
    """Not all of the request was read: its connection is of no use any more."""


class Verbs(Protocol):
    """What the verbs room gives. All run on the event loop.

    InvalidInput becomes 400, UnknownPod 409, NotReady 503, anything else 500; an error
    that kube-scheduler should see as filter's own goes into FilterResult.error.
    """

    async def filter(self, args: FilterArgs) -> FilterResult:
        """Say which of the offered nodes the pod may use."""

    async def prioritize(self, args: FilterArgs) -> Sequence[HostPriority]:
        """Score the offered nodes."""

    async def preempt(self, args: PreemptArgs) -> PreemptResult:
        """Say which pods may go, by node."""

    async def bind(self, args: BindArgs, gone: Callable[[], Awaitable[None]]) -> BindResult:
        """Bind a pod, a member of a gang with the others.

        ``gone`` returns when the caller has left; it is awaited only while the bind is held.
        """

    def stopping(self) -> None:
        """Answer the binds that are held: this process stops."""


class VerbCalls:
    """The verbs of one server, behind all its listeners."""

    def __init__(
        self,
        verbs: Verbs,
        metrics: Metrics,
        settings: ServerSettings,
        load: Load,
        requests: InFlight,
        refused: RefusedCalls,
        *,
        binds: bool,
    ) -> None:
        self._verbs = verbs
        self._settings = settings
        self._load = load
        self._requests = requests
        self._refused = refused
        self.names = (*VERBS, BIND) if binds else VERBS
        answering = {
            "filter": self._filter,
            "prioritize": self._prioritize,
            "preempt": self._preempt,
            BIND: self._bind,
        }
        self._calls: dict[str, tuple[VerbAnswering, VerbMetrics]] = {
            f"/{name}": (answering[name], metrics.verb(name)) for name in self.names
        }
        self._ids = count(1)
        self._id_prefix = f"{time.time_ns() // 1_000_000:x}"

    def has(self, path: str) -> bool:
        """Whether a verb is served at the path."""
        return path in self._calls

    async def serve(self, rules: Rules, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for a path that ``has`` a verb."""
        path: str = scope["path"]
        answering, metrics = self._calls[path]
        if scope["method"] != "POST":
            await method_not_allowed(send, "POST", self._requests.headers())
            return
        if rules.names and rules.names.isdisjoint(scope["state"]["names"]):
            await self._unknown_name(path, metrics, scope, receive, send)
            return
        if from_browser(scope):
            await self._browser(metrics, receive, send)
            return
        started = perf_counter()
        request_id = self._request_id(scope)
        structlog.contextvars.bind_contextvars(request_id=request_id, verb=path[1:])
        log = structlog.get_logger()
        size = 0
        reading = Body(self._load.budget, self._settings.max_body_bytes)
        try:
            body = await reading.read(scope, receive)
            size = len(body)
            if self._load.working > 1:
                await self._load.turns.take()
            answer, nodes_in, nodes_out = await answering(scope, receive, body)
            metrics.weighed(nodes_in, nodes_out)
            reply = Reply(200, answer)
        except Disconnected:
            log.info("caller left before its request was complete")
            return
        except asyncio.CancelledError:
            if not self._requests.draining:
                raise
            reply = Reply(503, error_body("stopping: the time for open calls is over"))
            log.warning("call cut off by the stop")
        except Exception as error:
            reply = self._read_in_part(error, path, metrics, log) or self._not_answered(
                error, path, metrics, log, request_id
            )
        finally:
            reading.release()
        await self._respond(reply, request_id, receive, send)
        metrics.answered(reply.status, perf_counter() - started, size, len(reply.body))
        if logging.root.isEnabledFor(logging.DEBUG):  # making a logger costs 15 us
            log.debug("answered", status=reply.status, bytes_in=size, bytes_out=len(reply.body))

    def _read_in_part(
        self, error: Exception, path: str, metrics: VerbMetrics, log: Any
    ) -> Reply | None:
        """Return what is said to a caller whose body was not read to its end, None to others."""
        if isinstance(error, BodyTooLarge):
            limit = self._settings.max_body_bytes
            metrics.malformed()
            if self._refused.due(("large", path)):
                log.warning("body too large", limit=limit)
            return Reply(413, error_body(f"body exceeds {limit} bytes", "body"), unread=True)
        if isinstance(error, BodyTooLate):
            seconds = self._settings.body_seconds
            self._refused.note("body-late", log, seconds=seconds)
            answer = error_body(f"no complete body within {seconds:g} s", "body")
            return Reply(408, answer, unread=True)
        if isinstance(error, BudgetSpent):
            held = self._load.budget.limit
            self._refused.note("bytes", log, limit=held)
            answer = error_body(f"the bodies being read exceed {held} bytes; try again", "body")
            return Reply(503, answer, unread=True)
        return None

    def _not_answered(
        self, error: Exception, path: str, metrics: VerbMetrics, log: Any, request_id: str
    ) -> Reply:
        """Return what is said where the verb has no answer to a body (see ``Verbs``)."""
        if isinstance(error, InvalidInput):
            metrics.malformed()
            if self._refused.due(("malformed", path)):
                log.warning("malformed request", error=error.message[:SHOWN], where=error.where)
            return Reply(400, error_body(error.message, error.where))
        if isinstance(error, UnknownPod):
            about = "" if error.absent else str(error)
            self._refused.note("unknown-pod", log, about=about, reason=str(error))
            return Reply(409, error_body(str(error), "Pod"))
        if isinstance(error, NotReady):
            if self._refused.due(("not ready", path, str(error))):
                log.warning("not ready", reason=str(error))
            return Reply(503, error_body(str(error)))
        log.exception("internal error")
        return Reply(500, error_body("internal error, see the log", request_id=request_id))

    async def _respond(self, reply: Reply, request_id: str, receive: Receive, send: Send) -> None:
        headers = [*self._requests.headers(), (b"x-request-id", request_id.encode())]
        # A new connection through a Service may lead to the replica that answers.
        if (reply.status == 503 or reply.unread) and CLOSE not in headers:
            headers.append(CLOSE)
        if reply.unread:
            await respond_unread(receive, send, reply.status, reply.body, headers)
        else:
            await respond(send, reply.status, reply.body, headers=headers)

    async def _unknown_name(
        self, path: str, metrics: VerbMetrics, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Refuse a caller who showed a good certificate of somebody else."""
        state = scope["state"]
        names = ", ".join(sorted(state["names"])) or "no name"
        message = f"a certificate for {names} may not call the verbs (server.allowedNames)"
        if state["expired"]:
            message = "the certificate that was shown when the connection was made has expired"
        self._refused.note("name", structlog.get_logger(), about=names, verb=path[1:], names=names)
        headers = [*self._requests.headers(), CLOSE]
        await respond_unread(receive, send, 403, error_body(message), headers)
        metrics.answered(403, 0.0, 0, 0)

    async def _browser(self, metrics: VerbMetrics, receive: Receive, send: Send) -> None:
        """Refuse what a page of anybody's has a browser beside us send: no browser schedules."""
        self._refused.note("browser", structlog.get_logger())
        answer = error_body(
            "the verbs are for kube-scheduler, not for pages in a browser", "origin"
        )
        await respond_unread(receive, send, 403, answer, [*self._requests.headers(), CLOSE])
        metrics.answered(403, 0.0, 0, 0)

    async def _filter(self, scope: Scope, receive: Receive, body: bytes) -> VerbAnswer:
        args = decode_filter_args(body)
        result = await self._verbs.filter(args)
        answer = encode_filter_result(result, args)
        return answer, len(args.node_names), len(result.node_names)

    async def _prioritize(self, scope: Scope, receive: Receive, body: bytes) -> VerbAnswer:
        args = decode_filter_args(body)
        scores = await self._verbs.prioritize(args)
        return encode_priorities(scores), len(args.node_names), len(scores)

    async def _preempt(self, scope: Scope, receive: Receive, body: bytes) -> VerbAnswer:
        args = decode_preempt_args(body)
        result = await self._verbs.preempt(args)
        return encode_preempt_result(result), len(args.candidates), len(result.candidates)

    async def _bind(self, scope: Scope, receive: Receive, body: bytes) -> VerbAnswer:
        args = decode_bind_args(body)
        result = await self._verbs.bind(args, partial(self._requests.gone, scope, receive))
        return encode_bind_result(result), 1, int(not result.error)

    def _request_id(self, scope: Scope) -> str:
        given = header(scope, b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._id_prefix}-{next(self._ids)}"
