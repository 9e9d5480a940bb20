"""What values of the configuration file must keep, so that ``check`` and ``serve`` agree."""

from __future__ import annotations

from extender.model.cost_order import problems_of
from extender.model.errors import InvalidInput
from extender.model.fairness import problems_of as fairness_problems
from extender.model.grpc_address import problems_of as grpc_problems_of
from extender.model.mode import conflicts_of
from extender.model.mode import problems_of as mode_problems
from extender.model.policy import problems_of as policy_problems
from extender.model.settings import JITTER, Settings
from extender.model.status import problems_of as status_problems
from extender.model.tracing import problems_of as tracing_problems


def validate(settings: Settings) -> None:
    """Raise InvalidInput that names every value outside its range."""
    s = settings
    rules = (
        (0 <= s.server.port <= 65535, "server.port must be 0..65535"),
        (s.server.max_body_bytes >= 1024, "server.maxBodyBytes must be at least 1024"),
        (
            s.server.keep_alive_seconds > 90,
            "server.keepAliveSeconds must exceed 90 (kube-scheduler reuses idle connections "
            "for 90 s; a POST that meets a closing connection is an error to it)",
        ),
        (
            bool(s.server.tls_cert_file) == bool(s.server.tls_key_file),
            "server.tlsCertFile and server.tlsKeyFile go together",
        ),
        (
            not s.server.client_ca_file or bool(s.server.tls_cert_file),
            "server.clientCaFile needs server.tlsCertFile",
        ),
        (
            not s.server.allowed_names or bool(s.server.client_ca_file),
            "server.allowedNames needs server.clientCaFile: nobody shows a name without it",
        ),
        (all(s.server.allowed_names), "server.allowedNames must not hold an empty name"),
        (
            s.server.health_port is None or 0 <= s.server.health_port <= 65535,
            "server.healthPort must be 0..65535",
        ),
        (
            s.server.health_port != s.server.port or not s.server.port,
            "server.healthPort must be another port than server.port",
        ),
        (
            not s.server.health_host or s.server.health_port is not None,
            "server.healthHost needs server.healthPort",
        ),
        (s.server.max_header_bytes >= 1024, "server.maxHeaderBytes must be at least 1024"),
        (s.server.max_connections >= 4, "server.maxConnections must be at least 4"),
        (
            s.server.max_bytes_in_flight * 3 // 4 >= s.server.max_body_bytes,
            "server.maxBytesInFlight must be at least 4/3 of server.maxBodyBytes (a quarter is "
            "kept for small bodies)",
        ),
        (s.server.head_seconds > 0, "server.headSeconds must be positive"),
        (s.server.body_seconds > 0, "server.bodySeconds must be positive"),
        (0 <= s.server.pod_wait_seconds <= 1, "server.podWaitSeconds must be 0..1"),
        (s.api.connections >= 8, "api.connections must be at least 8"),
        (s.api.requests_per_second >= 0, "api.requestsPerSecond must not be negative"),
        (s.cache.stale_seconds > 0, "cache.staleSeconds must be positive"),
        (s.cache.stall_seconds > 0, "cache.stallSeconds must be positive"),
        (s.cache.page_size > 0, "cache.pageSize must be positive"),
        (s.groups.settle_seconds >= 0, "groups.settleSeconds must not be negative"),
        (
            all(seconds > 0 for seconds in s.groups.patience_seconds.values()),
            "groups.patienceSeconds must be positive",
        ),
        (s.plan.branch_nodes > 0, "plan.branchNodes must be positive"),
        (s.plan.seconds > 0, "plan.seconds must be positive"),
        (s.plan.patience_seconds >= 0, "plan.patienceSeconds must not be negative"),
        (s.plan.min_runtime_seconds >= 0, "plan.minRuntimeSeconds must not be negative"),
        (s.plan.retry_seconds >= 0, "plan.retrySeconds must not be negative"),
        (
            s.plan.longest_retry_seconds >= s.plan.retry_seconds,
            "plan.longestRetrySeconds must not be below plan.retrySeconds",
        ),
        (s.plan.overrun_seconds >= 1, "plan.overrunSeconds must be at least 1"),
        (0 < s.plan.namespace_share <= 1, "plan.namespaceShare must be above 0 and at most 1"),
        (s.seats.give_ups >= 0, "seats.giveUps must not be negative"),
        (s.seats.suspend_seconds > 0, "seats.suspendSeconds must be positive"),
        (s.eviction.longest_grace_seconds > 0, "eviction.longestGraceSeconds must be positive"),
        (s.eviction.per_namespace_hour >= 0, "eviction.perNamespaceHour must not be negative"),
        (s.seats.bind_seconds > 0, "seats.bindSeconds must be positive"),
        (s.seats.victim_slack_seconds >= 0, "seats.victimSlackSeconds must not be negative"),
        (s.seats.max_replans >= 0, "seats.maxReplans must not be negative"),
        (s.bind.hold_seconds > 0, "bind.holdSeconds must be positive"),
        (s.bind.post_seconds > 0, "bind.postSeconds must be positive"),
        (s.bind.max_held > 0, "bind.maxHeld must be positive"),
        (s.eviction.concurrency > 0, "eviction.concurrency must be positive"),
        (s.eviction.attempts > 0, "eviction.attempts must be positive"),
        (s.grpc.max_calls > 0, "grpc.maxCalls must be positive"),
        (s.grpc.max_streams > 0, "grpc.maxStreams must be positive"),
        (bool(s.leadership.name), "leadership.name must not be empty"),
        (s.leadership.lease_seconds >= 1, "leadership.leaseSeconds must be at least 1"),
        (s.leadership.retry_seconds > 0, "leadership.retrySeconds must be positive"),
        (
            s.leadership.lease_seconds > s.leadership.renew_seconds,
            "leadership.leaseSeconds must exceed leadership.renewSeconds (a leader must be still "
            "before others may hold the lease)",
        ),
        (
            s.leadership.renew_seconds > JITTER * s.leadership.retry_seconds,
            f"leadership.renewSeconds must exceed {JITTER} times leadership.retrySeconds",
        ),
    )
    wrong = [text for fine, text in rules if not fine]
    wrong += grpc_problems_of(s.grpc.listen, *s.grpc_tls, s.grpc_names)
    wrong += problems_of(s.plan.cost_order, s.plan.cost_orders)
    wrong += policy_problems(s.policy)
    wrong += fairness_problems(s.fairness)
    wrong += status_problems(s.status)
    wrong += tracing_problems(s.tracing, s.mode)
    wrong += mode_problems(s.mode, s.enforce, s.observe)
    wrong += conflicts_of(s.mode, binds=s.bind.enabled, grpc=bool(s.grpc.listen))
    if wrong:
        raise InvalidInput("; ".join(wrong))
