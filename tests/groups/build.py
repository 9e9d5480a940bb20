"""Small builders for the tests of this room."""

from __future__ import annotations

from collections.abc import Iterable

from extender.gang.plan.assemble import assemble
from extender.groups.resolver import Resolver
from extender.model.objects import GroupObject, Node, Owner, Pod, PriorityClass
from extender.model.snapshot import Snapshot
from extender.settings.settings import GroupSettings


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


def nodes_of(pods: Iterable[Pod]) -> list[Node]:
    """Return the nodes that pods are bound to."""
    return [Node(name) for name in sorted({pod.node for pod in pods if pod.node})]


def snapshot(
    pods: Iterable[Pod],
    groups: Iterable[GroupObject] = (),
    classes: Iterable[PriorityClass] = (),
    settings: GroupSettings | None = None,
) -> Snapshot:
    """Return a snapshot whose members index is filled as the cache fills it."""
    pods = list(pods)
    return assemble(
        Resolver(settings or GroupSettings()).member_key,
        nodes=nodes_of(pods),
        pods=pods,
        groups=groups,
        priority_classes=classes,
        now=0.0,
        generation=1,
    )


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
