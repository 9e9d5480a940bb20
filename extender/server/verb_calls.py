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
from typing import Protocol

import structlog

from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.model.settings import ServerSettings
from extender.server.answers import (
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
from extender.server.budget import BudgetSpent
from extender.server.in_flight import InFlight
from extender.server.load import Load
from extender.server.metrics import Metrics, VerbMetrics
from extender.server.pages import from_browser
from extender.server.refused_calls import RefusedCalls
from extender.server.rules import Rules
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

Answered = tuple[bytes, int, int]
"""(body, nodes in, nodes out) of a verb."""
Answering = Callable[[Scope, Receive, bytes], Awaitable[Answered]]
"""Answers the body of a verb."""


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
        self._calls: dict[str, tuple[Answering, VerbMetrics]] = {
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
        status, unread = 200, False
        limit = self._settings.max_body_bytes
        reading = Body(self._load.budget, limit)
        try:
            body = await reading.read(scope, receive)
            size = len(body)
            if self._load.working > 1:
                await self._load.turns.take()
            answer, nodes_in, nodes_out = await answering(scope, receive, body)
            metrics.weighed(nodes_in, nodes_out)
        except Disconnected:
            log.info("caller went away before its request was complete")
            return
        except BodyTooLarge:
            status, unread = 413, True
            answer = error_body(f"body exceeds {limit} bytes", "body")
            metrics.malformed()
            if self._refused.due(("large", path)):
                log.warning("body too large", limit=limit)
        except BodyTooLate:
            status, unread = 408, True
            seconds = self._settings.body_seconds
            answer = error_body(f"no complete body within {seconds:g} s", "body")
            self._refused.note("body-late", log, seconds=seconds)
        except BudgetSpent:
            status, unread = 503, True
            held = self._load.budget.limit
            answer = error_body(f"the bodies being read exceed {held} bytes; try again", "body")
            self._refused.note("bytes", log, limit=held)
        except InvalidInput as error:
            status, answer = 400, error_body(error.message, error.where)
            metrics.malformed()
            if self._refused.due(("malformed", path)):
                log.warning("malformed request", error=error.message[:SHOWN], where=error.where)
        except UnknownPod as error:
            status, answer = 409, error_body(str(error), "Pod")
            about = "" if error.absent else str(error)
            self._refused.note("unknown-pod", log, about=about, reason=str(error))
        except NotReady as error:
            status, answer = 503, error_body(str(error))
            if self._refused.due(("not ready", path, str(error))):
                log.warning("not ready", reason=str(error))
        except asyncio.CancelledError:
            if not self._requests.draining:
                raise
            status, answer = 503, error_body("stopping: the time for calls in flight is over")
            log.warning("call cut off by the stop")
        except Exception:
            status, answer = 500, error_body("internal error, see the log", request_id=request_id)
            log.exception("internal error")
        finally:
            reading.release()
        headers = [*self._requests.headers(), (b"x-request-id", request_id.encode())]
        if status == 503 and CLOSE not in headers:
            # A new connection through a Service may lead to the replica that answers.
            headers.append(CLOSE)
        if unread:
            if CLOSE not in headers:
                headers.append(CLOSE)
            await respond_unread(receive, send, status, answer, headers)
        else:
            await respond(send, status, answer, headers=headers)
        metrics.answered(status, perf_counter() - started, size, len(answer))
        if logging.root.isEnabledFor(logging.DEBUG):  # making a logger costs 15 us
            log.debug("answered", status=status, bytes_in=size, bytes_out=len(answer))

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

    async def _filter(self, scope: Scope, receive: Receive, body: bytes) -> Answered:
        args = decode_filter_args(body)
        result = await self._verbs.filter(args)
        answer = encode_filter_result(result, args)
        return answer, len(args.node_names), len(result.node_names)

    async def _prioritize(self, scope: Scope, receive: Receive, body: bytes) -> Answered:
        args = decode_filter_args(body)
        scores = await self._verbs.prioritize(args)
        return encode_priorities(scores), len(args.node_names), len(scores)

    async def _preempt(self, scope: Scope, receive: Receive, body: bytes) -> Answered:
        args = decode_preempt_args(body)
        result = await self._verbs.preempt(args)
        return encode_preempt_result(result), len(args.candidates), len(result.candidates)

    async def _bind(self, scope: Scope, receive: Receive, body: bytes) -> Answered:
        args = decode_bind_args(body)
        result = await self._verbs.bind(args, partial(self._requests.gone, scope, receive))
        return encode_bind_result(result), 1, int(not result.error)

    def _request_id(self, scope: Scope) -> str:
        given = header(scope, b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._id_prefix}-{next(self._ids)}"
