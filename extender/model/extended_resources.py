"""Extended resources that a DeviceClass names, where only kube-scheduler knows what a node has.

A node that offers such a resource itself has a device plugin, and its amount counts. On any other
node DynamicResources allocates devices for it (KEP-5004; shouldDelegateResourceToDRA in
pkg/scheduler/framework/plugins/noderesources of 1.37). So the node offers an amount that nobody
counts, and a pod that asks for the resource uses only nodes that kube-scheduler has named for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from extender.model.objects import EXTENDED_RESOURCE, GroupObject, Node, Pod, Requests
from extender.model.owner_kinds import DEVICE_CLASS_SOURCE

NOT_COUNTED = 2**40 - 1
"""What a node offers of a resource for which kube-scheduler allocates devices there."""
NONE: frozenset[str] = frozenset()
KINDS = ("volumes", "devices")
"""Of PodShape.limited: those that are no resource's name."""


def named_by(objects: Iterable[GroupObject]) -> frozenset[str]:
    """Return the extended resources that DeviceClasses among ``objects`` name."""
    return frozenset(each.of for each in objects if each.source == DEVICE_CLASS_SOURCE and each.of)


def of_node(node: Node, names: frozenset[str]) -> Node:
    """Return the node as it is where DeviceClasses name these resources."""
    offered = counted(node.allocatable)
    lacking = names.difference(name for name, amount in offered if amount)
    if lacking:
        offered = tuple(sorted({**dict(offered), **dict.fromkeys(lacking, NOT_COUNTED)}.items()))
    return node if offered == node.allocatable else replace(node, allocatable=offered)


def of_pod(pod: Pod, names: frozenset[str]) -> Pod:
    """Return the pod as it is where DeviceClasses name these resources; one that has a node stays
    as it is."""
    if pod.node or not (names or pod.shape.unmodelled):
        return pod
    told = [each for each in pod.shape.unmodelled if each.partition(" ")[0] != EXTENDED_RESOURCE]
    told += [
        f"{EXTENDED_RESOURCE} {name} {amount}" for name, amount in pod.requests if name in names
    ]
    unmodelled = tuple(sorted(told))
    if unmodelled == pod.shape.unmodelled:
        return pod
    return replace(pod, shape=replace(pod.shape, unmodelled=unmodelled))


def counted(offered: Requests) -> Requests:
    """Return amounts without those that nobody counts."""
    if not any(amount == NOT_COUNTED for _, amount in offered):
        return offered
    return tuple(each for each in offered if each[1] != NOT_COUNTED)


def limited_on(node: Node | None, needs: Iterable[str]) -> frozenset[str]:
    """Return of what a pod needs (PodShape.limited) what is limited on the node: "volumes" and
    "devices". None is a node that is not known."""
    offered = {} if node is None else dict(node.allocatable)
    return frozenset(
        each if each in KINDS else "devices"
        for each in needs
        if each in KINDS or offered.get(each, NOT_COUNTED) == NOT_COUNTED
    )


def limited_for_both(
    node: Node | None, some: Iterable[str], others: Iterable[str]
) -> frozenset[str]:
    """Return what is limited on the node of what two pods need (PodShape.limited)."""
    return limited_on(node, some) & limited_on(node, others)


def takes_devices(pod: Pod, node: Node) -> bool:
    """Whether devices are allocated on the node for a pod, which may be there already."""
    if asked_of_devices(pod.shape.devices, node):
        return True
    offered = dict(node.allocatable)
    return any(offered.get(name) == NOT_COUNTED for name, _ in pod.requests)


def asked_of_devices(claimed: Iterable[str], node: Node) -> bool:
    """Whether devices are allocated on the node for a pod that claims these (PodShape.devices): by
    a claim, or by a resource that the node does not offer itself."""
    kinds = [kind.split(" ") for kind in claimed]
    offered = dict(node.allocatable) if kinds else {}
    return any(
        kind[0] != EXTENDED_RESOURCE or offered.get(kind[1], NOT_COUNTED) == NOT_COUNTED
        for kind in kinds
    )
