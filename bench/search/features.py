"""What each feature costs on a large cluster: ``python -m bench.search.features``.

The clusters are those of bench/search/large.py (traces; 5,000 nodes, small CPU pods added), here
with a rack (32 nodes) and a zone (ten) as labels. On the same cluster a gang of 64 members of 8
GPUs asks again and again, each time with one more rule, or with one more rule on the pods
that run. Between two plans 20 nodes change and a second passes (bench/inputs/drift.py).

A line says the CPU time of the whole plan, its victims and how many plans are proved, and
the same for members of 1 GPU, which share nodes.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from bench.inputs.drift import drift
from bench.inputs.mix import URGENT, MixSettings, mix
from bench.inputs.state import GPU, NAMESPACE, NOW, Amounts, State, gang_of
from bench.report import machine, percentile, table, write_section
from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    DisruptionBudget,
    GangKey,
    GroupObject,
    LabelSelector,
    Node,
    Pod,
    PodAffinityTerm,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Hold, Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.settings.settings import PlanSettings, Settings

RACK, ZONE = "topology.kubernetes.io/rack", "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NODES_A_RACK, ZONES = 32, 10
CHANGES = 20
OURS = LabelSelector((Requirement("app", "In", ("urgent",)),))
PREFERRED = "podgroup-extender.io/preferred-topology"


class World(Struct, frozen=True, kw_only=True):
    """A cluster and the gang that wants in, as records."""

    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    """Those that run."""
    groups: tuple[GroupObject, ...]
    members: tuple[Pod, ...]
    group: GroupObject
    budgets: tuple[DisruptionBudget, ...] = ()
    held: int = 0
    """Seats of another gang of the same priority, one a node."""
    plan: PlanSettings = PlanSettings()

    def snapshot(self, resolver: Resolver) -> Snapshot:
        """As a cache would hand it out."""
        return assemble(
            resolver.member_key,
            nodes=self.nodes,
            pods=(*self.pods, *self.members),
            groups=(*self.groups, self.group),
            budgets=self.budgets,
            namespaces={NAMESPACE: {}},
            now=NOW,
            generation=1,
        )

    def shaped(self, shape: PodShape, **more: Any) -> World:
        """The same with another shape of the members."""
        return replace(self, members=tuple(replace(p, shape=shape, **more) for p in self.members))


Feature = Callable[[World], World]


def plain(world: World) -> World:
    """Nothing more."""
    return world


def one_a_node(world: World) -> World:
    """Members refuse each other's node."""
    return world.shaped(PodShape(anti_affinity=(PodAffinityTerm(HOST, OURS, (NAMESPACE,)),)))


def one_zone(world: World) -> World:
    """The group requires one zone."""
    return replace(world, group=replace(world.group, topology_key=ZONE))


def one_rack(world: World) -> World:
    """The group requires one rack; a quarter of the members, for a rack has 32 nodes."""
    few = len(world.members) // 4
    group = replace(world.group, topology_key=RACK, min_count=few)
    return replace(world, group=group, members=world.members[:few])


def zone_wished(world: World) -> World:
    """One zone is preferred."""
    return world.shaped(PodShape(), annotations={PREFERRED: ZONE})


def rack_wished(world: World) -> World:
    """One rack is preferred."""
    return world.shaped(PodShape(), annotations={PREFERRED: RACK})


def near_each_other(world: World) -> World:
    """Members want each other's zone (affinity)."""
    return world.shaped(PodShape(affinity=(PodAffinityTerm(ZONE, OURS, (NAMESPACE,)),)))


def over_zones(world: World) -> World:
    """Spread evenly over the zones."""
    return world.shaped(PodShape(spread=(SpreadConstraint(ZONE, 1, OURS),)))


def over_nodes(world: World) -> World:
    """Spread evenly over the nodes."""
    return world.shaped(PodShape(spread=(SpreadConstraint(HOST, 1, OURS),)))


def leader(world: World) -> World:
    """One member asks for half a node's CPU and no GPU, from among nodes of any kind."""
    first = replace(world.members[0], requests=(("cpu", 32_000), ("memory", 2**36), ("pods", 1)))
    return replace(world, members=(first, *world.members[1:]))


def three_kinds(world: World) -> World:
    """Three requests among the members."""
    changed = []
    for i, pod in enumerate(world.members):
        amounts = dict(pod.requests)
        amounts["cpu"] = max(1000, amounts["cpu"] - 1000 * (i % 3))
        changed.append(replace(pod, requests=tuple(sorted(amounts.items()))))
    return replace(world, members=tuple(changed))


def elastic(world: World) -> World:
    """Three quarters of the members suffice."""
    return replace(world, group=replace(world.group, min_count=3 * len(world.members) // 4))


def pod_by_pod(world: World) -> World:
    """Running gangs have a quarter of surplus and are disrupted pod by pod."""
    groups = tuple(
        replace(group, disrupt_all=False, min_count=max(1, 3 * (group.min_count or 1) // 4))
        for group in world.groups
    )
    return replace(world, groups=groups)


def budgets(world: World) -> World:
    """Every pod that is no filler has a label of one of 200 applications, each with a budget."""
    pods = tuple(
        pod if pod.name.startswith("filler") else replace(pod, labels={"app": f"a{i % 200}"})
        for i, pod in enumerate(world.pods)
    )
    made = tuple(
        DisruptionBudget(
            f"b{i}",
            NAMESPACE,
            f"b{i}",
            LabelSelector((Requirement("app", "In", (f"a{i}",)),)),
            i % 3,
        )
        for i in range(200)
    )
    return replace(world, pods=pods, budgets=made)


def terminating(world: World) -> World:
    """One pod in twenty is on its way out."""
    pods = tuple(
        replace(pod, deleting=NOW + 20, grace=30) if i % 20 == 0 else pod
        for i, pod in enumerate(world.pods)
    )
    return replace(world, pods=pods)


def held(world: World) -> World:
    """A gang of the same priority holds 200 seats."""
    return replace(world, held=200)


def against_others(world: World) -> World:
    """One running pod in fifty refuses the members' node, and the members theirs."""
    theirs = LabelSelector((Requirement("app", "In", ("loner",)),))
    refuses = PodShape(anti_affinity=(PodAffinityTerm(HOST, OURS, (NAMESPACE,)),))
    pods = tuple(
        replace(pod, labels={"app": "loner"}, shape=refuses) if i % 50 == 0 else pod
        for i, pod in enumerate(world.pods)
    )
    shape = PodShape(anti_affinity=(PodAffinityTerm(HOST, theirs, (NAMESPACE,)),))
    return replace(world, pods=pods).shaped(shape)


def half_the_nodes(world: World) -> World:
    """A node selector that every second node meets."""
    nodes = tuple(
        replace(node, labels={**node.labels, "half": str(i % 2)})
        for i, node in enumerate(world.nodes)
    )
    return replace(world, nodes=nodes).shaped(PodShape(node_selector=(("half", "1"),)))


def ordered(name: str) -> Feature:
    """Another order of the cost levels."""

    def chosen(world: World) -> World:
        return replace(world, plan=PlanSettings(cost_order=name))

    chosen.__doc__ = f"Cost order {name}."
    return chosen


FEATURES: tuple[Feature, ...] = (
    plain, one_a_node, half_the_nodes, leader, three_kinds, elastic, pod_by_pod, budgets,
    terminating, held, against_others, one_rack, one_zone, near_each_other, rack_wished,
    zone_wished, over_nodes, over_zones, ordered("fewest-pods"), ordered("fewest-gangs"),
    ordered("gangs-by-priority"),
)  # fmt: skip
NAMES = (
    "plain", "anti-affinity, one a node", "node selector, every second node", "leader and workers",
    "three kinds of members", "three quarters suffice", "running gangs go pod by pod",
    "200 budgets", "one pod in 20 terminates", "200 seats held by others",
    "anti-affinity with other pods", "one rack required (16 members)", "one zone required",
    "affinity among members, zone", "one rack preferred", "one zone preferred",
    "spread over nodes", "spread over zones", "fewest pods first", "fewest gangs first",
    "gangs by priority",
)  # fmt: skip


def world_of(state: State, gpus: int) -> World:
    """The cluster, with a gang of members of so many GPUs."""
    nodes = len(state.nodes)
    if gpus != 8:
        wants = Amounts(8000 * gpus, 32 * 1024 * gpus, gpus)
        group, pods = gang_of("urgent", len(state.members), wants, URGENT)
        state = replace(state, gang=group, members=pods)
    resolver = Resolver(Settings().groups)
    snapshot = state.snapshot(resolver)
    labelled = tuple(
        replace(
            node,
            labels={
                **node.labels,
                RACK: f"r{i // NODES_A_RACK}",
                ZONE: f"z{i * ZONES // nodes}",
            },
        )
        for i, node in enumerate(snapshot.nodes.values())
    )
    pending = sorted(snapshot.pending.values(), key=lambda pod: pod.uid)
    groups = {group.name: group for group in snapshot.groups.values()}
    return World(
        nodes=labelled,
        pods=tuple(pod for pods in snapshot.bound.values() for pod in pods),
        groups=tuple(group for name, group in groups.items() if name != "urgent"),
        members=tuple(replace(pod, labels={"app": "urgent"}) for pod in pending),
        group=groups["urgent"],
    )


def _holds(world: World) -> list[Hold]:
    other = GangKey("pod-group", NAMESPACE, "other")
    wants = world.members[0].requests
    places = [node.name for node in world.nodes if dict(node.allocatable).get(GPU, 0) >= 8]
    return [Hold(other, URGENT, f"other-{i}", n, wants) for i, n in enumerate(places[: world.held])]


def _measure(world: World, rounds: int) -> tuple[list[float], list[Plan | Refusal]]:
    """CPU seconds of whole plans, the first left out, and the answers."""
    settings = Settings(plan=world.plan)
    resolver = Resolver(settings.groups)
    planner = Planner(settings, resolver)
    snapshot = world.snapshot(resolver)
    gang = resolver.resolve(GangKey("pod-group", NAMESPACE, "urgent"), snapshot)
    assert gang is not None
    holds = _holds(world)
    planner.plan(GangQuestion(gang, snapshot, holds))
    gc.collect()
    gc.freeze()
    rng = random.Random(0)
    spent: list[float] = []
    answers: list[Plan | Refusal] = []
    for _ in range(rounds):
        snapshot = drift(snapshot, rng, CHANGES)
        began = time.thread_time()
        answers.append(planner.plan(GangQuestion(gang, snapshot, holds)))
        spent.append(time.thread_time() - began)
    gc.unfreeze()
    return spent, answers


def _cells(spent: Sequence[float], answers: Sequence[Plan | Refusal]) -> tuple[object, ...]:
    plans = [answer for answer in answers if isinstance(answer, Plan)]
    proved = sum(plan.proof == "optimal" for plan in plans)
    victims = percentile([len(plan.victims) for plan in plans], 0.5) if plans else 0
    said = f"{proved}/{len(plans)}" + ("" if len(plans) == len(answers) else " (and no)")
    return (1000 * percentile(spent, 0.5), 1000 * max(spent), f"{victims:.0f}", said)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it unless the run is a short one."""
    parser = argparse.ArgumentParser(description="What each feature costs on a large cluster.")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--fillers", type=int, default=26, help="small pods a node")
    parser.add_argument("--gang", type=int, default=64)
    parser.add_argument("--fill", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", default="", help="features whose name contains this")
    parser.add_argument("--short", action="store_true", help="a smoke test, writes nothing")
    options = parser.parse_args(arguments)
    if options.short:
        options.nodes, options.fillers, options.gang, options.rounds = 80, 3, 8, 2
    state = mix(
        MixSettings(
            nodes=options.nodes,
            fill=options.fill,
            gang=options.gang,
            fillers=options.fillers,
            seed=0,
        )
    )
    worlds = [world_of(state, gpus) for gpus in (8, 1)]
    rows = []
    for feature, name in zip(FEATURES, NAMES, strict=True):
        if options.only in name:
            cells = [_cells(*_measure(feature(world), options.rounds)) for world in worlds]
            rows.append((name, *cells[0], *cells[1]))
            print(*rows[-1], sep=" | ", flush=True)
    head = ("rule", *(f"{size}: {what}" for size in ("8 GPUs", "1 GPU") for what in (
        "p50 ms", "most ms", "victims", "proved")))  # fmt: skip
    text = (
        f"Machine: {machine()}. Command: `python -m bench.search.features`. Seed 0, "
        f"{options.nodes:,} nodes, {len(worlds[0].pods):,} pods, fill {options.fill:g}, a gang of "
        f"{options.gang}; {options.rounds} plans a cell, CPU time of the whole plan.\n\n"
        + table(head, rows)
    )
    print(text)
    if not options.short and not options.only:
        write_section("features", f"## What each rule costs\n\n{text}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
