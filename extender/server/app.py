"""The ASGI application: where each request goes.

Every listener has a door of its own into it, with rules on who is shown what.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from extender.server.access_rules import Rules
from extender.server.authorization import NO_SUCH_NAME, Authorization
from extender.server.diagnostics import DebugSource, Diagnostics, Health
from extender.server.in_flight import InFlight
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.server.pages import PREFIX, Pages, Visit, is_page, misdirected
from extender.server.refused_calls import RefusedCalls
from extender.server.responses import CLOSE, Receive, Scope, Send, respond_unread
from extender.server.tokens import Tokens
from extender.server.verb_calls import VerbCalls, Verbs
from extender.settings.settings import ServerSettings


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
        self._load = load or Load(settings)
        self.budget = self._load.budget
        self._requests = requests = InFlight(self._load)
        refused = RefusedCalls(metrics)
        self._verb_calls = VerbCalls(
            verbs, metrics, settings, self._load, requests, refused, binds=binds
        )
        self._authorization = Authorization(tokens, refused, requests)
        self._diagnostics = Diagnostics(
            health, metrics, debug, self._authorization, requests, self._verb_calls.names
        )

    @property
    def in_flight(self) -> int:
        """How many requests are being answered now."""
        return self._requests.number

    @property
    def busy(self) -> int:
        """How many of them are worked on: binds that are held are not."""
        return self._requests.busy

    def drain(self) -> None:
        """Turn readiness off and ask callers, answer by answer, to close their connections."""
        self._requests.draining = True
        self._verbs.stopping()
        if self._pages is not None:
            self._pages.stopping()

    async def idle(self) -> None:
        """Return once no request is under way."""
        await self._requests.idle()

    def door(self, rules: Rules) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """Return the application as one listener shows it."""
        return partial(self._answer, rules)

    async def _answer(self, rules: Rules, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"unsupported ASGI scope {scope['type']!r}")
        self._requests.begin()
        try:
            if rules.verbs and self._verb_calls.has(scope["path"]):
                await self._verb_calls.serve(rules, scope, receive, send)
            elif self._pages is not None and rules.debug != "off" and scope["path"] == "/":
                headers = [*self._requests.headers(), (b"location", f"{PREFIX}/".encode())]
                await respond_unread(receive, send, 302, b"", headers)
            elif self._pages is not None and is_page(scope["path"]):
                await self._serve_page(self._pages, rules, scope, receive, send)
            else:
                await self._diagnostics.serve(rules, scope, send)
        finally:
            self._requests.end()

    async def _serve_page(
        self, pages: Pages, rules: Rules, scope: Scope, receive: Receive, send: Send
    ) -> None:
        headers = self._requests.headers()
        if rules.debug == "open" and misdirected(scope):
            await respond_unread(receive, send, 421, NO_SUCH_NAME, [*headers, CLOSE])
        elif await self._authorization.admitted(rules, scope, send):
            gone = partial(self._requests.gone, scope, receive)
            headers = self._requests.headers()
            await pages.serve(Visit(scope, receive, send, headers, gone, self.budget))
