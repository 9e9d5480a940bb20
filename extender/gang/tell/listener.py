"""Who is told of what happens while plans are carried out, as it happens: metrics, logs, feeds."""

from __future__ import annotations

from enum import StrEnum

import structlog

from extender.gang.tell.decisions import Decision
from extender.kube.api_errors import ApiError
from extender.model.plan import Victim

log = structlog.get_logger("gang")


class Removal(StrEnum):
    """How one eviction ended, as metrics call it."""

    ACCEPTED = "evicted"
    """The API server has taken it; the pod goes within its grace period."""
    GONE = "gone"
    """The pod is gone, or its name is another pod's by now: its room is free."""
    REFUSED = "refused"
    """The API server refuses it for good, or did so at the rehearsal."""


class Listener:
    """Logs writes that did not work, and nothing else. What a method raises is a defect."""

    def decided(self, decision: Decision) -> None:
        """A decision was made that does not only repeat the gang's last one."""

    def evicted(self, ended: Removal, victim: Victim | None = None) -> None:
        """An eviction has ended; ``victim``: the pod, where its work is lost by it."""

    def failed(self, what: str, error: ApiError) -> None:
        """A best-effort write did not work."""
        log.warning("not done", what=what, error=str(error))
