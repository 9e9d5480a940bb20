"""Snapshots from loose records, and the dump that replays a decision elsewhere.

The cache keeps its snapshots up to date by itself; this is for everything that
has no cache: the offline planner, a downloaded dump, tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from extender.groups.composite import keys_of, placed
from extender.groups.ended_members import counts_as_ended, slim
from extender.model.errors import InvalidInput
from extender.model.extended_resources import named_by, of_node, of_pod
from extender.model.group_sources import OPTIONAL
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.plan import Hold
from extender.model.snapshot import EMPTY, Snapshot, SparedPod
from extender.settings.settings import Settings

KIND = "PodgroupExtenderSnapshot"


class Dump(Struct, frozen=True, kw_only=True):
    """A snapshot with the seats held and the settings in force, as one JSON document.

    Restored and planned again it gives the same answer. ``format`` changes when
    an older reader would misunderstand it.
    """

    kind: str = KIND
    format: int = 1
    generation: int
    now: float
    server_version: str = ""
    settings: Settings
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    groups: tuple[GroupObject, ...]
    group_sources: tuple[str, ...] = ()
    priority_classes: tuple[PriorityClass, ...]
    budgets: tuple[DisruptionBudget, ...]
    namespaces: dict[str, dict[str, str]]
    ending: frozenset[str] = frozenset()
    """Names of namespaces that are being deleted."""
    holds: tuple[Hold, ...] = ()
    masks: dict[str, frozenset[str]] = {}
    """Member uid -> nodes its class was kept off in the decision dumped."""
    offered: dict[str, frozenset[str]] = {}
    """Member uid -> nodes kube-scheduler accepted for it at that decision."""
    unevictable: dict[str, str] = {}
    """Pod uid -> why its eviction was refused lately."""
    stayed: dict[str, str] = {}
    """Namespace -> why nobody of it was counted on."""
    in_the_way: dict[str, dict[str, tuple[str, ...]]] = {}
    """As in Snapshot."""
    evicted_from: tuple[str, ...] = ()
    """As in Snapshot, sorted."""
    spared: dict[str, SparedPod] = {}
    """Pod uid -> what kept it from being evicted again."""
    unreadable: tuple[tuple[str, str, str, str], ...] = ()
    """Source, namespace and name of objects that could not be decoded, and why."""


def assemble(
    member_key: Callable[[Pod], GangKey | None],
    *,
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    groups: Iterable[GroupObject] = (),
    group_sources: Iterable[str] = (),
    priority_classes: Iterable[PriorityClass] = (),
    budgets: Iterable[DisruptionBudget] = (),
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    ending: Iterable[str] = (),
    now: float,
    generation: int = 0,
    server_version: str = "",
    unevictable: Mapping[str, str] = EMPTY,
    stayed: Mapping[str, str] = EMPTY,
    in_the_way: Mapping[str, Mapping[str, tuple[str, ...]]] = EMPTY,
    evicted_from: frozenset[str] = frozenset(),
    spared: Mapping[str, SparedPod] = EMPTY,
    unreadable: Mapping[tuple[str, str, str], str] = EMPTY,
) -> Snapshot:
    """Return the snapshot a cache would hand out for these records.

    Optional sources of which there is a group count as read, like ``group_sources``.
    """
    named = {(group.source, group.namespace, group.name): group for group in groups}
    bound: dict[str, list[Pod]] = {}
    pending: dict[str, Pod] = {}
    members: dict[GangKey, list[Pod]] = {}
    ended: dict[GangKey, list[Pod]] = {}
    devices = named_by(named.values())
    for pod in placed(pods, named):
        pod = of_pod(pod, devices)
        if pod.finished:
            key = member_key(pod)
            if key is not None and counts_as_ended(pod):
                ended.setdefault(key, []).append(slim(pod))
            continue
        if pod.node:
            bound.setdefault(pod.node, []).append(pod)
        else:
            pending[pod.uid] = pod
        for key in keys_of(member_key(pod), pod):
            members.setdefault(key, []).append(pod)
    return Snapshot(
        generation=generation,
        now=now,
        nodes={node.name: of_node(node, devices) for node in nodes},
        bound={
            name: tuple(sorted(there, key=lambda pod: pod.uid)) for name, there in bound.items()
        },
        pending=pending,
        members=_by_age(members),
        ended=_by_age(ended),
        groups=named,
        group_sources=OPTIONAL & {*group_sources, *(source for source, _, _ in named)},
        unreadable=unreadable,
        priority_classes={found.name: found for found in priority_classes},
        budgets=tuple(sorted(budgets, key=lambda budget: (budget.namespace, budget.name))),
        namespaces=namespaces or {},
        ending=frozenset(ending),
        unevictable=unevictable,
        stayed=stayed,
        in_the_way=in_the_way,
        evicted_from=evicted_from,
        spared=spared,
        server_version=server_version,
    )


def _by_age(found: Mapping[GangKey, list[Pod]]) -> dict[GangKey, tuple[Pod, ...]]:
    return {
        key: tuple(sorted(pods, key=lambda pod: (pod.created, pod.uid)))
        for key, pods in found.items()
    }


def dump(
    snapshot: Snapshot,
    holds: Iterable[Hold],
    settings: Settings,
    masks: Mapping[str, frozenset[str]] | None = None,
    offered: Mapping[str, frozenset[str]] | None = None,
) -> Dump:
    """Return the document that replays decisions made on this snapshot."""
    return Dump(
        generation=snapshot.generation,
        now=snapshot.now,
        server_version=snapshot.server_version,
        settings=settings,
        nodes=tuple(snapshot.nodes[name] for name in sorted(snapshot.nodes)),
        pods=(
            *(pod for name in sorted(snapshot.bound) for pod in snapshot.bound[name]),
            *(snapshot.pending[uid] for uid in sorted(snapshot.pending)),
            *(pod for key in sorted(snapshot.ended) for pod in snapshot.ended[key]),
        ),
        groups=tuple(snapshot.groups[key] for key in sorted(snapshot.groups)),
        group_sources=tuple(sorted(snapshot.group_sources)),
        priority_classes=tuple(
            snapshot.priority_classes[name] for name in sorted(snapshot.priority_classes)
        ),
        budgets=snapshot.budgets,
        namespaces={name: dict(labels) for name, labels in sorted(snapshot.namespaces.items())},
        ending=snapshot.ending,
        holds=tuple(holds),
        masks=dict(masks or {}),
        offered=dict(offered or {}),
        unevictable=dict(snapshot.unevictable),
        stayed=dict(snapshot.stayed),
        in_the_way={uid: dict(found) for uid, found in snapshot.in_the_way.items()},
        evicted_from=tuple(sorted(snapshot.evicted_from)),
        spared=dict(snapshot.spared),
        unreadable=tuple((*key, why) for key, why in sorted(snapshot.unreadable.items())),
    )


def restore(document: Dump, member_key: Callable[[Pod], GangKey | None]) -> Snapshot:
    """Return the snapshot a dump was made of. Raises InvalidInput for another format."""
    if document.kind != KIND or document.format != 1:
        raise InvalidInput(
            f"a {document.kind} of format {document.format} cannot be read, only {KIND} of format 1"
        )
    return assemble(
        member_key,
        nodes=document.nodes,
        pods=document.pods,
        groups=document.groups,
        group_sources=document.group_sources,
        priority_classes=document.priority_classes,
        budgets=document.budgets,
        namespaces=document.namespaces,
        ending=document.ending,
        now=document.now,
        server_version=document.server_version,
        generation=document.generation,
        unevictable=document.unevictable,
        stayed=document.stayed,
        in_the_way=document.in_the_way,
        evicted_from=frozenset(document.evicted_from),
        spared=document.spared,
        unreadable={(source, at, name): why for source, at, name, why in document.unreadable},
    )
