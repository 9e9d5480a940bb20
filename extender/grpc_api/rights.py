"""Who may call: the verbs and their mirror by name, the rest as the debug pages over HTTP."""

from __future__ import annotations

from extender.grpc_api.message_reading import Call
from extender.grpc_api.peers import host_of
from extender.server.access_rules import Rules, debug_shown
from extender.server.tokens import Tokens, Verdict, review
from extender.settings.grpc_address import parse
from extender.settings.settings import Settings


class Denied(Exception):  # noqa: N818 - reads as the condition it is
    """The caller's certificate is good, but of somebody else."""


class TurnedOff(Exception):  # noqa: N818 - reads as the condition it is
    """This is not served here."""


class NotAllowed(Exception):  # noqa: N818 - reads as the condition it is
    """The caller's token is not known, or not allowed this, or cannot be reviewed."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.message)
        self.status = verdict.status
        """As over HTTP: 401, 403 or 503."""


def rules_of(settings: Settings) -> Rules:
    """Return what the listener of these settings shows, and to whom."""
    address = parse(settings.grpc.listen)
    return Rules(
        names=frozenset(settings.grpc_names),
        debug=debug_shown(settings.server, local=address.local),
        encrypted=bool(settings.grpc_tls[0]) and not address.path,
    )


class Rights:
    """Looks at certificates and tokens before anything of a message is read."""

    def __init__(self, rules: Rules, tokens: Tokens | None) -> None:
        self._rules = rules
        self._tokens = tokens

    async def admit(self, call: Call, page: str) -> None:
        """Return for a caller who may. ``page``: the debug page that shows the same, "" for verbs.

        Raises Denied, TurnedOff or NotAllowed.
        """
        if page:
            await self._page(call, page)
        elif self._rules.names:
            self._name(call)

    def _name(self, call: Call) -> None:
        shown = call.auth_context()
        found = {
            value.decode("utf-8", "replace")
            for key in ("x509_common_name", "x509_subject_alternative_name", "x509_uri")
            for value in shown.get(key, ())
        }
        if found.isdisjoint(self._rules.names):
            names = ", ".join(sorted(found)) or "no name"
            raise Denied(f"a certificate for {names} may not call (grpc.allowedNames)")

    async def _page(self, call: Call, page: str) -> None:
        shown = self._rules.debug
        if shown == "open":
            return
        if shown == "off":
            raise TurnedOff(
                f"what {page} shows is turned off here (server.debug); the verbs are served"
            )
        given = dict(call.invocation_metadata() or ()).get("authorization", "")
        header = given if isinstance(given, bytes) else given.encode()
        verdict = await review(self._rules, self._tokens, header, page, host_of(call.peer()))
        if verdict.status != 200:
            raise NotAllowed(verdict)
