"""The API's own shape of where a pod may go: selectors, affinity, spread and tolerations."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from extender.decode.api_objects import Shape

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
SelectorOperator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


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
