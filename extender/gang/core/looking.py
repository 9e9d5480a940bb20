"""Looks at plans one by one: a defect that shows in one keeps no other from its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import structlog

from extender.gang.core.reservations import Preemption

log = structlog.get_logger("gang")


def look_at_each(preemptions: Iterable[Preemption], look: Callable[[Preemption], None]) -> None:
    """Look at each plan; an error is logged and ends the look at that plan alone."""
    for preemption in preemptions:
        try:
            look(preemption)
        except Exception:
            log.exception(
                "a plan could not be looked at", gang=str(preemption.key), plan=preemption.id
            )
