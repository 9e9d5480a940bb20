"""Calls that are turned away: counted each, and logged once a minute."""

from __future__ import annotations

import time
from collections.abc import Hashable
from typing import Any

from extender.server.logs import Seldom
from extender.server.metrics import Metrics


class RefusedCalls:
    """One a server."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._seldom = Seldom(time.monotonic)

    def note(self, kind: str, log: Any, about: str = "", **more: object) -> None:
        """Count a refusal, and log it once a minute for each that it is ``about``."""
        self._metrics.refused(kind)
        if self.due((kind, about)):
            log.warning("call refused", kind=kind, **more)

    def due(self, what: Hashable) -> bool:
        """Whether it may be logged: it was not for a minute."""
        return self._seldom.due(what)
