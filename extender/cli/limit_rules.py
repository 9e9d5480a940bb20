"""What our own configuration says about limits between tenants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.gang.act.heartbeats import BOUND_SECONDS
from extender.model.settings import Settings

DAY = 24 * 3600
WIDEST: tuple[tuple[str, float, Callable[[Settings], float]], ...] = (
    ("server.maxConnections", 65_536, lambda settings: settings.server.max_connections),
    ("server.maxBytesInFlight", 4 * 2**30, lambda settings: settings.server.max_bytes_in_flight),
    ("server.headSeconds", 300, lambda settings: settings.server.head_seconds),
    ("server.bodySeconds", 300, lambda settings: settings.server.body_seconds),
    ("seats.giveUps", 100, lambda settings: settings.seats.give_ups),
    ("seats.bindSeconds", DAY, lambda settings: settings.seats.bind_seconds),
)
"""Field, the most that still limits somebody, and its value."""


def limit_findings(settings: Settings, source: str) -> Iterator[Finding]:
    """Limits that are off, or so wide that they do not limit."""
    plan, seats = settings.plan, settings.seats
    if plan.seconds + plan.overrun_seconds >= BOUND_SECONDS:
        total = plan.seconds + plan.overrun_seconds
        yield broken("overrun-late", f"{source}: plan.overrunSeconds", f"ends after {total:g} s")
    if plan.namespace_share == 1:
        yield broken("share-whole", f"{source}: plan.namespaceShare", "is 1")
    if not seats.give_ups:
        yield broken("never-suspended", f"{source}: seats.giveUps", "is 0")
    for name, most, value in WIDEST:
        if value(settings) > most:
            yield broken("limit-wide", f"{source}: {name}", f"is {value(settings)}", most=str(most))
    if settings.eviction.longest_grace_seconds > DAY:
        yield broken(
            "grace-endless",
            f"{source}: eviction.longestGraceSeconds",
            f"is {settings.eviction.longest_grace_seconds}",
        )
