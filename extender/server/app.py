"""The ASGI application: the verbs, health, metrics, debug, and the console's pages.

kube-scheduler reads the body only of a 200 and takes anything else for an
error, so every refusal here is for the person who reads logs or calls by hand.
Every listener has a door of its own into it, with rules on who is shown what.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any, Protocol

import structlog

from extender.model.errors import InvalidInput, NotReady, UnknownPod
from extender.model.settings import ServerSettings
from extender.server.answers import (
    CLOSE,
    HOLDING,
    JSON,
    TEXT,
    Body,
    BodyTooLarge,
    BodyTooLate,
    Disconnected,
    Headers,
    Receive,
    Scope,
    Send,
    error_body,
    header,
    respond,
)
from extender.server.budget import BudgetSpent
from extender.server.debug import DebugSource, serve_debug
from extender.server.load import Load
from extender.server.metrics import Metrics, VerbMetrics
from extender.server.pages import (
    CHALLENGE,
    RIGHT,
    Pages,
    Visit,
    credential,
    from_browser,
    is_page,
    misdirected,
)
from extender.server.rules import Rules, Shown
from extender.server.seldom import Seldom
from extender.server.tokens import Tokens, review
from extender.wire.bind import BindArgs, BindResult, decode_bind_args, encode_bind_result
from extender.wire.filter import (
    FilterArgs,
    FilterResult,
    HostPriority,
    decode_filter_args,
    encode_filter_result,
    encode_priorities,
)
from extender.wire.preempt import (
    PreemptArgs,
    PreemptResult,
    decode_preempt_args,
    encode_preempt_result,
)

VERBS = ("filter", "prioritize", "preempt")
BIND = "bind"
"""Served only where the settings say so."""
LINGER_SECONDS = 2.0
"""How long the rest of a refused body is read, so that the caller sees the refusal."""
NO_SUCH_NAME = error_body("this port has no such name: use an address or localhost", "host")
SHOWN = 500
"""Characters of an error about a caller's words that are logged."""
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,64}")

Answered = tuple[bytes, int, int]
"""(body, nodes in, nodes out) of a verb."""


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


def _nothing() -> list[str]:
    return []


@dataclass(frozen=True)
class Health:
    """What is wrong, for each of the health pages; an empty list is good."""

    ready: Callable[[], list[str]] = _nothing
    """/readyz: verbs are answered."""
    alive: Callable[[], list[str]] = _nothing
    """/livez: no restart is needed."""
    caches: Callable[[], list[str]] = _nothing
    """/readyz/caches: the state of the cluster is known and fresh, leading or not."""


class App:
    """The application; one instance a server, one ``door`` a listener.

    ``health`` returns the reasons why this process is not ready, not alive, or does not
    know the cluster. Without ``tokens`` nobody's token is good. ``load`` is shared with the other
    transport, if there is one.
    """

    def __init__(
        self,
        verbs: Verbs,
        debug: DebugSource,
        health: Health,
        metrics: Metrics,
        settings: ServerSettings,
        tokens: Tokens | None,
        load: Load | None = None,
        *,
        binds: bool = False,
        pages: Pages | None = None,
    ) -> None:
        self._verbs = verbs
        self._pages = pages
        self._debug = debug
        self._health = health
        self._metrics = metrics
        self._settings = settings
        self._tokens = tokens
        self._seldom = Seldom(time.monotonic)
        self._load = load or Load(settings)
        self._turns = self._load.turns
        self.budget = self._load.budget
        self._calls: dict[str, tuple[Callable[[bytes], Awaitable[Answered]], VerbMetrics]] = {
            "/filter": (self._filter, metrics.verb("filter")),
            "/prioritize": (self._prioritize, metrics.verb("prioritize")),
            "/preempt": (self._preempt, metrics.verb("preempt")),
        }
        self._served = (*VERBS, BIND) if binds else VERBS
        self._bind_metrics = metrics.verb(BIND) if binds else None
        self._in_flight = 0
        self._held = 0
        """Answers among them that are held (binds, events): they wait, and keep nobody busy."""
        self._idle = asyncio.Event()
        self._idle.set()
        self._draining = False
        self._ids = count(1)
        self._id_prefix = f"{time.time_ns() // 1_000_000:x}"

    @property
    def in_flight(self) -> int:
        """How many requests are being answered now."""
        return self._in_flight

    @property
    def busy(self) -> int:
        """How many of them are worked on: binds that are held are not."""
        return self._in_flight - self._held

    def drain(self) -> None:
        """Turn readiness off and ask callers, answer by answer, to close their connections."""
        self._draining = True
        self._verbs.stopping()
        if self._pages is not None:
            self._pages.stopping()

    async def idle(self) -> None:
        """Return once no request is in flight."""
        await self._idle.wait()

    def door(self, rules: Rules) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Return the application as one listener shows it."""
        return partial(self._answer, rules)

    async def _answer(self, rules: Rules, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"unsupported ASGI scope {scope['type']!r}")
        self._in_flight += 1
        self._load.working += 1
        self._idle.clear()
        try:
            call = self._calls.get(scope["path"])
            if call is None and self._bind_metrics is not None and scope["path"] == "/bind":
                call = partial(self._bind, scope, receive), self._bind_metrics
            if call is not None and rules.verbs:
                await self._serve_verb(*call, rules, scope, receive, send)
            elif self._pages is not None and is_page(scope["path"]):
                await self._serve_page(self._pages, rules, scope, receive, send)
            else:
                await self._serve_other(rules, scope, send)
        finally:
            self._in_flight -= 1
            self._load.working -= 1
            if not self._in_flight:
                self._idle.set()

    # Verbs

    async def _serve_verb(
        self,
        call: Callable[[bytes], Awaitable[Answered]],
        metrics: VerbMetrics,
        rules: Rules,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        path: str = scope["path"]
        if scope["method"] != "POST":
            await self._method_not_allowed(send, "POST")
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
        reading = Body(self.budget, limit)
        try:
            body = await reading.read(scope, receive)
            size = len(body)
            if self._load.working > 1:
                await self._turns.take()
            answer, nodes_in, nodes_out = await call(body)
            metrics.weighed(nodes_in, nodes_out)
        except Disconnected:
            log.info("caller went away before its request was complete")
            return
        except BodyTooLarge:
            status, unread = 413, True
            answer = error_body(f"body exceeds {limit} bytes", "body")
            metrics.malformed()
            if self._seldom.due(("large", path)):
                log.warning("body too large", limit=limit)
        except BodyTooLate:
            status, unread = 408, True
            seconds = self._settings.body_seconds
            answer = error_body(f"no complete body within {seconds:g} s", "body")
            self._refused("body-late", log, seconds=seconds)
        except BudgetSpent:
            status, unread = 503, True
            held = self.budget.limit
            answer = error_body(f"the bodies being read exceed {held} bytes; try again", "body")
            self._refused("bytes", log, limit=held)
        except InvalidInput as error:
            status, answer = 400, error_body(error.message, error.where)
            metrics.malformed()
            if self._seldom.due(("malformed", path)):
                log.warning("malformed request", error=error.message[:SHOWN], where=error.where)
        except UnknownPod as error:
            status, answer = 409, error_body(str(error), "Pod")
            about = "" if error.absent else str(error)
            self._refused("unknown-pod", log, about=about, reason=str(error))
        except NotReady as error:
            status, answer = 503, error_body(str(error))
            if self._seldom.due(("not ready", path, str(error))):
                log.warning("not ready", reason=str(error))
        except asyncio.CancelledError:
            if not self._draining:
                raise
            status, answer = 503, error_body("stopping: the time for calls in flight is over")
            log.warning("call cut off by the stop")
        except Exception:
            status, answer = 500, error_body("internal error, see the log", request_id=request_id)
            log.exception("internal error")
        finally:
            reading.release()
        headers = [*self._headers(), (b"x-request-id", request_id.encode())]
        if status == 503 and CLOSE not in headers:
            # A new connection through a Service may lead to the replica that answers.
            headers.append(CLOSE)
        if unread:
            if CLOSE not in headers:
                headers.append(CLOSE)
            await _respond_unread(receive, send, status, answer, headers)
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
        self._refused("name", structlog.get_logger(), about=names, verb=path[1:], names=names)
        headers = [*self._headers(), CLOSE]
        await _respond_unread(receive, send, 403, error_body(message), headers)
        metrics.answered(403, 0.0, 0, 0)

    async def _browser(self, metrics: VerbMetrics, receive: Receive, send: Send) -> None:
        """Refuse what a page of anybody's has a browser beside us send: no browser schedules."""
        self._refused("browser", structlog.get_logger())
        answer = error_body(
            "the verbs are for kube-scheduler, not for pages in a browser", "origin"
        )
        await _respond_unread(receive, send, 403, answer, [*self._headers(), CLOSE])
        metrics.answered(403, 0.0, 0, 0)

    def _refused(self, kind: str, log: Any, about: str = "", **more: object) -> None:
        """Count a refusal, and log it once a minute for each that it is ``about``."""
        self._metrics.refused(kind)
        if self._seldom.due((kind, about)):
            log.warning("call refused", kind=kind, **more)

    async def _filter(self, body: bytes) -> Answered:
        args = decode_filter_args(body)
        result = await self._verbs.filter(args)
        answer = encode_filter_result(result, args)
        return answer, len(args.node_names), len(result.node_names)

    async def _prioritize(self, body: bytes) -> Answered:
        args = decode_filter_args(body)
        scores = await self._verbs.prioritize(args)
        return encode_priorities(scores), len(args.node_names), len(scores)

    async def _preempt(self, body: bytes) -> Answered:
        args = decode_preempt_args(body)
        result = await self._verbs.preempt(args)
        return encode_preempt_result(result), len(args.candidates), len(result.candidates)

    async def _bind(self, scope: Scope, receive: Receive, body: bytes) -> Answered:
        args = decode_bind_args(body)
        result = await self._verbs.bind(args, partial(self._gone, scope, receive))
        return encode_bind_result(result), 1, int(not result.error)

    async def _gone(self, scope: Scope, receive: Receive) -> None:
        """Return when the caller has left. Its answer is held until then, and keeps nobody busy."""
        self._held += 1
        self._load.working -= 1
        scope["state"][HOLDING](now=True)
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._held -= 1
            self._load.working += 1
            scope["state"][HOLDING](now=False)

    def _request_id(self, scope: Scope) -> str:
        given = header(scope, b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given.decode()
        return f"{self._id_prefix}-{next(self._ids)}"

    def _headers(self) -> list[tuple[bytes, bytes]]:
        return [CLOSE] if self._draining else []

    # Pages

    async def _serve_page(
        self, pages: Pages, rules: Rules, scope: Scope, receive: Receive, send: Send
    ) -> None:
        if rules.debug == "open" and misdirected(scope):
            headers = [*self._headers(), CLOSE]
            await _respond_unread(receive, send, 421, NO_SUCH_NAME, headers)
        elif await self._admitted(rules, scope, send):
            gone = partial(self._gone, scope, receive)
            await pages.serve(Visit(scope, receive, send, self._headers(), gone, self.budget))

    # Everything else

    async def _serve_other(self, rules: Rules, scope: Scope, send: Send) -> None:
        path: str = scope["path"]
        serve = self._other(path)
        if serve is None:
            verbs = [f"/{verb}" for verb in self._served] if rules.verbs else []
            there = f"there are {', '.join(verbs)}" if verbs else "none is served on this port"
            message = f"no verb {path[:100]!r}, {there}"
            await respond(
                send, 404, error_body(message, "path", verbs=verbs), headers=self._headers()
            )
            return
        if scope["method"] not in ("GET", "HEAD"):
            await self._method_not_allowed(send, "GET")
            return
        try:
            if await self._admitted(rules, scope, send):
                await serve(scope, send)
        except InvalidInput as error:
            body = error_body(error.message, error.where)
            await respond(send, 400, body, headers=self._headers())
        except Exception:
            structlog.get_logger().exception("internal error", path=path)
            await respond(
                send, 500, error_body("internal error, see the log"), headers=self._headers()
            )

    def _other(self, path: str) -> Callable[[Scope, Send], Awaitable[None]] | None:
        if path in ("/healthz", "/livez"):
            return self._alive
        if path == "/readyz":
            return self._readiness
        if path == "/readyz/caches":
            return self._caches
        if path == "/metrics":
            return self._scrape
        if path == "/debug" or path.startswith("/debug/"):
            return self._serve_debug
        return None

    async def _admitted(self, rules: Rules, scope: Scope, send: Send) -> bool:
        """Whether the caller may see the page; has answered when not."""
        path: str = scope["path"]
        shown: Shown = "open"
        if path == "/metrics":
            shown = rules.metrics
        elif path.startswith("/debug") or is_page(path):
            shown = rules.debug
        if shown == "open":
            if path.startswith("/debug") and misdirected(scope):
                await respond(send, 421, NO_SUCH_NAME, headers=[*self._headers(), CLOSE])
                return False
            return True
        if shown == "off":
            body = error_body("the debug API is turned off here (server.debug)", "path")
            await respond(send, 404, body, headers=self._headers())
            return False
        page = is_page(path)
        bearer = credential(scope) if page else header(scope, b"authorization")
        peer = str((scope.get("client") or ("",))[0])
        verdict = await review(rules, self._tokens, bearer, RIGHT if page else path, peer)
        if verdict.status == 200:
            return True
        self._refused("token", structlog.get_logger(), about=path, path=path[:100])
        headers = self._headers()
        if verdict.status == 401:
            headers = [*headers, CHALLENGE if page else (b"www-authenticate", b"Bearer")]
        await respond(send, verdict.status, error_body(verdict.message), headers=headers)
        return False

    async def _alive(self, scope: Scope, send: Send) -> None:
        await self._report(send, "not alive", self._health.alive(), 500)

    async def _readiness(self, scope: Scope, send: Send) -> None:
        reasons = ["stopping"] if self._draining else self._health.ready()
        await self._report(send, "not ready", reasons, 503)

    async def _caches(self, scope: Scope, send: Send) -> None:
        """Whether a standby could take over: all of readiness but leading."""
        reasons = ["stopping"] if self._draining else self._health.caches()
        await self._report(send, "not ready", reasons, 503)

    async def _report(self, send: Send, what: str, reasons: list[str], status: int) -> None:
        if reasons:
            body = error_body(f"{what}: " + "; ".join(reasons), reasons=reasons)
            await respond(send, status, body, headers=self._headers())
        else:
            await respond(send, 200, b"ok", TEXT, headers=self._headers())

    async def _scrape(self, scope: Scope, send: Send) -> None:
        accept = (header(scope, b"accept") or b"").decode("latin-1")
        body, content_type = self._metrics.render(accept)
        await respond(send, 200, body, content_type.encode(), headers=self._headers())

    async def _serve_debug(self, scope: Scope, send: Send) -> None:
        path: str = scope["path"]
        if not await serve_debug(self._debug, path, scope["query_string"], send, self._headers()):
            body = error_body(f"no debug page {path[:100]!r}, see /debug/", "path")
            await respond(send, 404, body, headers=self._headers())

    async def _method_not_allowed(self, send: Send, allowed: str) -> None:
        await respond(
            send,
            405,
            error_body(f"only {allowed} is served here", "method"),
            JSON,
            [*self._headers(), (b"allow", allowed.encode())],
        )


async def _respond_unread(
    receive: Receive, send: Send, status: int, answer: bytes, headers: Headers
) -> None:
    """Answer a request whose body is not wanted, and read on for a while."""
    await respond(send, status, answer, headers=headers, more=True)
    await _discard(receive)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _discard(receive: Receive) -> None:
    """Read on for a while.

    Closing with unread data makes the kernel reset the connection, and the
    caller loses the answer that is already on its way.
    """
    try:
        async with asyncio.timeout(LINGER_SECONDS):
            more = True
            while more:
                more = (await receive()).get("more_body", False)
    except TimeoutError:
        return
