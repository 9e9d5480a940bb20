"""What our own configuration says about limits between tenants."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from extender.cli.catalogue import broken
from extender.cli.findings import Finding
from extender.gang.controller.heartbeats import BOUND_SECONDS
from extender.model.settings import Settings

DAY = 24 * 3600
LEAST_RETRY_SECONDS = 0.1
LEAST_SUSPENDED_SECONDS = 60.0
WIDEST: tuple[tuple[str, float, Callable[[Settings], float]], ...] = (
    ("server.maxConnections", 65_536, lambda settings: settings.server.max_connections),
    ("server.maxBytesInFlight", 4 * 2**30, lambda settings: settings.server.max_bytes_in_flight),
    ("server.headSeconds", 300, lambda settings: settings.server.head_seconds),
    ("server.bodySeconds", 300, lambda settings: settings.server.body_seconds),
    ("seats.giveUps", 100, lambda settings: settings.seats.give_ups),
    ("seats.bindSeconds", DAY, lambda settings: settings.seats.bind_seconds),
    ("seats.maxReplans", 100, lambda settings: settings.seats.max_replans),
    ("seats.victimSlackSeconds", DAY, lambda settings: settings.seats.victim_slack_seconds),
    ("plan.budgetsPerNamespace", 2_000, lambda settings: settings.plan.budgets_per_namespace),
    ("plan.patienceSeconds", DAY, lambda settings: settings.plan.patience_seconds),
    ("plan.minRuntimeSeconds", 7 * DAY, lambda settings: settings.plan.min_runtime_seconds),
    ("cache.staleSeconds", 300, lambda settings: settings.cache.stale_seconds),
    ("cache.stallSeconds", 3600, lambda settings: settings.cache.stall_seconds),
    ("api.connections", 1024, lambda settings: settings.api.connections),
    ("api.requestsPerSecond", 100_000, lambda settings: settings.api.requests_per_second),
    ("eviction.attempts", 1000, lambda settings: settings.eviction.attempts),
    ("eviction.concurrency", 1024, lambda settings: settings.eviction.concurrency),
    ("grpc.maxCalls", 4096, lambda settings: settings.grpc.max_calls),
    ("grpc.maxStreams", 4096, lambda settings: settings.grpc.max_streams),
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
    if plan.retry_seconds < LEAST_RETRY_SECONDS:
        yield broken("retry-at-once", f"{source}: plan.retrySeconds", f"is {plan.retry_seconds:g}")
    if not seats.give_ups:
        yield broken("never-suspended", f"{source}: seats.giveUps", "is 0")
    elif seats.suspend_seconds < LEAST_SUSPENDED_SECONDS:
        problem = f"is {seats.suspend_seconds:g}"
        yield broken("never-suspended", f"{source}: seats.suspendSeconds", problem)
    for name, most, value in WIDEST:
        if value(settings) > most:
            yield broken("limit-wide", f"{source}: {name}", f"is {value(settings)}", most=str(most))
    if settings.eviction.longest_grace_seconds > DAY:
        yield broken(
            "grace-endless",
            f"{source}: eviction.longestGraceSeconds",
            f"is {settings.eviction.longest_grace_seconds}",
        )
