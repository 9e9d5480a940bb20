"""Who is shown what is asked with GET: health everybody, the rest by the listener's rules."""

from __future__ import annotations

import structlog

from extender.server.access_rules import Exposure, Rules
from extender.server.in_flight import InFlight
from extender.server.pages import CHALLENGE, RIGHT, credential, is_page, misdirected
from extender.server.refused_calls import RefusedCalls
from extender.server.responses import CLOSE, Scope, Send, error_body, header, respond
from extender.server.tokens import Tokens, review

NO_SUCH_NAME = error_body("this port has no such name: use an address or localhost", "host")


class Authorization:
    """Asks for a token where the rules say so. Without ``tokens`` nobody's token is good."""

    def __init__(self, tokens: Tokens | None, refused: RefusedCalls, requests: InFlight) -> None:
        self._tokens = tokens
        self._refused = refused
        self._requests = requests

    async def admitted(self, rules: Rules, scope: Scope, send: Send) -> bool:
        """Whether the caller may see the page; has answered when not."""
        path: str = scope["path"]
        shown: Exposure = "open"
        if path == "/metrics":
            shown = rules.metrics
        elif path.startswith("/debug") or is_page(path):
            shown = rules.debug
        if shown == "open":
            shielded = path.startswith("/debug") or (rules.local and path == "/metrics")
            if shielded and misdirected(scope):
                await respond(send, 421, NO_SUCH_NAME, headers=[*self._requests.headers(), CLOSE])
                return False
            return True
        if shown == "off":
            body = error_body("the debug API is turned off here (server.debug)", "path")
            await respond(send, 404, body, headers=self._requests.headers())
            return False
        page = is_page(path)
        bearer = credential(scope) if page else header(scope, b"authorization")
        peer = str((scope.get("client") or ("",))[0])
        verdict = await review(rules, self._tokens, bearer, RIGHT if page else path, peer)
        if verdict.status == 200:
            return True
        self._refused.note("token", structlog.get_logger(), about=path, path=path[:100])
        headers = self._requests.headers()
        if verdict.status == 401:
            headers = [*headers, CHALLENGE if page else (b"www-authenticate", b"Bearer")]
        await respond(send, verdict.status, error_body(verdict.message), headers=headers)
        return False
