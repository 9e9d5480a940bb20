"""Where a pod may go: the parts of its spec that kube-scheduler's filters read.

Sources: k8s.io/kube-scheduler/framework/types.go (affinity terms) and
podtopologyspread/common.go (defaults and matchLabelKeys of spread constraints).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.decode.api_objects import (
    NO_RAW,
    RawContainer,
    RawPodSpec,
    RawPort,
    RawResourceClaim,
    RawVolumeClaim,
    raw_bytes,
)
from extender.decode.api_placement import (
    RawAffinity,
    RawPodAffinity,
    RawPodTerm,
    RawRequirement,
    RawSelector,
    RawSpread,
    RawToleration,
)
from extender.decode.interning import Interner, Memo
from extender.model.errors import InvalidInput
from extender.model.memory_limits import ALWAYS_READ, LARGE, OVERSIZE, dense, estimate, named
from extender.model.objects import (
    CLAIM,
    CLAIM_TEMPLATE,
    DEFAULT_SCHEDULER,
    EXCLUSIVE_DISK,
    VOLUME_CLAIM,
    HostPort,
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
    Toleration,
)
from extender.model.texts import counted

T = TypeVar("T")
Parts = tuple[object, ...]

_affinity = msgspec.json.Decoder(RawAffinity)
_spread = msgspec.json.Decoder(list[RawSpread])
_tolerations = msgspec.json.Decoder(list[RawToleration])
_ports = msgspec.json.Decoder(list[RawPort])
_selector = msgspec.json.Decoder(RawSelector)
_selector_map = msgspec.json.Decoder(dict[str, str])
_claim = msgspec.json.Decoder(RawVolumeClaim)
_claims = msgspec.json.Decoder(list[RawResourceClaim])

MOST_UNMODELLED = 32
"""Claims of one pod that are told apart by name; of more only that there are some of a kind."""


class _Template(Struct, frozen=True, gc=False):
    """A shape, or the label keys without whose values it is not known."""

    shape: PodShape | None
    label_keys: tuple[str, ...] = ()


_memo: Memo[Parts, _Template] = Memo()
_by_labels: Memo[Parts, PodShape] = Memo()
_intern: Interner[PodShape] = Interner()


def pod_shape(spec: RawPodSpec, namespace: str, labels: Mapping[str, str]) -> PodShape:
    """Return the constraints of a pod, shared by all pods with the same ones.

    ``namespace`` and ``labels`` are the pod's: affinity terms without namespaces mean
    the pod's own, and matchLabelKeys take the pod's values. Raises InvalidInput that
    begins with the field.
    """
    # Every pod and every event passes here: absent fields are told without a call.
    affinity = b"" if spec.affinity is NO_RAW else bytes(spec.affinity)
    chosen = spec.node_selector
    spread = spec.topology_spread_constraints
    tolerations = spec.tolerations
    ports: tuple[object, ...] = ()
    for container in spec.containers or ():
        if container.ports is not NO_RAW:
            ports += (bytes(container.ports),)
    if spec.init_containers:
        ports += tuple(bytes(container.ports) for container in _sidecars(spec))
    key: Parts = (
        b"" if chosen is NO_RAW else bytes(chosen),
        affinity,
        b"" if tolerations is NO_RAW else bytes(tolerations),
        b"" if spread is NO_RAW else bytes(spread),
        ports,
        spec.host_network,
        spec.scheduler_name,
        _unmodelled(spec),
        namespace if affinity else "",
    )
    template = _memo.get(key)
    if template is None:
        size = len(spec.scheduler_name or "") + sum(
            estimate(part) for part in (*key, *ports) if isinstance(part, bytes)
        )
        if size > ALWAYS_READ:
            if _oversize(spec):
                return _unread(spec)
            # Nobody else has the same: the shape is made, and not remembered.
            return _build(spec, namespace, labels)
        template = _memo.put(key, _template(spec, namespace, labels), size)
    if template.shape is not None:
        return template.shape
    key = (key, *(labels.get(name) for name in template.label_keys))
    shape = _by_labels.get(key)
    if shape is not None:
        return shape
    return _by_labels.put(key, _build(spec, namespace, labels), LARGE)


def _unread(spec: RawPodSpec) -> PodShape:
    """Return the shape of a pod whose constraints are too many: kube-scheduler's lists tell."""
    return PodShape(
        scheduler=named(spec.scheduler_name or DEFAULT_SCHEDULER),
        unmodelled=tuple(sorted((*_unmodelled(spec), OVERSIZE))),
    )


def _sidecars(spec: RawPodSpec) -> list[RawContainer]:
    return [c for c in spec.init_containers or () if c.restart_policy == "Always"]


def selector(raw: RawSelector | None) -> LabelSelector | None:
    """Return a label selector with matchLabels folded in; None stays None (matches nothing)."""
    if raw is None:
        return None
    requirements = [
        Requirement(key, "In", (value,)) for key, value in sorted((raw.match_labels or {}).items())
    ]
    for item in raw.match_expressions or ():
        values = tuple(item.values or ())
        if (item.operator in ("In", "NotIn")) != bool(values):
            raise InvalidInput(
                f"selector: operator {item.operator} with {counted(len(values), 'value')}"
            )
        requirements.append(Requirement(item.key, item.operator, values))
    return LabelSelector(tuple(requirements))


def kept_selector(raw: Raw) -> LabelSelector | None:
    """Return a selector that is kept by itself; one too large to be kept matches nothing."""
    data = raw_bytes(raw)
    if not data or dense(data):
        return None
    try:
        return selector(_selector.decode(data))
    except msgspec.DecodeError as error:
        raise InvalidInput(str(error)) from error


def _oversize(spec: RawPodSpec) -> bool:
    """Whether some constraint of the pod is too large to be kept."""
    parts = [spec.affinity, spec.node_selector, spec.topology_spread_constraints, spec.tolerations]
    if any(part is not NO_RAW and dense(bytes(part)) for part in parts):
        return True
    ports = [c.ports for c in (*(spec.containers or ()), *_sidecars(spec)) if c.ports is not NO_RAW]
    return dense(b"".join(map(bytes, ports)))


def _template(spec: RawPodSpec, namespace: str, labels: Mapping[str, str]) -> _Template:
    keys = _label_keys(spec)
    return _Template(None, keys) if keys else _Template(_build(spec, namespace, labels))


def _label_keys(spec: RawPodSpec) -> tuple[str, ...]:
    """The label keys by which otherwise equal specs have different shapes."""
    keys: set[str] = set()
    affinity = _decode(_affinity.decode, spec.affinity, "spec.affinity") or RawAffinity()
    for group in (affinity.pod_affinity, affinity.pod_anti_affinity):
        for term in (group.required if group else None) or ():
            keys.update(term.match_label_keys or ())
            keys.update(term.mismatch_label_keys or ())
    for constraint in _spreads(spec):
        keys.update(constraint.match_label_keys or ())
    return tuple(sorted(keys))


def _build(spec: RawPodSpec, namespace: str, labels: Mapping[str, str]) -> PodShape:
    affinity = _decode(_affinity.decode, spec.affinity, "spec.affinity") or RawAffinity()
    node_selector = _decode(_selector_map.decode, spec.node_selector, "spec.nodeSelector") or {}
    return _intern(
        PodShape(
            node_selector=tuple(sorted(node_selector.items())),
            node_terms=_node_terms(affinity),
            affinity=_pod_terms(affinity.pod_affinity, "podAffinity", namespace, labels),
            anti_affinity=_pod_terms(
                affinity.pod_anti_affinity, "podAntiAffinity", namespace, labels
            ),
            spread=tuple(
                _spread_constraint(raw, labels, index) for index, raw in enumerate(_spreads(spec))
            ),
            tolerations=tuple(
                Toleration(
                    raw.key or "", raw.operator or "Equal", raw.value or "", raw.effect or ""
                )
                for raw in _decode(_tolerations.decode, spec.tolerations, "spec.tolerations") or ()
            ),
            host_ports=_host_ports(spec),
            scheduler=named(spec.scheduler_name or DEFAULT_SCHEDULER),
            unmodelled=_unmodelled(spec),
        ),
        _size(spec),
    )


def _size(spec: RawPodSpec) -> int:
    """About how many bytes the constraints take."""
    parts = (spec.affinity, spec.node_selector, spec.topology_spread_constraints, spec.tolerations)
    return 256 + sum(estimate(bytes(part)) for part in parts if part is not NO_RAW)


def _node_terms(affinity: RawAffinity) -> tuple[NodeSelectorTerm, ...] | None:
    required = affinity.node_affinity.required if affinity.node_affinity else None
    if required is None:
        return None
    # A term without any requirement selects nothing, so it is as good as absent.
    return tuple(
        NodeSelectorTerm(_requirements(term.match_expressions), _requirements(term.match_fields))
        for term in required.node_selector_terms or ()
        if term.match_expressions or term.match_fields
    )


def _requirements(raws: list[RawRequirement] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(raw.key, raw.operator, tuple(raw.values or ())) for raw in raws or ())


def _pod_terms(
    group: RawPodAffinity | None, name: str, namespace: str, labels: Mapping[str, str]
) -> tuple[PodAffinityTerm, ...]:
    terms = []
    for index, raw in enumerate((group.required if group else None) or ()):
        where = f"spec.affinity.{name}.required[{index}]"
        terms.append(_pod_term(raw, where, namespace, labels))
    return tuple(terms)


def _pod_term(
    raw: RawPodTerm, where: str, namespace: str, labels: Mapping[str, str]
) -> PodAffinityTerm:
    try:
        chosen = selector(raw.label_selector)
        namespaces = selector(raw.namespace_selector)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error
    chosen = _merge(chosen, "In", raw.match_label_keys, labels)
    chosen = _merge(chosen, "NotIn", raw.mismatch_label_keys, labels)
    listed = tuple(sorted(raw.namespaces or ()))
    if not listed and namespaces is None:
        listed = (namespace,)
    return PodAffinityTerm(raw.topology_key, chosen, listed, namespaces)


def _merge(
    chosen: LabelSelector | None,
    operator: str,
    keys: list[str] | None,
    labels: Mapping[str, str],
) -> LabelSelector | None:
    """Add one requirement for each key the pod has; the API server may have done so already."""
    if chosen is None or not keys:
        return chosen
    requirements = list(chosen.requirements)
    for key in keys:
        if key in labels:
            extra = Requirement(key, operator, (labels[key],))
            if extra not in requirements:
                requirements.append(extra)
    return LabelSelector(tuple(requirements))


def _spreads(spec: RawPodSpec) -> list[RawSpread]:
    """The constraints that filter; ScheduleAnyway only scores."""
    field = "spec.topologySpreadConstraints"
    raws = _decode(_spread.decode, spec.topology_spread_constraints, field) or []
    return [raw for raw in raws if raw.when_unsatisfiable == "DoNotSchedule"]


def _spread_constraint(raw: RawSpread, labels: Mapping[str, str], index: int) -> SpreadConstraint:
    try:
        chosen = _merge(selector(raw.label_selector), "In", raw.match_label_keys, labels)
    except InvalidInput as error:
        raise InvalidInput(f"spec.topologySpreadConstraints[{index}]: {error}") from error
    return SpreadConstraint(
        topology_key=raw.topology_key,
        max_skew=raw.max_skew,
        selector=chosen,
        min_domains=raw.min_domains or 1,
        honor_node_affinity=raw.node_affinity_policy != "Ignore",
        honor_taints=raw.node_taints_policy == "Honor",
    )


def _host_ports(spec: RawPodSpec) -> tuple[HostPort, ...]:
    """Ports of containers and sidecars; with hostNetwork every port is the node's."""
    ports: set[tuple[str, str, int]] = set()
    for field, containers in (
        ("containers", spec.containers),
        ("initContainers", spec.init_containers),
    ):
        for index, container in enumerate(containers or ()):
            if field == "initContainers" and container.restart_policy != "Always":
                continue
            where = f"spec.{field}[{index}].ports"
            for raw in _decode(_ports.decode, container.ports, where) or ():
                number = raw.host_port or (raw.container_port if spec.host_network else 0) or 0
                if number > 0:
                    ports.add((raw.host_ip or "0.0.0.0", raw.protocol or "TCP", number))
    return tuple(HostPort(*port) for port in sorted(ports))


def _unmodelled(spec: RawPodSpec) -> tuple[str, ...]:
    """What ties the pod to nodes in ways only kube-scheduler itself can judge: a kind, and a name
    where the pod says one. Pods that name other claims differ: one's node says nothing of
    another's."""
    found: set[str] = set()
    for volume in spec.volumes or ():
        # Nearly every pod has volumes and few have one of these.
        if volume.persistent_volume_claim is not NO_RAW or volume.ephemeral is not NO_RAW:
            if claim := _decode(_claim.decode, volume.persistent_volume_claim, "spec.volumes"):
                found.add(_named(VOLUME_CLAIM, claim.claim_name))
            if raw_bytes(volume.ephemeral):
                found.add(VOLUME_CLAIM)
        elif (
            volume.gce_persistent_disk is not NO_RAW
            or volume.aws_elastic_block_store is not NO_RAW
            or volume.rbd is not NO_RAW
            or volume.iscsi is not NO_RAW
        ):
            # Disks that VolumeRestrictions keeps from being used twice on a node.
            found.add(EXCLUSIVE_DISK)
    if spec.resource_claims is not NO_RAW:
        for each in _decode(_claims.decode, spec.resource_claims, "spec.resourceClaims") or ():
            if each.resource_claim_template_name:
                found.add(_named(CLAIM_TEMPLATE, each.resource_claim_template_name))
            else:
                found.add(_named(CLAIM, each.resource_claim_name))
    found.update(_node_features(spec))
    return _cut(found) if found else ()


def _cut(found: set[str]) -> tuple[str, ...]:
    """Return them sorted, and no more than are told apart: the first of each kind in any case."""
    told = sorted(found)
    if len(told) > MOST_UNMODELLED:
        kinds = [each.partition(" ")[0] for each in told]
        ranks = sorted((kinds[:i].count(kind), i) for i, kind in enumerate(kinds))
        told = sorted([told[i] for _, i in ranks[:MOST_UNMODELLED]] + [OVERSIZE])
    return tuple(told)


def _named(kind: str, name: str | None) -> str:
    return f"{kind} {name}" if name else kind


def _node_features(spec: RawPodSpec) -> Iterator[str]:
    """Features that the pod needs its node to declare.

    Source: InferForScheduling in k8s.io/component-helpers/nodedeclaredfeatures/features (1.37),
    which kube-scheduler's plugin NodeDeclaredFeatures asks.
    """
    if spec.host_network and spec.host_users is False:
        yield "nodeFeature UserNamespacesHostNetworkSupport"
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        rules = container.restart_policy_rules
        if rules is not NO_RAW and b"RestartAllContainers" in bytes(rules):
            yield "nodeFeature RestartAllContainersOnContainerExits"
        mounts = container.volume_mounts
        if mounts is not NO_RAW and b"bindMountOptions" in bytes(mounts):
            yield "nodeFeature VolumeBindMountOptions"


def _decode(decode: Callable[[Raw], T], raw: Raw, where: str) -> T | None:
    if not raw_bytes(raw):
        return None
    try:
        return decode(raw)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error
