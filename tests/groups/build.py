"""Small builders for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterable

from extender.groups.resolver import Resolver
from extender.model.objects import GangKey, GroupObject, Owner, Pod, PriorityClass
from extender.model.settings import GroupSettings
from extender.model.snapshot import Snapshot


def pod(
    name: str,
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    group: str = "",
    owner: Owner | None = None,
    priority: int = 0,
    preempts: bool = True,
    deleting: float = 0.0,
    namespace: str = "ns",
) -> Pod:
    return Pod(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        labels=labels or {},
        annotations=annotations or {},
        pod_group=group,
        owner=owner,
        priority=priority,
        preempts=preempts,
        deleting=deleting,
    )


def snapshot(
    pods: Iterable[Pod],
    groups: Iterable[GroupObject] = (),
    classes: Iterable[PriorityClass] = (),
    settings: GroupSettings | None = None,
) -> Snapshot:
    """Return a snapshot whose members index is filled as the cache fills it."""
    resolver = Resolver(settings or GroupSettings())
    members: dict[GangKey, list[Pod]] = {}
    for one in pods:
        key = resolver.member_key(one)
        if key is not None and not one.finished:
            members.setdefault(key, []).append(one)
    return Snapshot(
        generation=1,
        members={key: tuple(sorted(found, key=_order)) for key, found in members.items()},
        groups={(g.source, g.namespace, g.name): g for g in groups},
        priority_classes={c.name: c for c in classes},
    )


def _order(one: Pod) -> tuple[float, str]:
    return one.created, one.uid


def core(
    name: str = "g",
    *,
    min_count: int | None = 2,
    disrupt_all: bool = False,
    priority: int | None = None,
    priority_class: str = "",
    preempts: bool = True,
    topology_key: str = "",
    source: str = "core",
) -> GroupObject:
    return GroupObject(
        source=source,
        uid=f"uid-{name}",
        namespace="ns",
        name=name,
        min_count=min_count,
        disrupt_all=disrupt_all,
        priority=priority,
        priority_class=priority_class,
        preempts=preempts,
        topology_key=topology_key,
    )
