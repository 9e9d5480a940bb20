"""The API's own shape of the objects we read: only the fields that matter to us.

Parts that repeat between pods (labels, resources, constraints) stay raw JSON here:
they are looked up by their bytes and decoded only when seen for the first time.
Every field may be absent or null, because manifests and dumps are less complete
than what an API server sends.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field

NO_RAW = Raw()
"""What an absent raw field holds; compare with ``is``, which is far cheaper than its bytes."""

Amounts = dict[str, str | int | float]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
SelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


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
    deletion_grace_period_seconds: int | None = None
    labels: Raw = NO_RAW
    annotations: Raw = NO_RAW
    owner_references: Raw = NO_RAW


class RawOwner(Shape, gc=False):
    """metav1.OwnerReference."""

    kind: str
    name: str
    uid: str
    controller: bool | None = None


# -- pods: what they ask for ---------------------------------------------------------------


class RawResources(Shape, gc=False):
    """v1.ResourceRequirements."""

    requests: Amounts | None = None
    limits: Amounts | None = None


class RawContainer(Shape, gc=False):
    """v1.Container, of either list."""

    name: str | None = None
    resources: Raw = NO_RAW
    ports: Raw = NO_RAW
    restart_policy: str | None = None


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


# -- pods: where they may go ---------------------------------------------------------------


class RawSelectorRequirement(Shape, gc=False):
    """metav1.LabelSelectorRequirement."""

    key: str
    operator: SelectorOperator
    values: list[str] | None = None


class RawSelector(Shape, gc=False):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[RawSelectorRequirement] | None = None


class RawRequirement(Shape, gc=False):
    """v1.NodeSelectorRequirement."""

    key: str
    operator: Operator
    values: list[str] | None = None


class RawNodeTerm(Shape, gc=False):
    """v1.NodeSelectorTerm."""

    match_expressions: list[RawRequirement] | None = None
    match_fields: list[RawRequirement] | None = None


class RawNodeSelector(Shape, gc=False):
    """v1.NodeSelector."""

    node_selector_terms: list[RawNodeTerm] | None = None


class RawNodeAffinity(Shape, gc=False):
    """v1.NodeAffinity, the required part."""

    required: RawNodeSelector | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class RawPodTerm(Shape, gc=False):
    """v1.PodAffinityTerm."""

    topology_key: str
    label_selector: RawSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: RawSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class RawPodAffinity(Shape, gc=False):
    """v1.PodAffinity and v1.PodAntiAffinity, the required part."""

    required: list[RawPodTerm] | None = field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class RawAffinity(Shape, gc=False):
    """v1.Affinity."""

    node_affinity: RawNodeAffinity | None = None
    pod_affinity: RawPodAffinity | None = None
    pod_anti_affinity: RawPodAffinity | None = None


class RawSpread(Shape, gc=False):
    """v1.TopologySpreadConstraint."""

    topology_key: str
    max_skew: Annotated[int, Meta(ge=1)]
    when_unsatisfiable: str
    label_selector: RawSelector | None = None
    min_domains: Annotated[int, Meta(ge=1)] | None = None
    node_affinity_policy: Literal["Honor", "Ignore"] | None = None
    node_taints_policy: Literal["Honor", "Ignore"] | None = None
    match_label_keys: list[str] | None = None


class RawToleration(Shape, gc=False):
    """v1.Toleration."""

    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


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

    allocatable: Amounts | None = None
    capacity: Amounts | None = None


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

    disruptions_allowed: int | None = None
    disrupted_pods: dict[str, Raw] | None = None


class RawBudget(Shape, gc=False):
    """policy/v1 PodDisruptionBudget."""

    metadata: RawMeta | None = None
    spec: RawBudgetSpec | None = None
    status: RawBudgetStatus | None = None


class RawNamespace(Shape, gc=False):
    """v1.Namespace."""

    metadata: RawMeta | None = None


class RawGang(Shape, gc=False):
    """GangSchedulingPolicy."""

    min_count: int


class RawSchedulingPolicy(Shape, gc=False):
    """PodGroupSchedulingPolicy: exactly one of both."""

    basic: Raw = NO_RAW
    gang: RawGang | None = None


class RawTopology(Shape, gc=False):
    """TopologyConstraint."""

    key: str


class RawSchedulingConstraints(Shape, gc=False):
    """PodGroupSchedulingConstraints: at most one topology."""

    topology: list[RawTopology] | None = None


class RawPodGroupSpec(Shape, gc=False):
    """PodGroupSpec of scheduling.k8s.io v1alpha2, v1alpha3 and v1beta1."""

    scheduling_policy: RawSchedulingPolicy | None = None
    scheduling_constraints: RawSchedulingConstraints | None = None
    disruption_mode: str | dict[str, Raw] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class RawPodGroup(Shape, gc=False):
    """scheduling.k8s.io PodGroup."""

    metadata: RawMeta | None = None
    spec: RawPodGroupSpec | None = None


class RawCompositeGang(Shape, gc=False):
    """CompositeGangSchedulingPolicy."""

    min_group_count: int


class RawCompositePolicy(Shape, gc=False):
    """CompositePodGroupSchedulingPolicy: exactly one of both."""

    basic: Raw = NO_RAW
    gang: RawCompositeGang | None = None


class RawCompositePodGroupSpec(Shape, gc=False):
    """CompositePodGroupSpec of scheduling.k8s.io/v1alpha3."""

    scheduling_policy: RawCompositePolicy | None = None
    scheduling_constraints: RawSchedulingConstraints | None = None
    disruption_mode: dict[str, Raw] | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class RawCompositePodGroup(Shape, gc=False):
    """scheduling.k8s.io CompositePodGroup."""

    metadata: RawMeta | None = None
    spec: RawCompositePodGroupSpec | None = None


class RawMemberGroupSpec(Shape, gc=False):
    """PodGroupSpec of scheduling.x-k8s.io/v1alpha1 (scheduler-plugins)."""

    min_member: int | None = None


class RawMemberGroup(Shape, gc=False):
    """scheduling.x-k8s.io/v1alpha1 PodGroup."""

    metadata: RawMeta | None = None
    spec: RawMemberGroupSpec | None = None
