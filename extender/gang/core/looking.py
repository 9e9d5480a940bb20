"""Looks at plans one by one: a defect that shows in one keeps no other from its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from extender.gang.core.book import Flight

log = structlog.get_logger("gang")


def look_at_each(flights: Iterable[Flight], look: Callable[[Flight], None]) -> None:
    """Look at each plan; an error is logged and ends the look at that plan alone."""
    for flight in flights:
        try:
            look(flight)
        except Exception:
            log.exception("a plan could not be looked at", gang=str(flight.key), plan=flight.id)
