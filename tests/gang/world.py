"""Builders for clusters in a few words: nodes, pods, gangs, snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.gang import Gang
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    Node,
    Pod,
    PodShape,
)
from extender.model.plan import Plan, Proof, Refusal, Victim
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings

NOW = 1_800_000_000.0


def node(name: str, cpu: int = 4, labels: dict[str, str] | None = None, **extra: int) -> Node:
    """A node with ``cpu`` whole cores, room for 110 pods, and extended resources."""
    amounts = {"cpu": cpu * 1000, "pods": 110, "memory": 2**36, **extra}
    return Node(
        name=name,
        uid=f"node-{name}",
        labels={"kubernetes.io/hostname": name, **(labels or {})},
        allocatable=tuple(sorted(amounts.items())),
    )


def pod(
    name: str,
    *,
    cpu: float = 3,
    on: str = "",
    priority: int = 0,
    group: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    namespace: str = "default",
    started: float = NOW - 100,
    deleting: float = 0.0,
    preempts: bool = True,
    grace: int = 30,
    shape: PodShape | None = None,
    tried: bool = False,
) -> Pod:
    """A pod asking for ``cpu`` cores; bound when ``on`` names a node."""
    return Pod(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        node=on,
        phase="Running" if on else "Pending",
        priority=priority,
        preempts=preempts,
        labels=labels or {},
        annotations=annotations or {},
        requests=(("cpu", int(cpu * 1000)), ("pods", 1)),
        pod_group=group,
        created=NOW - 200,
        started=started if on else 0.0,
        deleting=deleting,
        grace=grace,
        shape=shape or PodShape(),
        tried=tried,
    )


def group(
    name: str,
    min_count: int | None = 4,
    *,
    whole: bool = True,
    priority: int | None = None,
    namespace: str = "default",
    topology_key: str = "",
) -> GroupObject:
    """A core PodGroup."""
    return GroupObject(
        source="core",
        uid=f"group-{name}",
        namespace=namespace,
        name=name,
        min_count=min_count,
        disrupt_all=whole,
        priority=priority,
        topology_key=topology_key,
    )


def snapshot(
    nodes: Iterable[Node],
    pods: Iterable[Pod],
    groups: Iterable[GroupObject] = (),
    *,
    settings: Settings | None = None,
    budgets: Sequence[DisruptionBudget] = (),
    generation: int = 1,
    now: float = NOW,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> Snapshot:
    """What the cache would hand out for these objects."""
    return assemble(
        Resolver((settings or Settings()).groups).member_key,
        nodes=nodes,
        pods=pods,
        groups=groups,
        budgets=budgets,
        namespaces=namespaces or {"default": {}},
        now=now,
        generation=generation,
    )


def gang_key(name: str, namespace: str = "default") -> GangKey:
    """The key of a core PodGroup's gang."""
    return GangKey("pod-group", namespace, name)


def bare_plan(gang: GangKey, victims: Iterable[Victim] = ()) -> Plan:
    """A plan of priority 9 that says nothing more."""
    return Plan(
        gang=gang,
        priority=9,
        seats=(),
        victims=tuple(victims),
        waits_for=(),
        costs=(),
        proof=Proof.OPTIMAL,
        generation=1,
    )


def plan_for(state: Snapshot, name: str, settings: Settings | None = None) -> Plan | Refusal:
    """Resolve the core PodGroup ``name`` and plan for it."""
    settings = settings or Settings()
    resolver = Resolver(settings.groups)
    gang: Gang = resolver.resolve(gang_key(name), state)
    return Planner(settings, resolver).plan(GangQuestion(gang, state))


def evicted(plan: Plan | Refusal) -> set[str]:
    """The names of a plan's victims; fails on a refusal."""
    assert isinstance(plan, Plan), plan
    return {victim.name for victim in plan.victims}


def seats(plan: Plan | Refusal) -> dict[str, str]:
    """Member name -> node; fails on a refusal."""
    assert isinstance(plan, Plan), plan
    return {seat.name: seat.node for seat in plan.seats}
