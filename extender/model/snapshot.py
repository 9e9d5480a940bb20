"""The cluster at one moment, as every decision reads it. Immutable; has a generation."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import compress
from operator import is_not
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    Node,
    Pod,
    PriorityClass,
)

EMPTY: Mapping[Any, Any] = MappingProxyType({})


class Columns(Struct, frozen=True):
    """Amounts per resource and node as int64 arrays ('q'), ready for the search. Read-only.

    Slots are stable while a node exists and reused after it; a slot without a node
    name in ``slots`` is garbage. Shapes: R resources, S slots.
    """

    resources: tuple[str, ...]
    """(R,) names; order of first appearance."""
    slots: Mapping[str, int]
    """Node name -> slot. Also of nodes that only pods name: those have nothing allocatable."""
    allocatable: tuple[array[int], ...]
    """R arrays of (S,)."""
    used: tuple[array[int], ...]
    """R arrays of (S,): requests of the non-finished pods on the node."""


class Snapshot(Struct, frozen=True):
    """Everything the pure rooms may know. Two equal snapshots give equal plans."""

    generation: int
    now: float = 0.0
    """Wall clock when it was taken, in whole seconds; the pure rooms have no clock."""
    nodes: Mapping[str, Node] = EMPTY
    bound: Mapping[str, tuple[Pod, ...]] = EMPTY
    """Node name -> non-finished pods on it (terminating ones included), by uid."""
    pending: Mapping[str, Pod] = EMPTY
    """Pod uid -> non-finished pod without a node."""
    members: Mapping[GangKey, tuple[Pod, ...]] = EMPTY
    """Gang key -> its non-finished pods, by (created, uid)."""
    groups: Mapping[tuple[str, str, str], GroupObject] = EMPTY
    """(source, namespace, name) -> PodGroup object."""
    priority_classes: Mapping[str, PriorityClass] = EMPTY
    budgets: tuple[DisruptionBudget, ...] = ()
    """By (namespace, name)."""
    namespaces: Mapping[str, Mapping[str, str]] = EMPTY
    """Namespace name -> its labels."""
    server_version: str = ""
    """What kube-apiserver calls itself ("v1.36.3"), "" when unknown. The filters follow
    known faults of that release's scheduler."""
    columns: Columns | None = None
    """The same amounts as ``nodes`` and ``bound`` hold, kept up to date per event; None
    when the snapshot does not come from a cache."""


def differing(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """Return the keys that came, went, or stand for another object than before.

    Snapshots share what did not change, so identity is enough; that they mostly have
    the same keys in the same order makes it quick for many thousands.
    """
    if before is after:
        return set()
    if len(before) == len(after) and list(before) == list(after):
        return set(compress(after, map(is_not, after.values(), before.values())))
    found = {key for key, value in after.items() if before.get(key) is not value}
    return found | (before.keys() - after.keys())
