"""The cluster at one moment, as every decision reads it. Immutable; has a generation."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import compress
from operator import is_not
from types import MappingProxyType
from typing import Any, TypeVar

from msgspec import Struct

from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    Node,
    Pod,
    PriorityClass,
)

Key = TypeVar("Key")
EMPTY: Mapping[Any, Any] = MappingProxyType({})


class SparedPod(Struct, frozen=True, gc=False):
    """A pod that is not evicted again yet."""

    below: int
    """By preemptors of a priority below this."""
    until: float
    """Wall clock."""
    why: str
    gang: bool = False
    """Its gang goes whole or not at all, so the gang is spared with it."""


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
    ended: Mapping[GangKey, tuple[Pod, ...]] = EMPTY
    """Gang key -> its pods that have succeeded and still exist, by (created, uid)."""
    groups: Mapping[tuple[str, str, str], GroupObject] = EMPTY
    """(source, namespace, name) -> PodGroup object."""
    group_sources: frozenset[str] = frozenset()
    """Optional sources whose PodGroups are read; those of the others may exist unseen."""
    unreadable: Mapping[tuple[str, str, str], str] = EMPTY
    """As in ``groups``, but objects that exist and cannot be decoded -> why. Of a source of which
    there are too many to be listed, (source, "", "") is there too."""
    priority_classes: Mapping[str, PriorityClass] = EMPTY
    budgets: tuple[DisruptionBudget, ...] = ()
    """By (namespace, name)."""
    namespaces: Mapping[str, Mapping[str, str]] = EMPTY
    """Namespace name -> its labels."""
    ending: frozenset[str] = frozenset()
    """Names of namespaces that are being deleted."""
    unevictable: Mapping[str, str] = EMPTY
    """Pod uid -> why the API server lately refused to evict it for good."""
    stayed: Mapping[str, str] = EMPTY
    """Namespace -> why nobody of it is counted on: its pods did not go for the gang that asks."""
    in_the_way: Mapping[str, Mapping[str, tuple[str, ...]]] = EMPTY
    """Member uid -> node -> uids of the pods with volumes that kube-scheduler would evict there for
    members of its kind: they have to go (extender.gang.plan.volumes)."""
    evicted_from: frozenset[str] = frozenset()
    """Nodes that pods have gone from, or are going from, for the gang that asks: its plan takes the
    place of another."""
    spared: Mapping[str, SparedPod] = EMPTY
    """Pod uid -> what keeps it from being evicted again."""
    server_version: str = ""
    """What kube-apiserver calls itself ("v1.36.3"), "" when unknown. The filters follow
    known faults of that release's scheduler."""


def differing(before: Mapping[Key, object], after: Mapping[Key, object]) -> set[Key]:
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
