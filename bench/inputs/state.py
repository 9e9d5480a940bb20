"""A cluster state in neutral terms, given out as model records and as Kubernetes objects.

Benchmarks plan on the records and build the objects on a real control plane: both
come from here, so that what is compared is the same cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from extender.gang.plan.assemble import assemble
from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Node, Pod, PriorityClass, Requests
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings
from tests.controlplane.objects import (
    Object,
    make_node,
    make_pod,
    make_pod_group,
    make_priority_class,
)
from tests.controlplane.releases import Release

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0
"""Wall clock of every state: ages are relative to it."""
NAMESPACE = "default"
EPHEMERAL_GI = 100
"""What make_node gives every node, in GiB."""
MODEL_LABEL = "nvidia.com/gpu.product"


class Amounts(Struct, frozen=True):
    """milli-CPU, MiB of memory, whole GPUs."""

    cpu: int
    memory: int
    gpu: int = 0

    def fits(self, room: Amounts) -> bool:
        """Whether this request fits into ``room``."""
        return self.cpu <= room.cpu and self.memory <= room.memory and self.gpu <= room.gpu

    def minus(self, other: Amounts) -> Amounts:
        """What is left after ``other`` has been taken."""
        return Amounts(self.cpu - other.cpu, self.memory - other.memory, self.gpu - other.gpu)

    def requests(self) -> Requests:
        """As a pod's requests."""
        amounts = (("cpu", self.cpu), ("memory", self.memory * 2**20), (GPU, self.gpu), ("pods", 1))
        return tuple(entry for entry in amounts if entry[1])


class NodeState(Struct, frozen=True):
    """One node."""

    name: str
    size: Amounts
    pods: int = 110
    model: str = ""
    """GPU model, a label; "" for none."""


class PodState(Struct, frozen=True):
    """One pod; without ``node`` it waits."""

    name: str
    wants: Amounts
    priority: int
    node: str = ""
    group: str = ""
    age: int = 0
    """Seconds it has run. Only the records know: on a control plane all start together."""


class GroupState(Struct, frozen=True):
    """One gang."""

    name: str
    min_count: int
    priority: int
    whole: bool = True
    """Disrupted as a whole (``all``), else pod by pod (``single``)."""


class State(Struct, frozen=True):
    """A cluster, and the gang that wants in."""

    name: str
    nodes: tuple[NodeState, ...]
    pods: tuple[PodState, ...]
    """Bound pods: the possible victims and those that stay."""
    groups: tuple[GroupState, ...]
    """Groups of the bound pods."""
    gang: GroupState
    members: tuple[PodState, ...]
    """The preemptor's pods, all waiting."""
    about: str = ""

    @property
    def key(self) -> GangKey:
        """The waiting gang's key."""
        return GangKey("pod-group", NAMESPACE, self.gang.name)

    @property
    def priorities(self) -> tuple[int, ...]:
        """Every priority in use, ascending."""
        return tuple(sorted({pod.priority for pod in (*self.pods, *self.members)}))

    def snapshot(self, resolver: Resolver | None = None, *, ages: bool = True) -> Snapshot:
        """As a cache would hand it out. Without ``ages`` no pod has a start time."""
        chosen = resolver or Resolver(Settings().groups)
        shared: dict[Amounts, Requests] = {}
        return assemble(
            chosen.member_key,
            nodes=map(_node_record, self.nodes),
            pods=(
                _pod_record(pod, ages=ages, shared=shared) for pod in (*self.pods, *self.members)
            ),
            groups=map(_group_record, (*self.groups, self.gang)),
            priority_classes=(PriorityClass(class_name(p), p) for p in self.priorities),
            now=NOW,
            generation=1,
        )

    def node_documents(self) -> Iterator[Object]:
        """Nodes, as Kubernetes objects."""
        for node in self.nodes:
            labels = {MODEL_LABEL: node.model} if node.model else {}
            gpus = {GPU: node.size.gpu} if node.size.gpu else {}
            yield make_node(
                node.name,
                f"{node.size.cpu}m",
                f"{node.size.memory}Mi",
                node.pods,
                labels=labels,
                resources=gpus,
            )

    def class_documents(self) -> Iterator[Object]:
        """Priority classes, as Kubernetes objects."""
        return (make_priority_class(class_name(p), p) for p in self.priorities)

    def group_documents(self, release: Release) -> Iterator[Object]:
        """PodGroups of the bound pods, in the release's spelling."""
        return (_group_document(group, release) for group in self.groups)

    def pod_documents(self) -> Iterator[Object]:
        """Bound pods, as Kubernetes objects."""
        return map(_pod_document, self.pods)

    def gang_documents(self, release: Release) -> Iterator[Object]:
        """The waiting gang: its PodGroup, then its members."""
        yield _group_document(self.gang, release)
        yield from map(_pod_document, self.members)

    def documents(self, release: Release) -> list[Object]:
        """Everything, in the order in which it can be created."""
        return [
            *self.class_documents(),
            *self.node_documents(),
            *self.group_documents(release),
            *self.pod_documents(),
            *self.gang_documents(release),
        ]


def class_name(priority: int) -> str:
    """Name of the PriorityClass for a priority."""
    return f"level-{priority}"


def gang_of(
    name: str, count: int, wants: Amounts, priority: int
) -> tuple[GroupState, tuple[PodState, ...]]:
    """A waiting gang of equal members that all have to run."""
    members = tuple(PodState(f"{name}-{i:04}", wants, priority, group=name) for i in range(count))
    return GroupState(name, count, priority), members


def gpus(pods: Iterable[PodState]) -> int:
    """GPUs that pods ask for."""
    return sum(pod.wants.gpu for pod in pods)


def _node_record(node: NodeState) -> Node:
    labels = {
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
    }
    if node.model:
        labels[MODEL_LABEL] = node.model
    amounts = {
        "cpu": node.size.cpu,
        "ephemeral-storage": EPHEMERAL_GI * 2**30,
        "memory": node.size.memory * 2**20,
        GPU: node.size.gpu,
        "pods": node.pods,
    }
    allocatable = tuple((name, amount) for name, amount in amounts.items() if amount)
    return Node(name=node.name, uid=node.name, labels=labels, allocatable=allocatable)


def _pod_record(pod: PodState, *, ages: bool, shared: dict[Amounts, Requests]) -> Pod:
    started = NOW - pod.age if pod.node and ages else 0.0
    return Pod(
        uid=pod.name,
        namespace=NAMESPACE,
        name=pod.name,
        node=pod.node,
        phase="Running" if pod.node else "Pending",
        priority=pod.priority,
        requests=shared.setdefault(pod.wants, pod.wants.requests()),
        pod_group=pod.group,
        created=started,
        started=started,
        grace=0,
    )


def _group_record(group: GroupState) -> GroupObject:
    return GroupObject(
        source="core",
        uid=group.name,
        namespace=NAMESPACE,
        name=group.name,
        min_count=group.min_count,
        disrupt_all=group.whole,
        priority=group.priority,
        priority_class=class_name(group.priority),
    )


def _pod_document(pod: PodState) -> Object:
    return make_pod(
        pod.name,
        f"{pod.wants.cpu}m",
        f"{pod.wants.memory}Mi",
        resources={GPU: pod.wants.gpu} if pod.wants.gpu else {},
        priority_class=class_name(pod.priority),
        pod_group=pod.group or None,
        node=pod.node or None,
    )


def _group_document(group: GroupState, release: Release) -> Object:
    return make_pod_group(
        release,
        group.name,
        group.min_count,
        disruption="all" if group.whole else "single",
        priority_class=class_name(group.priority),
    )
