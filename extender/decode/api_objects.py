"""The API's own shape of the objects we read: only the fields that matter to us.

Parts that repeat between pods (labels, resources, constraints) stay raw JSON here:
they are looked up by their bytes and decoded only when seen for the first time.
Every field may be absent or null, because manifests and dumps are less complete
than what an API server sends. Where a pod may go is in api_placement.py, gangs in api_groups.py.
"""

from __future__ import annotations

from msgspec import Raw, Struct, field

NO_RAW = Raw()
"""What an absent raw field holds; compare with ``is``, which is far cheaper than its bytes."""

RawAmounts = dict[str, str | int | float]


def raw_bytes(raw: Raw) -> bytes:
    """Return the JSON of a field, b"" when it is absent or null."""
    if raw is NO_RAW:
        return b""
    data = bytes(raw)
    return b"" if data == b"null" else data


class Shape(Struct, gc=False, rename="camel"):
    """Base: camelCase on the wire, never in a reference cycle."""


class RawMeta(Shape, gc=False):
    """metav1.ObjectMeta."""

    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: Raw = NO_RAW
    deletion_timestamp: Raw = NO_RAW
    generation: int | None = None
    deletion_grace_period_seconds: int | None = None
    labels: Raw = NO_RAW
    annotations: Raw = NO_RAW
    owner_references: Raw = NO_RAW


class RawOwner(Shape, gc=False):
    """metav1.OwnerReference."""

    kind: str
    name: str
    uid: str
    api_version: str | None = None
    controller: bool | None = None


# -- pods: what they ask for ---------------------------------------------------------------


class RawResources(Shape, gc=False):
    """v1.ResourceRequirements."""

    requests: RawAmounts | None = None
    limits: RawAmounts | None = None


class RawContainer(Shape, gc=False):
    """v1.Container, of either list."""

    name: str | None = None
    resources: Raw = NO_RAW
    ports: Raw = NO_RAW
    restart_policy: str | None = None
    restart_policy_rules: Raw = NO_RAW
    volume_mounts: Raw = NO_RAW


class RawContainerStatus(Shape, gc=False):
    """v1.ContainerStatus: what in-place resizing reports."""

    name: str | None = None
    resources: Raw = NO_RAW
    allocated_resources: Raw = NO_RAW


class RawPort(Shape, gc=False):
    """v1.ContainerPort."""

    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class RawVolume(Shape, gc=False):
    """v1.Volume: only the kinds that bind a pod to nodes in ways we do not model."""

    persistent_volume_claim: Raw = NO_RAW
    ephemeral: Raw = NO_RAW
    gce_persistent_disk: Raw = NO_RAW
    aws_elastic_block_store: Raw = NO_RAW
    rbd: Raw = NO_RAW
    iscsi: Raw = NO_RAW


class RawVolumeClaim(Shape, gc=False):
    """v1.PersistentVolumeClaimVolumeSource."""

    claim_name: str | None = None


class RawResourceClaim(Shape, gc=False):
    """v1.PodResourceClaim: one of the two names is given."""

    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class RawSchedulingGroup(Shape, gc=False):
    """spec.schedulingGroup (KEP-4671, 1.36 on)."""

    pod_group_name: str | None = None


class RawWorkloadRef(Shape, gc=False):
    """spec.workloadRef (KEP-4671 in 1.35, gone in 1.36)."""

    name: str | None = None
    pod_group: str | None = None
    pod_group_replica_key: str | None = None


class RawPodSpec(Shape, gc=False):
    """v1.PodSpec."""

    node_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduler_name: str | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    restart_policy: str | None = None
    priority_class_name: str | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    containers: list[RawContainer] | None = None
    init_containers: list[RawContainer] | None = None
    overhead: Raw = NO_RAW
    resources: Raw = NO_RAW
    node_selector: Raw = NO_RAW
    affinity: Raw = NO_RAW
    tolerations: Raw = NO_RAW
    topology_spread_constraints: Raw = NO_RAW
    volumes: list[RawVolume] | None = None
    resource_claims: Raw = NO_RAW
    scheduling_gates: list[Raw] | None = None
    scheduling_group: RawSchedulingGroup | None = None
    workload_ref: RawWorkloadRef | None = None


class RawCondition(Shape, gc=False):
    """v1.PodCondition."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    last_probe_time: Raw = NO_RAW
    last_transition_time: Raw = NO_RAW


class RawPodStatus(Shape, gc=False):
    """v1.PodStatus."""

    phase: str | None = None
    start_time: Raw = NO_RAW
    nominated_node_name: str | None = None
    conditions: list[RawCondition] | None = None
    container_statuses: list[RawContainerStatus] | None = None
    init_container_statuses: list[RawContainerStatus] | None = None
    resources: Raw = NO_RAW
    allocated_resources: Raw = NO_RAW


class RawPod(Shape, gc=False):
    """v1.Pod."""

    metadata: RawMeta | None = None
    spec: RawPodSpec | None = None
    status: RawPodStatus | None = None


# -- everything else -----------------------------------------------------------------------


class RawTaint(Shape, gc=False):
    """v1.Taint."""

    key: str
    value: str | None = None
    effect: str | None = None


class RawNodeSpec(Shape, gc=False):
    """v1.NodeSpec."""

    taints: list[RawTaint] | None = None
    unschedulable: bool | None = None


class RawNodeStatus(Shape, gc=False):
    """v1.NodeStatus."""

    allocatable: RawAmounts | None = None
    capacity: RawAmounts | None = None


class RawNode(Shape, gc=False):
    """v1.Node."""

    metadata: RawMeta | None = None
    spec: RawNodeSpec | None = None
    status: RawNodeStatus | None = None


class RawPriorityClass(Shape, gc=False):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: int
    metadata: RawMeta | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class RawBudgetSpec(Shape, gc=False):
    """policy/v1 PodDisruptionBudgetSpec; how the number is reached is its controller's business."""

    selector: Raw = NO_RAW
    unhealthy_pod_eviction_policy: str | None = None


class RawBudgetStatus(Shape, gc=False):
    """policy/v1 PodDisruptionBudgetStatus."""

    observed_generation: int | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    disrupted_pods: dict[str, Raw] | None = None


class RawBudget(Shape, gc=False):
    """policy/v1 PodDisruptionBudget."""

    metadata: RawMeta | None = None
    spec: RawBudgetSpec | None = None
    status: RawBudgetStatus | None = None


class RawNamespace(Shape, gc=False):
    """v1.Namespace."""

    metadata: RawMeta | None = None
