"""What the gRPC room is given by the process that it serves."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from extender.grpc_api.decision_feed import DecisionFeed
from extender.model.errors import NotReady
from extender.model.objects import Pod
from extender.server.diagnostics import Health
from extender.server.limits import Load
from extender.server.metrics import Metrics
from extender.server.tokens import Tokens
from extender.server.verb_calls import Verbs
from extender.settings.settings import Settings
from extender.verbs.context import Context


class GrpcSource(Struct, frozen=True, kw_only=True):
    """Whom the calls ask. Everything is used on the event loop."""

    settings: Settings
    verbs: Verbs
    present: Callable[[], Context]
    """What the verbs of this term share; another one in the next term."""
    pod_named: Callable[[str, str], Pod | None]
    """(namespace, name) -> a non-finished pod."""
    health: Health
    metrics: Metrics
    decisions: DecisionFeed
    read_manifest: Callable[[str, str], list[object]]
    """(text, what errors call it) -> documents; runs on another thread. Raises InvalidInput."""
    load: Load
    """Shared with HTTP."""
    tokens: Tokens | None
    """Reviews those who ask for more than verbs from elsewhere; None: nobody's token is good."""

    def require_ready(self) -> None:
        """Raise NotReady while verbs are not answered: not synced, stale, not leading."""
        reasons = self.health.ready()
        if reasons:
            raise NotReady("; ".join(reasons))
