"""The configuration file, typed. Every key has a default; unknown keys are errors.

YAML keys are camelCase. ``load`` lives in cli; this module only holds the shape
and the rules a value must keep, so that ``check`` and ``serve`` agree.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct, field

from extender.model.cost_order import problems_of
from extender.model.custom_groups import CustomGroup
from extender.model.errors import InvalidInput
from extender.model.fairness import FairnessSettings
from extender.model.fairness import problems_of as fairness_problems
from extender.model.grpc_address import problems_of as grpc_problems_of
from extender.model.mode import EnforceSettings, Mode, ObserveSettings, conflicts_of
from extender.model.mode import problems_of as mode_problems
from extender.model.policy import PolicySettings
from extender.model.policy import problems_of as policy_problems
from extender.model.status import StatusSettings
from extender.model.status import problems_of as status_problems
from extender.model.tracing import TracingSettings
from extender.model.tracing import problems_of as tracing_problems


class Section(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Base of every section."""


class ServerSettings(Section, frozen=True, kw_only=True):
    """Where and how the verbs are served."""

    host: str = "127.0.0.1"
    port: int = 8888
    max_body_bytes: int = 64 * 1024 * 1024
    keep_alive_seconds: int = 120
    """Longer than the 90 s after which Go's client gives an idle connection up."""
    drain_seconds: float = 10.0
    """How long a graceful stop waits for calls in flight."""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    client_ca_file: str = ""
    """When set, callers must show a certificate signed by it."""
    allowed_names: tuple[str, ...] = ()
    """Who of them may call the verbs: common name, or DNS name or URI among the alternative
    names, of the certificate. Empty: everybody who can connect."""
    allow_open_port: bool = False
    """Serve the verbs to strangers, if the option ``--allow-open-port`` says so too."""
    health_host: str = ""
    """Of the listener for health, metrics and debug; "" = as ``host``."""
    health_port: int | None = None
    """A listener of its own for health, metrics and debug, never the verbs; 0 takes a free port."""
    open_metrics: bool = False
    """Show /metrics on a shared listener to callers without a token."""
    debug: bool | None = None
    """Serve the debug API (decisions, reservations, gangs, snapshot). None: on loopback only.
    True: elsewhere too, to those whom the API server allows it."""
    max_header_bytes: int = 16 * 1024
    """Of one request's line and headers."""
    max_connections: int = 512
    """On one listener. One more closes the connection that has been idle longest."""
    max_bytes_in_flight: int = 128 * 1024 * 1024
    """Of all bodies that are being read or answered."""
    head_seconds: float = 10.0
    """From a request's first byte to the end of its headers, and for a TLS handshake."""
    body_seconds: float = 10.0
    """From the end of the headers to the end of the body; also how long an answer may wait for
    a caller that does not read."""
    pod_wait_seconds: float = 1.0
    """How long a verb waits for a pod that kube-scheduler knows and the cache does not yet."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"


class ApiSettings(Section, frozen=True, kw_only=True):
    """What is written to the API server; see kube.gate."""

    connections: int = 64
    """Writes at the same time."""
    requests_per_second: float = 1000.0
    """Writes, averaged over a second; 0: no limit. The lease is exempt from both."""


class CacheSettings(Section, frozen=True, kw_only=True):
    """The watch cache."""

    stale_seconds: float = 10.0
    """With a watch down, or no answer at all, this long, gang verbs refuse; pods of no gang
    are served."""
    stall_seconds: float = 90.0
    """A watch without event or bookmark for this long is torn down and restarted.
    kube-apiserver sends a bookmark about every 60 s."""
    page_size: int = 500
    watch_list: bool = True


class GroupSettings(Section, frozen=True, kw_only=True):
    """Which dialects are read, and what the owner-based ones mean."""

    dialects: tuple[str, ...] = (
        "pod-group",
        "scheduling-plugins",
        "scheduling-plugins-label",
        "volcano",
        "koordinator-pod-group",
        "koordinator",
        "kueue",
        "kai",
        "yunikorn",
        "jobset",
        "leader-worker-set",
        "training-operator",
        "ray-cluster",
        "spark",
        "indexed-job",
        "skypilot",
    )
    """In order of preference; leave one out to turn it off."""
    unit: dict[str, Literal["all", "single"]] = field(default_factory=dict)
    """Dialect -> how its gangs are disrupted, where the dialect itself does not say.
    Default: "all", but for scheduling-plugins and scheduling-plugins-label "single"."""
    starts_whole: dict[str, bool] = field(default_factory=dict)
    """Dialect -> whether members wait for each other. Default: all but indexed-job."""
    workload_priority: bool = False
    """Kueue's WorkloadPriorityClass is a gang's priority, instead of its pods' own."""
    custom: tuple[CustomGroup, ...] = ()
    """Gangs of one's own making (model.custom_groups)."""
    conditions: bool = True
    """Write condition podgroup-extender.io/Scheduled on PodGroups of scheduling.k8s.io."""
    settle_seconds: float = 1.0
    """A gang of unknown size is complete when no member was added for this long."""


class PlanSettings(Section, frozen=True, kw_only=True):
    """The search and what it may take."""

    branch_nodes: int = 200_000
    seconds: float = 3.0
    """Wall-clock limit of one search; well under kube-scheduler's httpTimeout."""
    cost_order: str = "default"
    """What is spared first: default, fewest-pods, fewest-gangs, fewest-gpus, least-work, or
    one of cost_orders."""
    cost_orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Orders of one's own: name -> levels, what weighs most first (model.cost_order)."""
    pdb_policy: Literal["respect", "prefer"] = "respect"
    """respect: a plan never exceeds a budget. prefer: it may, at the highest cost."""
    patience_seconds: float = 60.0
    """Room of pods that terminate within this time counts as free (after waiting)."""
    min_runtime_seconds: float = 0.0
    """Pods that started less than this ago are never victims."""
    evict_daemon_set_pods: bool = False
    """Whether pods of a DaemonSet may be victims: their controller puts them back at once."""
    protected_namespaces: tuple[str, ...] = ("kube-system",)
    retry_seconds: float = 2.0
    """How soon an unchanged refusal is looked at again."""
    longest_retry_seconds: float = 30.0
    """A refusal stands ten times as long as its search took, at most this long."""
    overrun_seconds: float = 10.0
    """A search that has not ended this long after ``seconds`` is stopped by force: its planner
    is replaced, and its gang is set aside for seats.suspend_seconds."""
    namespace_share: float = 0.5
    """Of planning time one namespace gets while gangs of others wait; 1: as much as it asks for."""


class SeatSettings(Section, frozen=True, kw_only=True):
    """Reservations and their deadlines."""

    bind_seconds: float = 60.0
    """Seats not taken this long after the room is free go back."""
    victim_slack_seconds: float = 30.0
    """A victim not gone this long after its grace period makes the plan give up."""
    max_replans: int = 3
    """How often one plan may be changed because a seat was not offered."""
    record_namespace: str = ""
    """Where plan records (ConfigMaps) are kept; "" = our own namespace, else kube-system."""
    record_key_file: str = ""
    """A key of 32 bytes at least, by which plan records are signed: mounted from a Secret. With
    it a record that is not surely ours is kept aside; "" = the rights on the records' namespace
    are what keeps strangers' out."""
    nominate: bool = True
    """Write status.nominatedNodeName on members, a hint to autoscalers."""
    give_ups: int = 3
    """After so many plans in a row that were given up a gang is suspended; 0: never."""
    suspend_seconds: float = 3600.0
    """For how long, unless the gang changes."""
    rollback: Literal["keep", "delete"] = "keep"
    """What becomes of members that are bound when the rest of the quorum cannot be. keep: they are
    told of. delete: they are deleted, which is final for a bare pod."""


class BindSettings(Section, frozen=True, kw_only=True):
    """The bind verb, which lets a plan's members through together; docs/barrier.md."""

    enabled: bool = False
    """Serve it. Needs the right to create pods/binding and an entry of its own with bindVerb."""
    hold_seconds: float = 25.0
    """A bind is held this long at most; with post_seconds below the entry's httpTimeout."""
    post_seconds: float = 10.0
    """How long one binding is tried when the API server does not take it at once."""
    max_held: int = 4096
    """Binds held at a time. Over HTTP each takes a connection."""


class EvictionSettings(Section, frozen=True, kw_only=True):
    """How victims are evicted."""

    concurrency: int = 32
    attempts: int = 8
    """Tries per victim on 429, 5xx and connection errors before the plan gives up."""
    longest_grace_seconds: int = 3600
    """A victim whose own grace period is longer is evicted with this one: seats wait no longer."""
    per_namespace_hour: int = 0
    """Pods that the gangs of one namespace may have evicted within an hour; 0: no limit."""


JITTER = 1.2
"""A candidate waits up to this much longer than retry_seconds (client-go's JitterFactor)."""


class LeadershipSettings(Section, frozen=True, kw_only=True):
    """Which of several replicas acts: the holder of a Lease, with client-go's defaults."""

    enabled: bool = False
    """Needed as soon as two replicas can run at the same time, a roll-out's included."""
    namespace: str = ""
    """Of the Lease; "" = where plan records are kept."""
    name: str = "podgroup-extender"
    """Of the Lease. Replicas that share plan records must share it."""
    identity: str = ""
    """Who we are in the Lease; "" = host name and a random part, new with each start. One that
    stays lets a restarted process go on at once, but no two processes may ever have it."""
    lease_seconds: float = 15.0
    """Others wait this long after the last renewal that they saw."""
    renew_seconds: float = 10.0
    """A leader stops acting this long after its last renewal that surely worked."""
    retry_seconds: float = 2.0
    """Between two tries to renew or to get the Lease."""
    label_pod: bool = False
    """The leader labels its pod podgroup-extender.io/leader, for a Service to select; the pod
    is the one named as the host, in our own namespace."""


class GrpcSettings(Section, frozen=True, kw_only=True):
    """The gRPC server; docs/grpc.md. Limits, debug, time to drain and log level are server's."""

    listen: str = ""
    """IP:PORT, [IPv6]:PORT, localhost:PORT or unix:/absolute/path; "" = no gRPC."""
    tls_cert_file: str = ""
    """The three files: "" everywhere = those of server. A Unix socket uses none."""
    tls_key_file: str = ""
    client_ca_file: str = ""
    """Callers must show a certificate signed by it; needed unless only this machine can call."""
    allowed_names: tuple[str, ...] = ()
    """Who of them may call the verbs and mirror the seats: common name, or DNS name or URI among
    the alternative names, of the certificate. Empty with server's files = server.allowedNames.
    Needed unless only this machine can call; empty there = everybody."""
    max_calls: int = 64
    """Calls answered at a time, streams apart; one more is RESOURCE_EXHAUSTED."""
    max_streams: int = 64
    """Watches open at a time."""


class Settings(Section, frozen=True, kw_only=True):
    """The whole file."""

    scheduler_names: tuple[str, ...] = ()
    """Only pods of these schedulers are planned for; empty = of default-scheduler, and of those
    that have asked since the start."""
    server: ServerSettings = ServerSettings()
    api: ApiSettings = ApiSettings()
    cache: CacheSettings = CacheSettings()
    groups: GroupSettings = GroupSettings()
    plan: PlanSettings = PlanSettings()
    seats: SeatSettings = SeatSettings()
    bind: BindSettings = BindSettings()
    eviction: EvictionSettings = EvictionSettings()
    leadership: LeadershipSettings = LeadershipSettings()
    policy: PolicySettings = PolicySettings()
    fairness: FairnessSettings = FairnessSettings()
    grpc: GrpcSettings = GrpcSettings()
    mode: Mode = "enforce"
    """observe: everything is planned and told, nothing is done (docs/observe.md)."""
    enforce: EnforceSettings = EnforceSettings()
    observe: ObserveSettings = ObserveSettings()
    status: StatusSettings = StatusSettings()
    tracing: TracingSettings = TracingSettings()

    @property
    def grpc_tls(self) -> tuple[str, str, str]:
        """Certificate, key and callers' authority of the gRPC server; "" for what is not used."""
        own = (self.grpc.tls_cert_file, self.grpc.tls_key_file, self.grpc.client_ca_file)
        server = self.server
        shared = (server.tls_cert_file, server.tls_key_file, server.client_ca_file)
        return own if any(own) else shared

    @property
    def grpc_names(self) -> tuple[str, ...]:
        """Who may call over gRPC; empty: everybody who can connect."""
        if self.grpc.allowed_names or self.grpc.tls_cert_file:
            return self.grpc.allowed_names
        return () if self.grpc.listen.startswith("unix:") else self.server.allowed_names


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
