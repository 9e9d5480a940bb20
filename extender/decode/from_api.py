"""From the API's typed shape to the reduced records.

For whoever decodes whole watch events or list pages in one go; from_json.py takes single objects.
InvalidInput begins with the field.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from functools import partial

import msgspec
from msgspec.structs import replace

from extender.decode.api_groups import (
    RawCompositePodGroup,
    RawCompositePodGroupSpec,
    RawMemberGroup,
    RawMemberGroupSpec,
    RawPodGroup,
    RawPodGroupSpec,
)
from extender.decode.api_objects import (
    RawBudget,
    RawBudgetStatus,
    RawCondition,
    RawMeta,
    RawNamespace,
    RawNode,
    RawPod,
    RawPodSpec,
    RawPriorityClass,
    raw_bytes,
)
from extender.decode.group_parts import VOLCANO, quorum_of
from extender.decode.metadata import (
    controller_of,
    kept_annotations,
    moment,
    named,
    string_mapping,
    version_of,
)
from extender.decode.pod_placement import kept_selector, pod_shape
from extender.decode.pod_requests import parse_amounts, pod_requests, to_requests
from extender.decode.preemption_toleration import toleration_of
from extender.model.errors import InvalidInput
from extender.model.group_sources import KOORDINATOR
from extender.model.memory_limits import named as named_text
from extender.model.objects import (
    DEVICE_CLASS,
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PodShape,
    PriorityClass,
    Requests,
    Taint,
)
from extender.model.owner_budget import budget_of
from extender.model.owner_kinds import COMPOSITE

CHECKPOINTED = "podgroup-extender.io/Checkpointed"
"""Type of the pod condition by which a workload says that its work is saved."""

IMPLICIT_CLASS = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource by which a pod asks for devices of a DeviceClass (resourcev1 of 1.37)."""
GANG_GROUP = "gang.scheduling.koordinator.sh/groups"
"""Of Koordinator: the gangs that start together, as a list in JSON."""
PREEMPTED = "PreemptionByScheduler"
"""Reason of DisruptionTarget on the victims of kube-scheduler, and on ours."""
READ_CONDITIONS = frozenset(("PodScheduled", "Ready", "DisruptionTarget", CHECKPOINTED))
NO_SPEC = RawPodSpec()
NO_BUDGET_STATUS = RawBudgetStatus()
Conditions = tuple[bool, bool, bool, bool, float]
"""(disrupted, preempted, unready, tried, checkpointed) of a pod."""
NO_CONDITIONS: Conditions = (False, False, True, False, 0.0)
OF_WORKLOAD = ".."
"""Between a Workload's name, its pod group's and a replica key: no name has two dots in a row."""


def reduce_pod(raw: RawPod) -> Pod:
    """Return the record of a typed v1.Pod."""
    meta = named(raw.metadata)
    spec = raw.spec or NO_SPEC
    status = raw.status
    namespace = sys.intern(meta.namespace or "default")
    labels = string_mapping(meta.labels, "metadata.labels")
    grace = spec.termination_grace_period_seconds
    phase, nominated, started, conditions = "Pending", "", 0.0, NO_CONDITIONS
    if status is not None:
        phase = sys.intern(status.phase or "Pending")
        nominated = sys.intern(status.nominated_node_name or "")
        started = moment(status.start_time, "status.startTime")
        if status.conditions:
            conditions = _conditions(status.conditions)
    disrupted, preempted, unready, tried, checkpointed = conditions
    deleting = moment(meta.deletion_timestamp, "metadata.deletionTimestamp")
    if deleting and meta.deletion_grace_period_seconds is not None:
        # DELETE may grant less than the pod asked for. What it grants beyond that ends with the
        # next DELETE that grants less, so it is not what the pod is entitled to.
        grace = min(30 if grace is None else grace, meta.deletion_grace_period_seconds)
    requests, shape = pod_requests(spec, status), pod_shape(spec, namespace, labels)
    if any(name.startswith(IMPLICIT_CLASS) for name, _ in requests):
        requests, shape = _by_device_class(requests, shape)
    # In the record's own order: by keyword this call alone takes a sixth of the decoding.
    return Pod(
        meta.uid or "",
        namespace,
        meta.name or "",
        sys.intern(spec.node_name or ""),
        phase,
        spec.priority or 0,
        spec.preemption_policy != "Never",
        labels,
        kept_annotations(meta.annotations, "metadata.annotations"),
        requests,
        shape,
        _pod_group(spec),
        controller_of(meta.owner_references, "metadata.ownerReferences"),
        moment(meta.creation_timestamp, "metadata.creationTimestamp"),
        started,
        deleting,
        30 if grace is None else grace,
        nominated,
        bool(spec.scheduling_gates),
        disrupted,
        preempted,
        unready,
        tried,
        checkpointed,
        version_of(meta),
        None,
        max(0, spec.active_deadline_seconds or 0),
        spec.restart_policy == "Always",
        sys.intern(named_text(spec.priority_class_name or "")),
    )


def _by_device_class(requests: Requests, shape: PodShape) -> tuple[Requests, PodShape]:
    """Return both with what a DeviceClass answers as something only kube-scheduler can judge.

    No node offers such a resource: DynamicResources makes a claim for it (KEP-5004).
    """
    asked = [
        f"{DEVICE_CLASS} {named_text(name.removeprefix(IMPLICIT_CLASS))} {amount}"
        for name, amount in requests
        if name.startswith(IMPLICIT_CLASS)
    ]
    rest = {name: amount for name, amount in requests if not name.startswith(IMPLICIT_CLASS)}
    return to_requests(rest), replace(shape, unmodelled=tuple(sorted((*shape.unmodelled, *asked))))


def _conditions(conditions: Iterable[RawCondition]) -> Conditions:
    disrupted = preempted = tried = False
    unready = True
    checkpointed = 0.0
    for condition in conditions:
        kind = condition.type
        if kind not in READ_CONDITIONS:
            continue
        if kind == "PodScheduled":
            tried = condition.status == "False"
        elif kind == "Ready":
            unready = condition.status != "True"
        elif kind == "DisruptionTarget":
            disrupted = condition.status == "True"
            preempted = disrupted and condition.reason == PREEMPTED
        elif condition.status == "True":
            checkpointed = max(
                moment(condition.last_transition_time, "status.conditions.lastTransitionTime"),
                moment(condition.last_probe_time, "status.conditions.lastProbeTime"),
            )
    return disrupted, preempted, unready, tried, checkpointed


def _pod_group(spec: RawPodSpec) -> str:
    group, workload = spec.scheduling_group, spec.workload_ref
    if group is not None:
        return sys.intern(named_text(group.pod_group_name or ""))
    if workload is not None and workload.name and workload.pod_group:
        parts = (workload.name, workload.pod_group, workload.pod_group_replica_key or "")
        return sys.intern(named_text(OF_WORKLOAD.join(parts).removesuffix(OF_WORKLOAD)))
    return ""


def reduce_node(raw: RawNode) -> Node:
    """Return the record of a typed v1.Node."""
    meta = named(raw.metadata)
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
        labels=string_mapping(meta.labels, "metadata.labels"),
        taints=taints,
        unschedulable=unschedulable,
        allocatable=to_requests(parse_amounts(allocatable, "status.allocatable")),
        version=version_of(meta),
    )


def reduce_priority_class(raw: RawPriorityClass) -> PriorityClass:
    """Return the record of a typed PriorityClass."""
    meta = named(raw.metadata)
    annotations = kept_annotations(meta.annotations, "metadata.annotations")
    preemptable_from, tolerates = toleration_of(raw.value, annotations)
    return PriorityClass(
        name=meta.name or "",
        value=raw.value,
        global_default=bool(raw.global_default),
        preempts=raw.preemption_policy != "Never",
        preemptable_from=preemptable_from,
        tolerates_seconds=tolerates,
        uid=meta.uid or "",
        version=version_of(meta),
    )


MOST_DISRUPTED = 2000
"""MaxDisruptedPodSize of the Eviction API."""


def reduce_budget(raw: RawBudget) -> DisruptionBudget:
    """Return the record of a typed PodDisruptionBudget; without a status nothing is allowed.

    Nor is anything while the status is of an older spec, or names too many evictions that its
    controller has not confirmed: the Eviction API answers 429 and 403 then (checkAndDecrement in
    pkg/registry/core/pod/storage/eviction.go).
    """
    meta = named(raw.metadata)
    try:
        chosen = kept_selector(raw.spec.selector) if raw.spec else None
    except InvalidInput as error:
        raise InvalidInput(f"spec.selector: {error}") from error
    status = raw.status or NO_BUDGET_STATUS
    always = raw.spec is not None and raw.spec.unhealthy_pod_eviction_policy == "AlwaysAllow"
    healthy, wanted = status.current_healthy or 0, status.desired_healthy or 0
    allowed = status.disruptions_allowed or 0
    observed = status.observed_generation or 0
    if observed < (meta.generation or 0) or len(status.disrupted_pods or ()) > MOST_DISRUPTED:
        allowed = 0
    return DisruptionBudget(
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        selector=chosen,
        allowed=max(0, allowed),
        unready_free=always or healthy >= wanted > 0,
        version=version_of(meta),
    )


def reduce_namespace(raw: RawNamespace) -> Namespace:
    """Return the record of a typed v1.Namespace."""
    meta = named(raw.metadata)
    return Namespace(
        name=sys.intern(meta.name or ""),
        uid=meta.uid or "",
        labels=string_mapping(meta.labels, "metadata.labels"),
        ending=bool(raw_bytes(meta.deletion_timestamp)),
        version=version_of(meta),
    )


def reduce_core_group(raw: RawPodGroup) -> GroupObject:
    """Return the record of a scheduling.k8s.io PodGroup, v1alpha2 to v1beta1.

    disruptionMode is "Pod" or "PodGroup" in v1alpha2, {single: {}} or {all: {}} after it;
    absent means single. KEP-4671, KEP-5710.
    """
    spec = raw.spec
    if spec is None:
        raise InvalidInput("spec: is missing")
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    return _group("core", raw.metadata, spec, gang.min_count if gang is not None else None)


def reduce_composite(raw: RawCompositePodGroup) -> GroupObject:
    """Return the record of a CompositePodGroup (v1alpha3): ``min_count`` is its minGroupCount."""
    spec = raw.spec
    if spec is None:
        raise InvalidInput("spec: is missing")
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    least = gang.min_group_count if gang is not None else None
    return _group(COMPOSITE, raw.metadata, spec, least)


def _group(
    source: str,
    metadata: RawMeta | None,
    spec: RawPodGroupSpec | RawCompositePodGroupSpec,
    least: int | None,
) -> GroupObject:
    meta = named(metadata)
    mode = spec.disruption_mode
    if mode is None or mode == "Pod" or (isinstance(mode, dict) and list(mode) == ["single"]):
        whole = False
    elif mode == "PodGroup" or (isinstance(mode, dict) and list(mode) == ["all"]):
        whole = True
    else:
        shown = mode if isinstance(mode, str) else sorted(mode)
        raise InvalidInput(f"spec.disruptionMode: {shown!r} is none of Pod, PodGroup, single, all")
    constraints = spec.scheduling_constraints
    topology = (constraints.topology if constraints is not None else None) or []
    return GroupObject(
        source=source,
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        min_count=least,
        disrupt_all=whole,
        priority=spec.priority,
        priority_class=named_text(spec.priority_class_name or ""),
        preempts=spec.preemption_policy != "Never",
        topology_key=named_text(topology[0].key) if topology else "",
        version=version_of(meta),
        of=named_text(spec.parent_composite_pod_group_name or ""),
        ending=bool(raw_bytes(meta.deletion_timestamp)),
    )


def member_group_of(source: str) -> Callable[[RawMemberGroup], GroupObject]:
    """Return how PodGroups with minMember of this source become records."""
    return partial(reduce_member_group, source)


def reduce_member_group(source: str, raw: RawMemberGroup) -> GroupObject:
    """Return the record of a PodGroup with minMember; without it one pod suffices."""
    meta = named(raw.metadata)
    said = quorum_of(source, raw.spec or RawMemberGroupSpec())
    budget, note = None, said.note
    if source == VOLCANO:
        budget, note = budget_of(kept_annotations(meta.annotations, "metadata.annotations"))
    return GroupObject(
        source=source,
        uid=meta.uid or "",
        namespace=sys.intern(meta.namespace or "default"),
        name=meta.name or "",
        min_count=said.min_count,
        version=version_of(meta),
        parts=said.parts,
        whole_from=said.whole_from,
        budget=budget,
        note=note,
        unkept=_gang_group(meta) if source == KOORDINATOR else "",
        ending=bool(raw_bytes(meta.deletion_timestamp)),
    )


def _gang_group(meta: RawMeta) -> str:
    """Say that the PodGroup starts with others, where its annotation lists it among others."""
    kept = kept_annotations(meta.annotations, "metadata.annotations")
    try:
        listed = set(msgspec.json.decode(kept.get(GANG_GROUP, "[]"), type=list[str]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    if len(listed) < 2 or f"{meta.namespace or 'default'}/{meta.name}" not in listed:
        return ""
    return f"annotation {GANG_GROUP} of its PodGroup is not supported: state it on the pods"
