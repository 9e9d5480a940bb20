"""The configuration file, typed. Every key has a default; unknown keys are errors.

YAML keys are camelCase. ``load`` lives in cli, what values must keep in settings_rules.py.
"""

from __future__ import annotations

from typing import Literal

from msgspec import field

from extender.settings.custom_groups import CustomGroup
from extender.settings.fairness import FairnessSettings
from extender.settings.mode import EnforceSettings, Mode, ObserveSettings
from extender.settings.policy import PolicySettings, Section
from extender.settings.status import StatusSettings
from extender.settings.tracing import TracingSettings


class ServerSettings(Section, frozen=True, kw_only=True):
    """Where and how the verbs are served."""

    host: str = "127.0.0.1"
    """Address on which the verbs are served."""
    port: int = 8888
    """Port on which the verbs are served. 0 takes a free one."""
    max_body_bytes: int = 64 * 1024 * 1024
    """Longest body of a request. A longer one is answered with 413."""
    keep_alive_seconds: int = 120
    """An idle connection is closed after this. Go's client gives one up after 90 s, so it is
    longer."""
    drain_seconds: float = 10.0
    """A graceful stop waits this long for open calls."""
    tls_cert_file: str = ""
    """Certificate of the server, PEM. Without one the verbs are served in plain HTTP."""
    tls_key_file: str = ""
    """Key of that certificate, PEM."""
    client_ca_file: str = ""
    """Authority that must have signed the certificate of a caller. Without it callers show none."""
    allowed_names: tuple[str, ...] = ()
    """Callers of the verbs, by a name in their certificate: common name, DNS name or URI. Empty:
    every caller that can connect."""
    allow_open_port: bool = False
    """Serve the verbs to other machines without client certificates. The option --allow-open-port
    must say so too."""
    health_host: str = ""
    """Address of the listener for health, metrics and debug. Empty: host."""
    health_port: int | None = None
    """Port of a separate listener for health, metrics and debug. 0 takes a free one. null: the port
    of the verbs."""
    open_metrics: bool = False
    """Show /metrics on a shared listener to callers without a token."""
    debug: bool | None = None
    """Serve the debug API. null: on loopback only. true: on other addresses too, to callers whom
    the API server allows it."""
    max_header_bytes: int = 16 * 1024
    """Longest request line with headers."""
    max_connections: int = 512
    """Most connections of one listener. One more closes the connection that has been idle
    longest."""
    max_bytes_in_flight: int = 128 * 1024 * 1024
    """Most bytes of all bodies that are being read or answered."""
    head_seconds: float = 10.0
    """Longest time from the first byte of a request to the end of its headers, and for a TLS
    handshake."""
    body_seconds: float = 10.0
    """Longest time from the end of the headers to the end of the body. Also for a caller that does
    not read its answer."""
    pod_wait_seconds: float = 1.0
    """A verb waits this long for a pod that kube-scheduler has seen and the cache has not."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least level of a log line that is written."""


class ApiSettings(Section, frozen=True, kw_only=True):
    """What is written to the API server; see kube.gate."""

    connections: int = 64
    """Most writes to the API server at the same time."""
    requests_per_second: float = 1000.0
    """Most writes to the API server a second, on average. 0: no limit. The Lease is exempt."""


class CacheSettings(Section, frozen=True, kw_only=True):
    """The watch cache."""

    stale_seconds: float = 10.0
    """After this long without a working watch no gang is planned. Pods of no gang are still
    served."""
    stall_seconds: float = 90.0
    """A watch without any event or bookmark for this long is opened again. kube-apiserver sends a
    bookmark about every 60 s."""
    page_size: int = 500
    """Objects on one page of a list request."""
    watch_list: bool = True
    """Read the first state by a streaming watch (sendInitialEvents) where the API server can."""


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
    """Dialects that are read, in order of preference. One that is left out is off."""
    unit: dict[str, Literal["all", "single"]] = field(default_factory=dict)
    """Dialect: whether its gangs are evicted as a whole (all) or pod by pod (single), where the
    dialect does not say. Default: all, and single for scheduling-plugins and
    scheduling-plugins-label."""
    starts_whole: dict[str, bool] = field(default_factory=dict)
    """Dialect: whether its members wait for each other. Default: true, but for indexed-job."""
    workload_priority: bool = False
    """Kueue's WorkloadPriorityClass is the priority of a gang, instead of that of its pods."""
    custom: tuple[CustomGroup, ...] = ()
    """Gangs that are named by a label or annotation of your own."""
    conditions: bool = True
    """Write the condition podgroup-extender.io/Scheduled on PodGroups of scheduling.k8s.io."""
    settle_seconds: float = 1.0
    """A gang whose size is not declared is complete when no member was added for this long."""
    patience_seconds: dict[str, float] = field(default_factory=dict)
    """Dialect: how long its controllers wait for a node before they delete the pods again. See
    plan.slowVictims."""


class PlanSettings(Section, frozen=True, kw_only=True):
    """The search and what it may take."""

    branch_nodes: int = 200_000
    """Most nodes of the search tree. A search that reaches it returns the best plan so far with its
    bound."""
    seconds: float = 3.0
    """Longest time of one search. It must be well below kube-scheduler's httpTimeout."""
    cost_order: str = "default"
    """What is spared first: default, gangs-by-priority, fewest-pods, fewest-gangs, or a name from
    costOrders."""
    cost_orders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Orders of your own: name, and its levels, the one that counts most first."""
    restart_seconds: float = 300.0
    """What a restart takes. This much more work counts as lost with each pod, and once more with
    each gang."""
    pdb_policy: Literal["respect", "prefer"] = "respect"
    """respect: a plan never exceeds a PodDisruptionBudget. prefer: it may, at the highest cost."""
    budgets_per_namespace: int = 1000
    """Most PodDisruptionBudgets of one namespace that are read, with ten times as many selector
    values. In a namespace with more, every pod counts as covered by two budgets, which the Eviction
    API refuses."""
    patience_seconds: float = 60.0
    """Room of pods that terminate within this time counts as free, after a wait."""
    slow_victims: Literal["stay", "count"] = "stay"
    """Pods that take longer to end than the controllers of the preemptor wait. stay: they are no
    victims. count: they may be, at a higher cost (level grace)."""
    min_runtime_seconds: float = 0.0
    """Pods that started less than this ago are no victims."""
    evict_daemon_set_pods: bool = False
    """Pods of a DaemonSet may be victims. Their controller makes them again at once."""
    protected_namespaces: tuple[str, ...] = ("kube-system",)
    """Namespaces whose pods are never victims."""
    retry_seconds: float = 2.0
    """An unchanged refusal is searched again after this."""
    longest_retry_seconds: float = 30.0
    """A refusal is kept for ten times as long as its search took, and for this long at most."""
    overrun_seconds: float = 10.0
    """A search that takes this much longer than seconds is stopped by force. Its gang is suspended
    for seats.suspendSeconds."""
    scale_up: Literal["auto", "off"] = "auto"
    """auto: no pod is evicted for a gang while an autoscaler has announced a node for it. off:
    gangs wait for no nodes."""
    scale_up_seconds: float = 120.0
    """A gang waits this long at most for announced nodes, counted from the first announcement."""
    scale_up_answer_seconds: float = 0.0
    """A gang also waits this long for an autoscaler's first answer, counted from the creation of
    its youngest pod. cluster-autoscaler looks every 10 s."""
    namespace_share: float = 0.5
    """Most of the planning time of one namespace while gangs of others wait. 1: no limit."""


class SeatSettings(Section, frozen=True, kw_only=True):
    """Reservations and their deadlines."""

    bind_seconds: float = 60.0
    """Reservations that are not used this long after the room is free are returned."""
    victim_slack_seconds: float = 30.0
    """A victim that is still there this long after its grace period is waited for no longer."""
    max_replans: int = 3
    """How often one plan may be changed. Changes for pods that bypass filter do not count."""
    record_namespace: str = ""
    """Namespace of the plan records (ConfigMaps). Empty: that of the extender's own pod, else
    kube-system."""
    record_key_file: str = ""
    """File with a key of 32 bytes or more that signs plan records. With it a record without a valid
    signature is not used. Without it the rights on the namespace protect the records."""
    nominate: bool = True
    """Nominate members to their reserved nodes (status.nominatedNodeName)."""
    give_ups: int = 3
    """After this many failed plans in a row a gang is suspended. 0: never."""
    suspend_seconds: float = 3600.0
    """How long a gang is suspended, unless it changes."""
    rollback: Literal["keep", "delete"] = "keep"
    """What becomes of bound members when the rest of the minimum cannot be bound. keep: it is
    reported. delete: they are deleted, which is final for a pod without a controller."""


class BindSettings(Section, frozen=True, kw_only=True):
    """The bind verb, which lets a plan's members through together; docs/barrier.md."""

    enabled: bool = False
    """Serve the bind verb. It needs the right to create pods/binding, and an extender entry with
    bindVerb."""
    hold_seconds: float = 25.0
    """A binding is held this long at most. With postSeconds it must be below the entry's
    httpTimeout."""
    post_seconds: float = 10.0
    """One binding is tried for this long."""
    max_held: int = 4096
    """Most bindings that are held at a time. Over HTTP each takes a connection."""


class EvictionSettings(Section, frozen=True, kw_only=True):
    """How victims are evicted."""

    concurrency: int = 32
    """Evictions that are sent at the same time."""
    attempts: int = 8
    """How often one eviction is tried (429, 5xx, connection errors) before the plan looks for other
    victims."""
    longest_grace_seconds: int = 3600
    """A victim with a longer grace period is evicted with this one."""
    per_namespace_hour: int = 0
    """Most pods that the gangs of one namespace may have evicted in an hour. 0: no limit."""


JITTER = 1.2
"""A candidate waits up to this much longer than retry_seconds (client-go's JitterFactor)."""


class LeadershipSettings(Section, frozen=True, kw_only=True):
    """Which of several replicas acts: the holder of a Lease, with client-go's defaults."""

    enabled: bool = False
    """Use a Lease, so that one of several replicas acts. Needed wherever two can run, also during a
    roll-out."""
    namespace: str = ""
    """Namespace of the Lease. Empty: that of the plan records."""
    name: str = "podgroup-extender"
    """Name of the Lease. Replicas that share plan records must share it."""
    identity: str = ""
    """Name of this replica in the Lease. Empty: host name and a random part. With a fixed one a
    restarted process continues at once, but no two processes may have the same."""
    lease_seconds: float = 15.0
    """Another replica takes the Lease this long after the last renewal that it saw."""
    renew_seconds: float = 10.0
    """A leader stops acting this long after its last successful renewal."""
    retry_seconds: float = 2.0
    """Pause between two tries to renew or to get the Lease."""
    label_pod: bool = False
    """The leader labels its own pod podgroup-extender.io/leader, so that a Service can select
    it."""


class GrpcSettings(Section, frozen=True, kw_only=True):
    """The gRPC server; docs/grpc.md. Limits, debug, time to drain and log level are server's."""

    listen: str = ""
    """Address of the gRPC server: IP:PORT, [IPv6]:PORT, localhost:PORT or unix:/path. Empty: no
    gRPC server."""
    tls_cert_file: str = ""
    """Certificate of the gRPC server, PEM. If all three files are empty those of server are
    used."""
    tls_key_file: str = ""
    """Key of that certificate, PEM."""
    client_ca_file: str = ""
    """Authority that must have signed the certificate of a caller. Needed unless only this machine
    can call."""
    allowed_names: tuple[str, ...] = ()
    """Callers of the verbs and of WatchSeats, by a name in their certificate: common name, DNS name
    or URI. Empty with the files of server: server.allowedNames. Needed unless only this machine can
    call."""
    max_calls: int = 64
    """Most calls that are answered at a time, streams not counted. One more gets
    RESOURCE_EXHAUSTED."""
    max_streams: int = 64
    """Most watches that are open at a time."""


class VerifierSettings(Section, frozen=True, kw_only=True):
    """Who is asked before pods are evicted; docs/verifier.md."""

    address: str = ""
    """gRPC address of the verifier, which runs kube-scheduler's own filters: 127.0.0.1:PORT,
    localhost:PORT or unix:/path. Empty: it is not asked."""
    seconds: float = 5.0
    """How long an answer is waited for. Without one no pod is evicted."""
    most_age_seconds: float = 120.0
    """An answer on an older state is none. Quiet watches show a sign of life once a minute."""


class Settings(Section, frozen=True, kw_only=True):
    """The whole file."""

    scheduler_names: tuple[str, ...] = ()
    """Only pods of these schedulers are planned for. Empty: those of default-scheduler, and of
    every scheduler that has called since the start."""
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
    verifier: VerifierSettings = VerifierSettings()
    mode: Mode = "enforce"
    """enforce: the extender acts. observe: it plans and reports, and changes nothing."""
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
