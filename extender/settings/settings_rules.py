"""What values of the configuration file must keep, so that ``check`` and ``serve`` agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import isnan

from msgspec import Struct
from msgspec.structs import fields

from extender.model.errors import InvalidInput
from extender.model.names import is_subdomain
from extender.settings.cost_order import problems_of
from extender.settings.fairness import problems_of as fairness_problems
from extender.settings.grpc_address import problems_of as grpc_problems_of
from extender.settings.grpc_address import problems_of_verifier as verifier_problems_of
from extender.settings.mode import conflicts_of
from extender.settings.mode import problems_of as mode_problems
from extender.settings.policy import problems_of as policy_problems
from extender.settings.settings import (
    JITTER,
    ApiSettings,
    BindSettings,
    CacheSettings,
    EvictionSettings,
    GroupSettings,
    GrpcSettings,
    LeadershipSettings,
    PlanSettings,
    SeatSettings,
    ServerSettings,
    Settings,
    VerifierSettings,
)
from extender.settings.status import problems_of as status_problems
from extender.settings.tracing import problems_of as tracing_problems

SettingsRule = tuple[bool, str]
"""(whether it is kept, what is wrong where it is not)."""
MOST_COUNT = 2**31 - 1
"""What any library below takes as an integer."""
MOST_BYTES = 2**40
MOST_BUDGETS = 100_000
A_NAME = "a name as objects have it: lower case letters, digits, '-' and '.'"
MOST_SECONDS = 1_000_000_000
"""Thirty-one years, and the most of any number with a fraction: no sum of a moment and such a time
is beyond a date or a timer."""


LEAST_SECONDS = 0.001


def validate(settings: Settings) -> None:
    """Raise InvalidInput that names every value outside its range."""
    s = settings
    numbers = list(_numbers(settings, ""))
    if endless := [text for number in numbers if (text := _beyond(*number))]:
        raise InvalidInput("; ".join(endless))
    rules = (
        *_server(s.server),
        *_api(s.api),
        *_cache(s.cache),
        *_groups(s.groups),
        *_plan(s.plan),
        *_seats(s.seats),
        *_eviction(s.eviction),
        *_bind(s.bind),
        *_grpc(s.grpc),
        *_leadership(s.leadership),
        *_verifier(s.verifier),
    )
    wrong = [text for fine, text in rules if not fine]
    wrong += grpc_problems_of(s.grpc.listen, *s.grpc_tls, s.grpc_names)
    wrong += verifier_problems_of(s.verifier.address)
    wrong += problems_of(s.plan.cost_order, s.plan.cost_orders)
    wrong += policy_problems(s.policy)
    wrong += fairness_problems(s.fairness)
    wrong += status_problems(s.status)
    wrong += tracing_problems(s.tracing, s.mode)
    wrong += mode_problems(s.mode, s.enforce, s.observe)
    wrong += conflicts_of(s.mode, binds=s.bind.enabled, grpc=bool(s.grpc.listen))
    wrong += [text for number in numbers if (text := _next_to_nothing(*number, wrong))]
    if wrong:
        raise InvalidInput("; ".join(wrong))


def _numbers(value: object, path: str) -> Iterator[tuple[str, int | float]]:
    """Yield each number at ``path`` and below, with its own path."""
    if isinstance(value, Struct):
        for field in fields(value):
            name = f"{path}.{field.encode_name}".lstrip(".")
            yield from _numbers(getattr(value, field.name), name)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _numbers(each, f"{path}[{key}]")
    elif isinstance(value, tuple):
        for place, each in enumerate(value):
            yield from _numbers(each, f"{path}[{place}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def _beyond(path: str, value: int | float) -> str:
    """Return what is wrong with a number that has no end, or none to use, "" for others.

    Such a number keeps many a rule (``.inf`` is positive) and breaks whatever counts with it.
    """
    most = MOST_COUNT if isinstance(value, int) else MOST_SECONDS
    most = MOST_SECONDS if path.endswith("Seconds") else most
    most = MOST_BYTES if "Bytes" in path else most
    if isnan(value):
        return f"{path} must be a number: it is nan"
    if value > most:
        return f"{path} must be at most {most}: it is {value:g}"
    return f"{path} must be at least -{most}: it is {value:g}" if value < -most else ""


def _next_to_nothing(path: str, value: int | float, wrong: Iterable[str]) -> str:
    """Return that a time is shorter than any timer, "" for others; ``wrong`` may tell of its key.

    Whatever is divided by it is endless.
    """
    key = path.partition("[")[0]
    if not 0 < value < LEAST_SECONDS or not key.lower().endswith("seconds"):
        return ""
    told = any(text.startswith(f"{key} ") for text in wrong)
    return "" if told else f"{path} must be 0 or at least {LEAST_SECONDS}: it is {value:g}"


def _namespace(key: str, name: str) -> SettingsRule:
    """A name that is not empty stands in paths of the API server."""
    return not name or is_subdomain(name), f"{key} must be {A_NAME}"


def _server(s: ServerSettings) -> tuple[SettingsRule, ...]:
    return (
        (0 <= s.port <= 65535, "server.port must be 0..65535"),
        (s.max_body_bytes >= 1024, "server.maxBodyBytes must be at least 1024"),
        (
            s.keep_alive_seconds > 90,
            "server.keepAliveSeconds must exceed 90 (kube-scheduler reuses idle connections "
            "for 90 s; a POST that meets a closing connection is an error to it)",
        ),
        (
            bool(s.tls_cert_file) == bool(s.tls_key_file),
            "server.tlsCertFile and server.tlsKeyFile go together",
        ),
        (
            not s.client_ca_file or bool(s.tls_cert_file),
            "server.clientCaFile needs server.tlsCertFile",
        ),
        (
            not s.allowed_names or bool(s.client_ca_file),
            "server.allowedNames needs server.clientCaFile: callers show no name without it",
        ),
        (all(s.allowed_names), "server.allowedNames must not hold an empty name"),
        (
            s.health_port is None or 0 <= s.health_port <= 65535,
            "server.healthPort must be 0..65535",
        ),
        (
            s.health_port != s.port or not s.port,
            "server.healthPort must be another port than server.port",
        ),
        (
            not s.health_host or s.health_port is not None,
            "server.healthHost needs server.healthPort",
        ),
        (s.max_header_bytes >= 1024, "server.maxHeaderBytes must be at least 1024"),
        (s.max_connections >= 4, "server.maxConnections must be at least 4"),
        (
            s.max_bytes_in_flight * 3 // 4 >= s.max_body_bytes,
            "server.maxBytesInFlight must be at least 4/3 of server.maxBodyBytes (a quarter is "
            "kept for small bodies)",
        ),
        (s.drain_seconds >= 0, "server.drainSeconds must not be negative"),
        (s.head_seconds >= 0.1, "server.headSeconds must be at least 0.1"),
        (s.body_seconds >= 0.1, "server.bodySeconds must be at least 0.1"),
        (0 <= s.pod_wait_seconds <= 1, "server.podWaitSeconds must be 0..1"),
    )


def _api(s: ApiSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.connections >= 8, "api.connections must be at least 8"),
        (s.requests_per_second >= 0, "api.requestsPerSecond must not be negative"),
        (
            not 0 < s.requests_per_second < 1,
            "api.requestsPerSecond must be 0 (no limit) or at least 1",
        ),
    )


def _cache(s: CacheSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.stale_seconds >= 1, "cache.staleSeconds must be at least 1"),
        (s.stall_seconds >= 1, "cache.stallSeconds must be at least 1"),
        (s.page_size > 0, "cache.pageSize must be positive"),
    )


def _groups(s: GroupSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.settle_seconds >= 0, "groups.settleSeconds must not be negative"),
        (
            all(seconds >= 1 for seconds in s.patience_seconds.values()),
            "groups.patienceSeconds must be at least 1",
        ),
    )


def _plan(s: PlanSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.branch_nodes > 0, "plan.branchNodes must be positive"),
        (s.seconds >= 0.01, "plan.seconds must be at least 0.01"),
        (
            1 <= s.budgets_per_namespace <= MOST_BUDGETS,
            f"plan.budgetsPerNamespace must be 1..{MOST_BUDGETS}",
        ),
        (s.patience_seconds >= 0, "plan.patienceSeconds must not be negative"),
        (s.min_runtime_seconds >= 0, "plan.minRuntimeSeconds must not be negative"),
        (0 <= s.restart_seconds <= 86_400, "plan.restartSeconds must be 0..86400"),
        (s.retry_seconds >= 0, "plan.retrySeconds must not be negative"),
        (0 <= s.scale_up_seconds <= 3600, "plan.scaleUpSeconds must be 0..3600"),
        (0 <= s.scale_up_answer_seconds <= 600, "plan.scaleUpAnswerSeconds must be 0..600"),
        (
            s.longest_retry_seconds >= s.retry_seconds,
            "plan.longestRetrySeconds must not be below plan.retrySeconds",
        ),
        (s.overrun_seconds >= 1, "plan.overrunSeconds must be at least 1"),
        (0.01 <= s.namespace_share <= 1, "plan.namespaceShare must be 0.01..1"),
        (
            all(each and is_subdomain(each) for each in s.protected_namespaces),
            f"plan.protectedNamespaces: each must be {A_NAME}; there are no patterns",
        ),
    )


def _seats(s: SeatSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.give_ups >= 0, "seats.giveUps must not be negative"),
        (s.suspend_seconds >= 1, "seats.suspendSeconds must be at least 1"),
        (s.bind_seconds >= 1, "seats.bindSeconds must be at least 1"),
        (s.victim_slack_seconds >= 0, "seats.victimSlackSeconds must not be negative"),
        (s.max_replans >= 0, "seats.maxReplans must not be negative"),
        _namespace("seats.recordNamespace", s.record_namespace),
    )


def _eviction(s: EvictionSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.longest_grace_seconds > 0, "eviction.longestGraceSeconds must be positive"),
        (s.per_namespace_hour >= 0, "eviction.perNamespaceHour must not be negative"),
        (s.concurrency > 0, "eviction.concurrency must be positive"),
        (s.attempts > 0, "eviction.attempts must be positive"),
    )


def _bind(s: BindSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.hold_seconds >= 0.1, "bind.holdSeconds must be at least 0.1"),
        (s.post_seconds >= 0.1, "bind.postSeconds must be at least 0.1"),
        (s.max_held > 0, "bind.maxHeld must be positive"),
    )


def _grpc(s: GrpcSettings) -> tuple[SettingsRule, ...]:
    return (
        (s.max_calls > 0, "grpc.maxCalls must be positive"),
        (s.max_streams > 0, "grpc.maxStreams must be positive"),
    )


def _verifier(s: VerifierSettings) -> tuple[SettingsRule, ...]:
    return (
        # A plan that is rehearsed, recorded and judged has PLANNED_SECONDS for all of it.
        (0.1 <= s.seconds <= 20, "verifier.seconds must be 0.1..20"),
        (
            s.most_age_seconds >= 70,
            "verifier.mostAgeSeconds must be at least 70 (a quiet watch shows a sign of life once "
            "a minute)",
        ),
    )


def _leadership(s: LeadershipSettings) -> tuple[SettingsRule, ...]:
    return (
        (bool(s.name), "leadership.name must not be empty"),
        (not s.name or is_subdomain(s.name), f"leadership.name must be {A_NAME}"),
        _namespace("leadership.namespace", s.namespace),
        (s.lease_seconds >= 1, "leadership.leaseSeconds must be at least 1"),
        (s.retry_seconds >= 0.1, "leadership.retrySeconds must be at least 0.1"),
        (
            s.lease_seconds > s.renew_seconds,
            "leadership.leaseSeconds must exceed leadership.renewSeconds (a leader must be still "
            "before others may hold the lease)",
        ),
        (
            s.renew_seconds > JITTER * s.retry_seconds,
            f"leadership.renewSeconds must exceed {JITTER} times leadership.retrySeconds",
        ),
    )
