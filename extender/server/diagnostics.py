"""Health, metrics and debug: what is asked with GET, pages apart."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from extender.model.errors import InvalidInput
from extender.server.answers import (
    TEXT,
    Scope,
    Send,
    error_body,
    header,
    method_not_allowed,
    respond,
)
from extender.server.authorization import Authorization
from extender.server.debug import DebugSource, serve_debug
from extender.server.in_flight import InFlight
from extender.server.metrics import Metrics
from extender.server.rules import Rules


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


class Diagnostics:
    """One a server. ``verbs`` are the names that are served, to be told to who asks for another."""

    def __init__(
        self,
        health: Health,
        metrics: Metrics,
        debug: DebugSource,
        authorization: Authorization,
        requests: InFlight,
        verbs: Sequence[str],
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._debug = debug
        self._authorization = authorization
        self._requests = requests
        self._verbs = verbs

    async def serve(self, rules: Rules, scope: Scope, send: Send) -> None:
        """Answer a request that is for no verb and no page of the console."""
        path: str = scope["path"]
        page = self._page(path)
        if page is None:
            verbs = [f"/{verb}" for verb in self._verbs] if rules.verbs else []
            there = f"there are {', '.join(verbs)}" if verbs else "none is served on this port"
            message = f"no verb {path[:100]!r}, {there}"
            await respond(
                send,
                404,
                error_body(message, "path", verbs=verbs),
                headers=self._requests.headers(),
            )
            return
        if scope["method"] not in ("GET", "HEAD"):
            await method_not_allowed(send, "GET", self._requests.headers())
            return
        try:
            if await self._authorization.admitted(rules, scope, send):
                await page(scope, send)
        except InvalidInput as error:
            body = error_body(error.message, error.where)
            await respond(send, 400, body, headers=self._requests.headers())
        except Exception:
            structlog.get_logger().exception("internal error", path=path)
            await respond(
                send,
                500,
                error_body("internal error, see the log"),
                headers=self._requests.headers(),
            )

    def _page(self, path: str) -> Callable[[Scope, Send], Awaitable[None]] | None:
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

    async def _alive(self, scope: Scope, send: Send) -> None:
        await self._report(send, "not alive", self._health.alive(), 500)

    async def _readiness(self, scope: Scope, send: Send) -> None:
        reasons = ["stopping"] if self._requests.draining else self._health.ready()
        await self._report(send, "not ready", reasons, 503)

    async def _caches(self, scope: Scope, send: Send) -> None:
        """Whether a standby could take over: all of readiness but leading."""
        reasons = ["stopping"] if self._requests.draining else self._health.caches()
        await self._report(send, "not ready", reasons, 503)

    async def _report(self, send: Send, what: str, reasons: list[str], status: int) -> None:
        if reasons:
            body = error_body(f"{what}: " + "; ".join(reasons), reasons=reasons)
            await respond(send, status, body, headers=self._requests.headers())
        else:
            await respond(send, 200, b"ok", TEXT, headers=self._requests.headers())

    async def _scrape(self, scope: Scope, send: Send) -> None:
        accept = (header(scope, b"accept") or b"").decode("latin-1")
        body, content_type = self._metrics.render(accept)
        await respond(send, 200, body, content_type.encode(), headers=self._requests.headers())

    async def _serve_debug(self, scope: Scope, send: Send) -> None:
        path: str = scope["path"]
        if not await serve_debug(
            self._debug, path, scope["query_string"], send, self._requests.headers()
        ):
            body = error_body(f"no debug page {path[:100]!r}, see /debug/", "path")
            await respond(send, 404, body, headers=self._requests.headers())
