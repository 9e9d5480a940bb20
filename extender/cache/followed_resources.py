"""The resources that are followed: where they are served and how they are decoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from extender.cache.nesting import patient
from extender.decode.api_groups import RawMemberGroup, RawPodGroup
from extender.decode.api_objects import (
    RawBudget,
    RawMeta,
    RawNamespace,
    RawNode,
    RawPod,
    RawPriorityClass,
)
from extender.decode.from_api import (
    member_group_of,
    reduce_budget,
    reduce_core_group,
    reduce_namespace,
    reduce_node,
    reduce_pod,
    reduce_priority_class,
)
from extender.decode.owners import OWNER_SHAPES
from extender.model.objects import (
    DisruptionBudget,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.owner_kinds import OTHER_KINDS, PARTLY_DONE

NOT_FAILED = "status.phase!=Failed"
"""Pods that have failed hold nothing; nor do those that have succeeded, but they count for their
gang's size (extender.cache.ended_pods)."""


class HasMeta(Protocol):
    """Every typed API object."""

    metadata: RawMeta | None


Typed = TypeVar("Typed", bound=HasMeta)
Row = TypeVar("Row")


class WatchEvent(Struct, Generic[Typed], gc=False):
    """A watch event with its object decoded in the same pass."""

    type: str
    object: Typed


class LooseEvent(Struct, gc=False):
    """A watch event whose object is not what was expected."""

    type: str
    object: Raw


class ListMeta(Struct, gc=False, rename="camel"):
    """metav1.ListMeta."""

    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class ListPage(Struct, Generic[Typed], gc=False):
    """One page of a list."""

    metadata: ListMeta
    items: list[Typed] | None = None


class FollowedResource(Generic[Row]):
    """One followed resource: a path, a filter and the way from JSON to records."""

    def __init__(
        self,
        name: str,
        kind: str,
        path: str,
        shape: type[Typed],
        reduce: Callable[[Typed], Row],
        field_selector: str = "",
        label_selector: str = "",
        *,
        spares_others: bool = False,
    ) -> None:
        """``spares_others``: an object that cannot be read is left out where it changes, and the
        others are read on; else everything is read again, since the state held may be wrong."""
        self.name = name
        self.kind = kind
        self.path = path
        self.spares_others = spares_others
        selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
        self.params = {name: text for name, text in selectors.items() if text}
        self.reduce: Callable[[Any], Row] = reduce
        # mypy cannot follow a type held in a variable into a subscription.
        generic_event: Any = WatchEvent
        generic_page: Any = ListPage
        self.decode_event: Callable[[bytes], WatchEvent[Any]] = patient(
            msgspec.json.Decoder(generic_event[shape]).decode
        )
        self.decode_page: Callable[[bytes], ListPage[Any]] = patient(
            msgspec.json.Decoder(generic_page[shape]).decode
        )
        self.decode_item: Callable[[Raw], Any] = patient(msgspec.json.Decoder(shape).decode)

    def kept(self, row: Row) -> bool:
        """Whether the object is of use as it is now; else it is as if it were not there."""
        return True


class PartlyDoneJobs(FollowedResource[GroupObject]):
    """Jobs of which some pods are done, without those that want no others."""

    def kept(self, row: GroupObject) -> bool:
        """Whether pods of it are there or come still: no gang waits for one of an ended Job."""
        return row.done > 0 and (row.more > 0 or any(part.each for part in row.parts))


def pods() -> FollowedResource[Pod]:
    """Return the pods of all namespaces that have not failed."""
    return FollowedResource("pods", "Pod", "/api/v1/pods", RawPod, reduce_pod, NOT_FAILED)


def nodes() -> FollowedResource[Node]:
    """Return the nodes."""
    return FollowedResource("nodes", "Node", "/api/v1/nodes", RawNode, reduce_node)


def namespaces() -> FollowedResource[Namespace]:
    """Return the namespaces."""
    return FollowedResource(
        "namespaces", "Namespace", "/api/v1/namespaces", RawNamespace, reduce_namespace
    )


def budgets() -> FollowedResource[DisruptionBudget]:
    """Return the PodDisruptionBudgets of all namespaces."""
    return FollowedResource(
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        "/apis/policy/v1/poddisruptionbudgets",
        RawBudget,
        reduce_budget,
    )


def priority_classes() -> FollowedResource[PriorityClass]:
    """Return the PriorityClasses."""
    return FollowedResource(
        "priorityclasses",
        "PriorityClass",
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        RawPriorityClass,
        reduce_priority_class,
    )


def groups(source: str, path: str, *, all_jobs: bool = False) -> FollowedResource[GroupObject]:
    """Return the PodGroups of one API group, or the owners of one kind, served at ``path``.

    ``all_jobs``: Jobs that belong to no JobSet as well.
    """
    if source == "core":
        return FollowedResource(
            "podgroups-core", "PodGroup", path, RawPodGroup, reduce_core_group, spares_others=True
        )
    if source in OTHER_KINDS:
        kind = OTHER_KINDS[source]
        shape, reduce_owner = OWNER_SHAPES[source]
        partly = source == PARTLY_DONE
        return (PartlyDoneJobs if partly else FollowedResource)(
            f"{kind.plural}.{kind.group}{' partly done' if partly else ''}",
            kind.kind,
            path,
            shape,
            reduce_owner,
            field_selector=kind.fields,
            label_selector="" if all_jobs else kind.selector,
            spares_others=True,
        )
    reduce = member_group_of(source)
    return FollowedResource(
        f"podgroups-{source}", "PodGroup", path, RawMemberGroup, reduce, spares_others=True
    )
