"""The configuration file, typed. Every key has a default; unknown keys are errors.

YAML keys are camelCase. ``load`` lives in cli, what values must keep in settings_rules.py.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from extender.model.custom_groups import CustomGroup
from extender.model.fairness import FairnessSettings
from extender.model.mode import EnforceSettings, Mode, ObserveSettings
from extender.model.policy import PolicySettings, Section
from extender.model.status import StatusSettings
from extender.model.tracing import TracingSettings


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
    patience_seconds: dict[str, float] = field(default_factory=dict)
    """Dialect -> how long its owners wait for pods to get a node before they give them up, where
    that is known (groups.patience). See plan.slow_victims."""


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
    budgets_per_namespace: int = 1000
    """PodDisruptionBudgets of one namespace whose selectors are read, with ten times as many values
    in all. Where there are more, each pod of the namespace counts as covered by two, which the
    Eviction API refuses."""
    patience_seconds: float = 60.0
    """Room of pods that terminate within this time counts as free (after waiting)."""
    slow_victims: Literal["stay", "count"] = "stay"
    """Of a gang whose owner's patience is known, pods that take longer to end: never its victims,
    or counted at the level grace of the cost order."""
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
    """How often one plan may be changed, for pods that bypass filter aside."""
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
