"""From the API's JSON to the reduced records.

Every ``decode_*`` takes one object as JSON bytes, as msgspec.Raw or as a decoded
mapping, and raises InvalidInput that names kind, namespace/name and field. The
``reduce_*`` functions take the typed shape, for callers that decode whole watch
events or list pages in one go.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Raw

from extender.model.apishape import (
    NO_RAW,
    RawBudget,
    RawMemberGroup,
    RawMeta,
    RawNamespace,
    RawNode,
    RawOwner,
    RawPod,
    RawPodGroup,
    RawPodSpec,
    RawPriorityClass,
)
from extender.model.errors import InvalidInput
from extender.model.interning import Memo
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    Owner,
    Pod,
    PriorityClass,
    Taint,
)
from extender.model.podrequests import parse_amounts, pod_requests, to_requests
from extender.model.podshape import pod_shape, selector

Source = bytes | str | Raw | Mapping[str, Any]
GroupSource = Literal["core", "scheduling-plugins"]
Record = Pod | Node | PriorityClass | DisruptionBudget | Namespace | GroupObject
Shape = TypeVar("Shape")
Result = TypeVar("Result")

CHECKPOINTED = "podgroup-extender.io/Checkpointed"
"""Type of the pod condition by which a workload says that its work is saved."""
KEPT_ANNOTATIONS = (
    "podgroup-extender.io/",
    "scheduling.k8s.io/group-name",
    "kueue.x-k8s.io/",
    "gang.scheduling.koordinator.sh/",
    "volcano.sh/",
    "scheduling.volcano.sh/",
    "yunikorn.apache.org/",
    "pod-group-name",
    "kai.scheduler/",
    "batch.kubernetes.io/job-completion-index",
    "jobset.sigs.k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
    "leaderworkerset.sigs.k8s.io/",
)
"""Prefixes of the annotation keys some dialect or option reads; all others are dropped."""

NOTHING: dict[str, str] = {}
"""The one empty mapping; records are read-only, so it is shared."""

_string_map = msgspec.json.Decoder(dict[str, str])
_owner_list = msgspec.json.Decoder(list[RawOwner])
_labels: Memo[bytes, dict[str, str]] = Memo()
_annotations: Memo[bytes, dict[str, str]] = Memo()
_time_decoder = msgspec.json.Decoder(Annotated[datetime, msgspec.Meta(tz=True)] | None)
_times: Memo[bytes, float] = Memo()
_owners: Memo[bytes, Owner | Literal[False]] = Memo()
_NO_META = RawMeta()
_NO_SPEC = RawPodSpec()


# -- pods ----------------------------------------------------------------------------------


def decode_pod(source: Source) -> Pod:
    """Return a v1.Pod, reduced. A manifest without uid is accepted (uid "")."""
    return _decode("Pod", RawPod, reduce_pod, source)


def reduce_pod(raw: RawPod) -> Pod:
    """Return the record of a typed v1.Pod; InvalidInput begins with the field."""
    meta = raw.metadata or _NO_META
    spec = raw.spec or _NO_SPEC
    status = raw.status
    if not meta.name:
        raise InvalidInput("metadata.name: is missing")
    namespace = sys.intern(meta.namespace or "default")
    labels = _string_mapping(meta.labels, "metadata.labels")
    grace = spec.termination_grace_period_seconds
    phase, nominated, started = "Pending", "", 0.0
    disrupted = tried = False
    checkpointed = 0.0
    if status is not None:
        phase = sys.intern(status.phase or "Pending")
        nominated = sys.intern(status.nominated_node_name or "")
        started = _time(status.start_time, "status.startTime")
        for condition in status.conditions or ():
            if condition.type == "PodScheduled":
                tried = condition.status == "False"
            elif condition.type == "DisruptionTarget":
                disrupted = condition.status == "True"
            elif condition.type == CHECKPOINTED and condition.status == "True":
                checkpointed = max(
                    _time(condition.last_transition_time, "status.conditions.lastTransitionTime"),
                    _time(condition.last_probe_time, "status.conditions.lastProbeTime"),
                )
    deleting = _time(meta.deletion_timestamp, "metadata.deletionTimestamp")
    if deleting and meta.deletion_grace_period_seconds is not None:
        # What DELETE asked for replaces what the pod asked for.
        grace = meta.deletion_grace_period_seconds
    group = spec.scheduling_group
    return Pod(
        uid=meta.uid or "",
        namespace=namespace,
        name=meta.name,
        node=sys.intern(spec.node_name or ""),
        phase=phase,
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        labels=labels,
        annotations=_kept(meta.annotations),
        requests=pod_requests(spec, status),
        shape=pod_shape(spec, namespace, labels),
        pod_group=sys.intern(group.pod_group_name or "") if group is not None else "",
        owner=_controller(meta.owner_references),
        created=_time(meta.creation_timestamp, "metadata.creationTimestamp"),
        started=started,
        deleting=deleting,
        grace=30 if grace is None else grace,
        nominated=nominated,
        gated=bool(spec.scheduling_gates),
        disrupted=disrupted,
        tried=tried,
        checkpointed=checkpointed,
        version=_version(meta),
    )


# -- the others ----------------------------------------------------------------------------


def decode_node(source: Source) -> Node:
    """Return a v1.Node, reduced."""
    return _decode("Node", RawNode, reduce_node, source)


def reduce_node(raw: RawNode) -> Node:
    """Return the record of a typed v1.Node."""
    meta = _named(raw.metadata)
    taints: tuple[Taint, ...] = ()
    unschedulable = False
    if raw.spec is not None:
        taints = tuple(
            Taint(taint.key, taint.value or "", taint.effect or "NoSchedule")
            for taint in raw.spec.taints or ()
        )
        unschedulable = bool(raw.spec.unschedulable)
    allocatable = None
    if raw.status is not None:
        # As the API server does for a node that reports no allocatable.
        allocatable = raw.status.allocatable or raw.status.capacity
    return Node(
        name=sys.intern(meta.name or ""),
        uid=meta.uid or "",
        labels=_string_mapping(meta.labels, "metadata.labels"),
        taints=taints,
        unschedulable=unschedulable,
        allocatable=to_requests(parse_amounts(allocatable, "status.allocatable")),
        version=_version(meta),
    )


def decode_priority_class(source: Source) -> PriorityClass:
    """Return a scheduling.k8s.io/v1 PriorityClass."""
    return _decode("PriorityClass", RawPriorityClass, reduce_priority_class, source)


def reduce_priority_class(raw: RawPriorityClass) -> PriorityClass:
    """Return the record of a typed PriorityClass."""
    meta = _named(raw.metadata)
    return PriorityClass(
        name=meta.name or "",
        value=raw.value,
        global_default=bool(raw.global_default),
        preempts=raw.preemption_policy != "Never",
        uid=meta.uid or "",
        version=_version(meta),
    )


def decode_budget(source: Source) -> DisruptionBudget:
    """Return a policy/v1 PodDisruptionBudget."""
    return _decode("PodDisruptionBudget", RawBudget, reduce_budget, source)


def reduce_budget(raw: RawBudget) -> DisruptionBudget:
    """Return the record of a typed PodDisruptionBudget; without status nothing is allowed."""
    meta = _named(raw.metadata)
    try:
        chosen = selector(raw.spec.selector if raw.spec else None)
    except InvalidInput as error:
        raise InvalidInput(f"spec.selector: {error}") from error
    allowed = raw.status.disruptions_allowed if raw.status else None
    disrupted = raw.status.disrupted_pods if raw.status else None
    return DisruptionBudget(
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        selector=chosen,
        allowed=max(0, allowed or 0),
        disrupted=tuple(sorted(disrupted or ())),
        version=_version(meta),
    )


def decode_namespace(source: Source) -> Namespace:
    """Return a v1.Namespace."""
    return _decode("Namespace", RawNamespace, reduce_namespace, source)


def reduce_namespace(raw: RawNamespace) -> Namespace:
    """Return the record of a typed v1.Namespace."""
    meta = _named(raw.metadata)
    return Namespace(
        name=sys.intern(meta.name or ""),
        uid=meta.uid or "",
        labels=_string_mapping(meta.labels, "metadata.labels"),
        version=_version(meta),
    )


def decode_group(source: GroupSource, document: Source) -> GroupObject:
    """Return a PodGroup object: of scheduling.k8s.io ("core") or of scheduling.x-k8s.io."""
    if source == "core":
        return _decode("PodGroup", RawPodGroup, reduce_core_group, document)
    return _decode("PodGroup", RawMemberGroup, reduce_member_group, document)


def reduce_core_group(raw: RawPodGroup) -> GroupObject:
    """Return the record of a scheduling.k8s.io PodGroup, v1alpha2 to v1beta1.

    disruptionMode is "Pod" or "PodGroup" in v1alpha2, {single: {}} or {all: {}} after it;
    absent means single. KEP-4671, KEP-5710.
    """
    meta = _named(raw.metadata)
    spec = raw.spec
    if spec is None:
        raise InvalidInput("spec: is missing")
    mode = spec.disruption_mode
    if mode is None or mode == "Pod" or (isinstance(mode, dict) and list(mode) == ["single"]):
        whole = False
    elif mode == "PodGroup" or (isinstance(mode, dict) and list(mode) == ["all"]):
        whole = True
    else:
        shown = mode if isinstance(mode, str) else sorted(mode)
        raise InvalidInput(f"spec.disruptionMode: {shown!r} is none of Pod, PodGroup, single, all")
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    constraints = spec.scheduling_constraints
    topology = (constraints.topology if constraints is not None else None) or []
    return GroupObject(
        source="core",
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        min_count=gang.min_count if gang is not None else None,
        disrupt_all=whole,
        priority=spec.priority,
        priority_class=spec.priority_class_name or "",
        preempts=spec.preemption_policy != "Never",
        topology_key=topology[0].key if topology else "",
        version=_version(meta),
    )


def reduce_member_group(raw: RawMemberGroup) -> GroupObject:
    """Return the record of a scheduler-plugins PodGroup; without minMember one pod suffices."""
    meta = _named(raw.metadata)
    least = raw.spec.min_member if raw.spec is not None else None
    return GroupObject(
        source="scheduling-plugins",
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        min_count=1 if least is None else least,
        version=_version(meta),
    )


# -- documents -----------------------------------------------------------------------------


class _Header(msgspec.Struct, gc=False, rename="camel"):
    kind: str = ""
    api_version: str = ""
    items: list[Raw] | None = None


_header = msgspec.json.Decoder(_Header)


def decode_documents(source: Source) -> Iterator[Record]:
    """Yield the records in one object or list, such as ``kubectl get pods,nodes -o json`` prints.

    Kinds the extender does not read are skipped; the items of a typed list (PodList)
    take their kind from it. Raises InvalidInput for the first object that is malformed.
    """
    yield from _documents(_bytes(source, "document"), "", "")


def _documents(data: bytes | Raw, kind: str, version: str) -> Iterator[Record]:
    try:
        header = _header.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"document: {error}") from error
    kind = header.kind or kind
    version = header.api_version or version
    if kind.endswith("List"):
        for item in header.items or ():
            yield from _documents(item, kind.removesuffix("List"), version)
        return
    decode = _decoder(kind, version)
    if decode is not None:
        yield decode(data)


def _decoder(kind: str, version: str) -> Callable[[Source], Record] | None:
    group = version.partition("/")[0] if "/" in version else ""
    simple: dict[tuple[str, str], Callable[[Source], Record]] = {
        ("", "Pod"): decode_pod,
        ("", "Node"): decode_node,
        ("", "Namespace"): decode_namespace,
        ("scheduling.k8s.io", "PriorityClass"): decode_priority_class,
        ("policy", "PodDisruptionBudget"): decode_budget,
        ("scheduling.k8s.io", "PodGroup"): lambda source: decode_group("core", source),
        ("scheduling.x-k8s.io", "PodGroup"): lambda source: decode_group(
            "scheduling-plugins", source
        ),
    }
    return simple.get((group, kind))


# -- shared parts --------------------------------------------------------------------------

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decode(
    kind: str, shape: type[Shape], reduce: Callable[[Shape], Result], source: Source
) -> Result:
    data = _bytes(source, kind)
    decoder = _decoders.get(shape)
    if decoder is None:
        decoder = _decoders[shape] = msgspec.json.Decoder(shape)
    try:
        return reduce(decoder.decode(data))
    except InvalidInput as error:
        raise InvalidInput(f"{describe(kind, data)}: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, OverflowError, ValueError) as error:
        raise InvalidInput(f"{describe(kind, data)}: {error}") from error


def _bytes(source: Source, what: str) -> bytes | Raw:
    if isinstance(source, (bytes, Raw)):
        return source
    if isinstance(source, str):
        return source.encode()
    try:
        return msgspec.json.encode(source)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{what}: not a JSON object: {error}") from error


class _Name(msgspec.Struct, gc=False):
    name: Any = None
    namespace: Any = None


class _Named(msgspec.Struct, gc=False):
    metadata: _Name | None = None


_name_decoder = msgspec.json.Decoder(_Named)


def describe(kind: str, data: bytes | Raw) -> str:
    """Return "Kind namespace/name" of an object that may be malformed elsewhere."""
    try:
        meta = _name_decoder.decode(data).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        meta = None
    if meta is None or not isinstance(meta.name, str) or not meta.name:
        return f"{kind} (name unreadable)"
    if isinstance(meta.namespace, str) and meta.namespace:
        return f"{kind} {meta.namespace[:253]}/{meta.name[:253]}"
    return f"{kind} {meta.name[:253]}"


def _named(meta: RawMeta | None) -> RawMeta:
    if meta is None or not meta.name:
        raise InvalidInput("metadata.name: is missing")
    return meta


def _version(meta: RawMeta) -> int:
    text = meta.resource_version
    return int(text) if text and text.isdecimal() else 0


def _time(raw: Raw, where: str) -> float:
    if raw is NO_RAW:
        return 0.0
    key = bytes(raw)
    found = _times.get(key)
    if found is not None:
        return found
    try:
        time = _time_decoder.decode(key)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error
    return _times.put(key, time.timestamp() if time is not None else 0.0)


def _string_mapping(raw: Raw, where: str) -> dict[str, str]:
    if raw is NO_RAW:
        return NOTHING
    key = bytes(raw)
    found = _labels.get(key)
    if found is not None:
        return found
    if key == b"null":
        return NOTHING
    try:
        return _labels.put(key, _string_map.decode(key) or NOTHING)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{where}: {error}") from error


def _kept(raw: Raw) -> dict[str, str]:
    if raw is NO_RAW:
        return NOTHING
    key = bytes(raw)
    found = _annotations.get(key)
    if found is not None:
        return found
    if key == b"null":
        return NOTHING
    try:
        every = _string_map.decode(key)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"metadata.annotations: {error}") from error
    kept = {name: value for name, value in every.items() if name.startswith(KEPT_ANNOTATIONS)}
    return _annotations.put(key, kept or NOTHING)


def _controller(raw: Raw) -> Owner | None:
    if raw is NO_RAW:
        return None
    key = bytes(raw)
    found = _owners.get(key)
    if found is not None:
        return found or None
    if key == b"null":
        return None
    try:
        owners = _owner_list.decode(key)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"metadata.ownerReferences: {error}") from error
    for owner in owners:
        if owner.controller:
            return _owners.put(key, Owner(owner.kind, owner.name, owner.uid)) or None
    _owners.put(key, False)
    return None
