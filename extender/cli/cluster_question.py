"""A question to the planner outside of a server: a cluster, a gang, and the answer to it.

Asked by ``plan`` of files and by ``what-if`` of a snapshot that a running server gave.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from extender.cli.interruptible import interruptible
from extender.gang.plan.assemble import Dump, assemble, restore
from extender.gang.plan.manifest import Manifest
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.gang.plan.what_if import added_gangs, only_gang, with_added
from extender.groups.pod_group import PodGroupDialect
from extender.groups.resolver import Resolver
from extender.groups.scheduling_plugins import SchedulingPluginsDialect
from extender.model.errors import InvalidInput
from extender.model.group_sources import OTHER_GROUPS
from extender.model.objects import (
    DEFAULT_SCHEDULER,
    DisruptionBudget,
    GangKey,
    GroupObject,
    Namespace,
    Node,
    Pod,
    PriorityClass,
)
from extender.model.plan import Code, Hold, Plan, Refusal
from extender.model.snapshot import EMPTY, Snapshot
from extender.model.texts import all_of
from extender.settings.cost_order import ORDERS
from extender.settings.settings import Settings

OBJECT_DIALECTS = {
    "core": PodGroupDialect.name,
    **{source: source for source in OTHER_GROUPS},
    "scheduling-plugins": SchedulingPluginsDialect.name,
}
"""GroupObject.source -> the dialect whose gangs such objects are."""

NOTHING = Manifest((), frozenset(), {}, ())


class ClusterQuestion(Struct, frozen=True):
    """A cluster to plan on, and what its gangs are."""

    snapshot: Snapshot
    settings: Settings
    holds: tuple[Hold, ...] = ()
    masks: Mapping[str, frozenset[str]] = EMPTY
    offered: Mapping[str, frozenset[str]] = EMPTY
    finished: Mapping[GangKey, Counter[str]] = EMPTY
    """Gang -> phase -> its members that have finished, where the input tells."""
    manifest: Manifest = NOTHING
    """What was added."""
    added: frozenset[GangKey] = frozenset()
    """Gangs with members from it."""


def of_records(records: Iterable[object], settings: Settings) -> ClusterQuestion:
    """Return the cluster that these records make up."""
    listed = list(records)
    member_key = Resolver(settings.groups).member_key
    finished: dict[GangKey, Counter[str]] = {}
    for record in listed:
        if isinstance(record, Pod) and record.finished:
            key = member_key(record)
            if key is not None:
                finished.setdefault(key, Counter())[record.phase] += 1
    return ClusterQuestion(_snapshot(listed, member_key), settings, finished=finished)


def of_dump(dump: Dump, settings: Settings | None) -> ClusterQuestion:
    """Return the cluster of a downloaded snapshot, with its own settings unless others are given.

    Raises InvalidInput for another format.
    """
    settings = settings or dump.settings
    snapshot = restore(dump, Resolver(settings.groups).member_key)
    return ClusterQuestion(snapshot, settings, dump.holds, dump.masks, dump.offered)


def with_manifest(question: ClusterQuestion, manifest: Manifest) -> ClusterQuestion:
    """Return the question with what a manifest adds. Raises InvalidInput, see with_added."""
    member_key = Resolver(question.settings.groups).member_key
    return replace(
        question,
        snapshot=with_added(question.snapshot, manifest, member_key),
        manifest=manifest,
        added=added_gangs(manifest, member_key),
    )


def ordered(question: ClusterQuestion, order: str) -> ClusterQuestion:
    """Return the question asked by another cost order. Raises InvalidInput for one unknown."""
    plan = question.settings.plan
    known = (*ORDERS, *plan.cost_orders)
    if order not in known:
        raise InvalidInput(f"--cost-order {order!r} does not exist (known: {', '.join(known)})")
    settings = replace(question.settings, plan=replace(plan, cost_order=order))
    return replace(question, settings=settings)


def _snapshot(records: Iterable[object], member_key: Callable[[Pod], GangKey | None]) -> Snapshot:
    by_type: dict[type, list[Any]] = {}
    for record in records:
        by_type.setdefault(type(record), []).append(record)
    pods: list[Pod] = by_type.get(Pod, [])
    # The newest moment the dump speaks of: the same file gives the same plan tomorrow.
    now = max((max(pod.created, pod.started) for pod in pods), default=0.0) or time.time()
    return assemble(
        member_key,
        nodes=by_type.get(Node, []),
        pods=pods,
        groups=by_type.get(GroupObject, []),
        priority_classes=by_type.get(PriorityClass, []),
        budgets=by_type.get(DisruptionBudget, []),
        namespaces={found.name: found.labels for found in by_type.get(Namespace, [])},
        ending=(found.name for found in by_type.get(Namespace, []) if found.ending),
        now=float(int(now)),
    )


def find_gang(name: str | None, question: ClusterQuestion) -> GangKey:
    """Return the one gang of a name, or without one the only gang that a manifest added.

    Gangs whose members have all finished and group objects without pods are found as well.
    Raises InvalidInput, listing what there is.
    """
    snapshot = question.snapshot
    living = sorted(snapshot.members)
    if name is None:
        return only_gang(question.added, question.manifest, "name one gang with --gang")
    empty = {
        GangKey(OBJECT_DIALECTS[source], namespace, group)
        for source, namespace, group in snapshot.groups
        if source in OBJECT_DIALECTS
    }
    ended = sorted((set(question.finished) | empty) - set(living))
    dialect, _, rest = name.rpartition(":")
    namespace, _, last = rest.rpartition("/")
    for keys in (living, ended):
        matching = [
            key
            for key in keys
            if key.name == last
            and (not namespace or key.namespace == namespace)
            and (not dialect or key.dialect == dialect)
        ]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise InvalidInput(f"several gangs are named {name!r}; there are: {_listed(matching)}")
    why = "".join(
        f"; {reason}"
        for (space, job), reason in question.manifest.independent.items()
        if job == last and (not namespace or space == namespace)
    )
    raise InvalidInput(f"no gang is named {name!r}; there are: {_listed(living)}{why}")


def _listed(keys: list[GangKey]) -> str:
    listed = ", ".join(str(key) for key in keys[:10]) or "none"
    return listed + (f" and {len(keys) - 10} more" if len(keys) > 10 else "")


def answer(
    question: ClusterQuestion, key: GangKey, seconds: float | None, priority: int | None = None
) -> Plan | Refusal:
    """Return the planner's answer; ``seconds`` None takes plan.seconds, 0 has no limit.

    With ``priority`` the gang is planned for as if it had that one, as what-if questions over gRPC.
    SIGTERM or SIGINT ends the search with the best plan so far.
    """
    snapshot, settings = question.snapshot, question.settings
    if key not in snapshot.members:
        return _without_members(question, key)
    resolver = Resolver(settings.groups)
    gang = resolver.resolve(key, snapshot)
    if priority is not None:
        gang = replace(gang, preemptor_priority=priority)
    planner = Planner(settings, resolver)
    limit = settings.plan.seconds if seconds is None else seconds
    return interruptible(
        lambda flag: planner.plan(
            GangQuestion(gang, snapshot, question.holds, question.masks, question.offered),
            deadline=time.monotonic() + limit if limit > 0 else None,
            cancel=flag,
        )
    )


def strangers(question: ClusterQuestion, key: GangKey) -> list[str]:
    """Return schedulers that waiting members name, where nothing says which ones ask us."""
    if question.settings.scheduler_names:
        return []
    members = question.snapshot.members.get(key, ())
    named = {pod.shape.scheduler for pod in members if not pod.node}
    return sorted(named - {DEFAULT_SCHEDULER})


def _without_members(question: ClusterQuestion, key: GangKey) -> Refusal:
    phases = question.finished.get(key)
    if phases:
        counts = ", ".join(f"{count} {phase}" for phase, count in sorted(phases.items()))
        ended = all_of(phases.total(), "member", "has", "have")
        message = f"{ended} finished ({counts}): no member needs a node"
        return Refusal(gang=key, code=Code.NOT_NEEDED, message=message)
    sources = {dialect: source for source, dialect in OBJECT_DIALECTS.items()}
    group = question.snapshot.groups[(sources[key.dialect], key.namespace, key.name)]
    wanted = 1 if group.min_count is None else group.min_count
    message = f"waits for members: 0 of {wanted} exist, nothing is evicted"
    return Refusal(gang=key, code=Code.INCOMPLETE, message=message)
