"""The API's own shape of gangs: PodGroup, CompositePodGroup, and scheduler-plugins' PodGroup."""

from __future__ import annotations

from msgspec import Raw

from extender.decode.api_objects import NO_RAW, RawMeta, Shape


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


class RawSubGroup(Shape, gc=False):
    """SubGroup of scheduling.run.ai/v2alpha2 (KAI)."""

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None


class RawMemberGroupSpec(Shape, gc=False):
    """PodGroupSpec of scheduling.x-k8s.io/v1alpha1 (scheduler-plugins) and of its relatives."""

    min_member: int | None = None
    min_task_member: dict[str, int] | None = None
    """Volcano's."""
    min_sub_group: int | None = None
    """KAI's, with the next."""
    sub_groups: list[RawSubGroup] | None = None


class RawMemberGroup(Shape, gc=False):
    """scheduling.x-k8s.io/v1alpha1 PodGroup."""

    metadata: RawMeta | None = None
    spec: RawMemberGroupSpec | None = None
