"""The reduced Kubernetes objects the extender thinks in.

Every record is frozen and kept out of the cyclic collector (gc=False): 150,000
of them live in the cache. Parts that repeat between pods (PodShape, requests,
labels) are meant to be shared by whoever builds them.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from msgspec import Struct, field

from extender.model.memory_limits import OVERSIZE
from extender.model.owner_budget import OwnerBudget

Requests = tuple[tuple[str, int], ...]
"""Resource name and amount, sorted by name, zero amounts left out."""

DEFAULT_SCHEDULER = "default-scheduler"
"""Who places a pod that names no scheduler."""
FINISHED_PHASES = ("Succeeded", "Failed")


class Requirement(Struct, frozen=True, gc=False):
    """One matchExpressions entry. operator: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True, gc=False):
    """metav1.LabelSelector with matchLabels folded in as In requirements.

    No requirement matches everything; an absent selector (None) matches nothing.
    """

    requirements: tuple[Requirement, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, gc=False):
    """One OR branch of a node selector; fields select metadata.name only."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class PodAffinityTerm(Struct, frozen=True, gc=False):
    """One required inter-pod (anti-)affinity term, matchLabelKeys already merged in.

    namespaces is complete except for what namespace_selector adds; both empty
    means the pod's own namespace, which decoding has filled in.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


class SpreadConstraint(Struct, frozen=True, gc=False):
    """One topologySpreadConstraints entry with whenUnsatisfiable DoNotSchedule."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    min_domains: int = 1
    honor_node_affinity: bool = True
    honor_taints: bool = False


class Toleration(Struct, frozen=True, gc=False):
    """v1.Toleration without tolerationSeconds (it does not matter for scheduling)."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Taint(Struct, frozen=True, gc=False):
    """v1.Taint."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class HostPort(Struct, frozen=True, gc=False):
    """A port a container takes on its node."""

    ip: str
    protocol: str
    port: int


VOLUME_CLAIM = "persistentVolumeClaim"
"""Among PodShape.unmodelled: a claim that other pods may name too, with its name; or one of the
pod's own (a generic ephemeral volume), without a name."""
EXCLUSIVE_DISK = "exclusiveDisk"
"""Among PodShape.unmodelled: a disk that may be used once on a node."""
CLAIM = "resourceClaim"
"""Among PodShape.unmodelled, with its name: a ResourceClaim, which other pods may name too."""
CLAIM_TEMPLATE = "resourceClaimTemplate"
"""Among PodShape.unmodelled, with its name: each pod gets a ResourceClaim of its own."""
DEVICE_CLASS = "deviceClass"
"""Among PodShape.unmodelled, with its name: a resource request that a DeviceClass answers."""
EXTENDED_RESOURCE = "extendedResource"
"""Among PodShape.unmodelled, with its name and amount: a resource that a DeviceClass names."""
DEVICES = frozenset((CLAIM, CLAIM_TEMPLATE, DEVICE_CLASS, EXTENDED_RESOURCE))

VOLUMES = frozenset((VOLUME_CLAIM, EXCLUSIVE_DISK, OVERSIZE))
LIMITED = dict.fromkeys((VOLUME_CLAIM, EXCLUSIVE_DISK), "volumes") | dict.fromkeys(
    DEVICES, "devices"
)


class PodShape(Struct, frozen=True, gc=False):
    """The scheduling constraints of a pod; equal for all pods of one template.

    node_terms is None when there is no required node affinity; an empty tuple
    matches no node (as in kube-scheduler). unmodelled names what we cannot
    check ourselves ("persistentVolumeClaim data-0", "resourceClaimTemplate gpus") and
    take from the node lists that kube-scheduler offers.
    """

    node_selector: tuple[tuple[str, str], ...] = ()
    node_terms: tuple[NodeSelectorTerm, ...] | None = None
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    scheduler: str = DEFAULT_SCHEDULER
    unmodelled: tuple[str, ...] = ()

    @property
    def devices(self) -> tuple[str, ...]:
        """Those of ``unmodelled`` for which kube-scheduler allocates devices (DynamicResources)."""
        return tuple(each for each in self.unmodelled if each.partition(" ")[0] in DEVICES)

    @property
    def limited(self) -> frozenset[str]:
        """What the pod needs of which only kube-scheduler knows how much a node has left: "volumes"
        and "devices", and by name what is devices on nodes that do not offer it (limited_on)."""
        told = (each.split(" ") for each in self.unmodelled)
        return frozenset(
            each[1] if each[0] == EXTENDED_RESOURCE else LIMITED[each[0]]
            for each in told
            if each[0] in LIMITED
        )

    @property
    def volumes(self) -> tuple[str, ...]:
        """Those of ``unmodelled`` that are volumes, or may be (OVERSIZE)."""
        return tuple(each for each in self.unmodelled if each.partition(" ")[0] in VOLUMES)


EMPTY_SHAPE = PodShape()


class Owner(Struct, frozen=True, gc=False):
    """The controlling owner reference of a pod."""

    kind: str
    """A Job of another API group than batch (Volcano's) is told with it: "Job.batch.volcano.sh"."""
    name: str
    uid: str


class Pod(Struct, frozen=True, gc=False):
    """A pod, reduced. Identity is uid: a name may come back with another uid."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    phase: str = "Pending"
    priority: int = 0
    preempts: bool = True
    """False when preemptionPolicy is Never."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    """Only keys the extender reads (see model.metadata.KEPT_ANNOTATIONS)."""
    requests: Requests = ()
    """Scheduling request of the whole pod; always holds ("pods", 1)."""
    shape: PodShape = EMPTY_SHAPE
    pod_group: str = ""
    """spec.schedulingGroup.podGroupName; of spec.workloadRef its names, joined by two dots."""
    owner: Owner | None = None
    created: float = 0.0
    started: float = 0.0
    """status.startTime."""
    deleting: float = 0.0
    """metadata.deletionTimestamp: when the grace period is over."""
    grace: int = 30
    """Seconds that it may take to end as a victim: what it asks for, or less if DELETE said so."""
    nominated: str = ""
    gated: bool = False
    disrupted: bool = False
    """Condition DisruptionTarget is True."""
    preempted: bool = False
    """Its reason is PreemptionByScheduler."""
    unready: bool = False
    """No condition Ready is True: what podutil.IsPodReady calls not ready."""
    tried: bool = False
    """Condition PodScheduled is False: kube-scheduler has tried it at least once."""
    checkpointed: float = 0.0
    """When condition podgroup-extender.io/Checkpointed, if True, was last set or probed."""
    version: int = 0
    """resourceVersion as an integer (0 when it is not one)."""
    hierarchy: tuple[str, str] | None = None
    """Where its PodGroup is part of a CompositePodGroup: the names, as in GangKey, of the gang it
    starts with and of what it goes with as a victim. Not of the pod but of those objects: whoever
    puts pods and groups together fills it in (extender.groups.composite)."""
    limit: int = 0
    """spec.activeDeadlineSeconds: the kubelet ends it so long after its start; 0: it does not."""
    endless: bool = False
    """spec.restartPolicy is Always: it does not end by itself."""
    priority_class: str = ""
    """spec.priorityClassName."""

    @property
    def key(self) -> str:
        """namespace/name."""
        return f"{self.namespace}/{self.name}"

    @property
    def controller(self) -> str:
        """KIND/NAME of the owner that makes another pod in its place, "" without one."""
        return f"{self.owner.kind}/{self.owner.name}" if self.owner is not None else ""

    @property
    def finished(self) -> bool:
        """Whether the pod holds nothing any more."""
        return self.phase in FINISHED_PHASES


class Node(Struct, frozen=True, gc=False):
    """A node, reduced."""

    name: str
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Requests = ()
    version: int = 0


class PriorityClass(Struct, frozen=True, gc=False):
    """scheduling.k8s.io/v1 PriorityClass."""

    name: str
    value: int
    global_default: bool = False
    preempts: bool = True
    preemptable_from: int | None = None
    """Its pods are not preempted by priorities below this, for as long as it tolerates; None: by
    those above its value (model.preemption_toleration)."""
    tolerates_seconds: int = 0
    """So long after they started; below 0 for ever."""
    uid: str = ""
    version: int = 0


class DisruptionBudget(Struct, frozen=True, gc=False):
    """policy/v1 PodDisruptionBudget with what its controller has counted."""

    uid: str
    namespace: str
    name: str
    selector: LabelSelector | None
    allowed: int
    """status.disruptionsAllowed."""
    unready_free: bool = False
    """Pods that are not ready may go whatever ``allowed`` says: unhealthyPodEvictionPolicy is
    AlwaysAllow, or status.currentHealthy >= status.desiredHealthy > 0 (IfHealthyBudget)."""
    version: int = 0


class Part(Struct, frozen=True, gc=False):
    """Pods that an owner makes of one template: ``jobs`` times ``each`` of them."""

    name: str = ""
    """What the owner calls it (a JobSet's replicated Job)."""
    jobs: int = 1
    each: int = 1
    over: int = 0
    """How many of ``jobs`` have succeeded and are not made again."""
    index: Literal["", "first", "rest"] = ""
    """Only the pod of index 0 of each, or only the others."""
    later: bool = False
    """They are made once others run, so others cannot wait for them."""
    fewest: int = 0
    """How many of its pods the owner cannot do without, whatever a PodGroup beside it asks for; 0
    where it does not say."""
    requests: Requests = ()
    """Of one of its pods, as the template has them; read where ``later``."""
    shape: PodShape = EMPTY_SHAPE
    labels: dict[str, str] = field(default_factory=dict)


class GroupObject(Struct, frozen=True, gc=False):
    """A PodGroup object of any dialect, or an owner of pods, before it is resolved into a Gang."""

    source: str
    """"core" (scheduling.k8s.io), else as in model.group_sources.SOURCES."""
    uid: str
    namespace: str
    name: str
    min_count: int | None = None
    """None for a basic group (no gang policy)."""
    disrupt_all: bool = False
    """True when the group asks to be disrupted as a whole."""
    priority: int | None = None
    priority_class: str = ""
    preempts: bool = True
    topology_key: str = ""
    version: int = 0
    parts: tuple[Part, ...] = ()
    """Of an owner: what it makes, finished pods left out where it tells of them. Of a PodGroup:
    parts with a least number of members each, which is ``each``."""
    whole_from: int | None = None
    """Of a PodGroup with fewer than all of its parts: with how many pods it may run."""
    budget: OwnerBudget | None = None
    """How many of its pods its owner can do without (Volcano)."""
    done: int = 0
    """Of a Job: how many of its pods have succeeded."""
    more: int = 0
    """Of a Job: how many pods it makes in place of those of ``parts`` that succeed."""
    note: str = ""
    """What of it does not count, in words."""
    unkept: str = ""
    """What of it cannot be kept, in words: the gang is not planned for."""
    of: str = ""
    """The name of what it belongs to: of a JobSet's Job, or of a PodGroup or a CompositePodGroup
    the CompositePodGroup above it. Of a DeviceClass the extended resource that it names."""
    ending: bool = False
    """It is being deleted. Read of what starts or makes pods."""


class Namespace(Struct, frozen=True, gc=False):
    """v1.Namespace: what namespace selectors of affinity terms read."""

    name: str
    uid: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    ending: bool = False
    """It is being deleted: nothing is created in it any more, no binding of a pod either."""
    version: int = 0


class GangKey(NamedTuple):
    """What identifies a gang: the dialect that declared it, its namespace and name."""

    dialect: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return dialect:namespace/name."""
        return f"{self.dialect}:{self.namespace}/{self.name}"

    @classmethod
    def read(cls, text: str) -> GangKey:
        """Return the key whose text this is."""
        dialect, _, rest = text.partition(":")
        namespace, _, name = rest.partition("/")
        return cls(dialect, namespace, name)
