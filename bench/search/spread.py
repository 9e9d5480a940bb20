"""Plan time of gangs spread over zones: ``python -m bench.search.spread``.

Made up, seeded clusters: nodes of 32 CPU, 95 % full with singles and whole gangs of
2 to 8 pods in three priorities; a gang of 64 members of 16 CPU wants in. Each line
says how many zones and which skew (0: no constraint), the share of arrivals that are
whole gangs, the CPU time of one more plan on the same snapshot, the victims, and
whether that is proved.
"""

from __future__ import annotations

import argparse
import random
import time

from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import (
    GangKey,
    GroupObject,
    LabelSelector,
    Node,
    Pod,
    PodShape,
    Requirement,
    SpreadConstraint,
)
from extender.model.plan import Plan
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings

NOW = 1_800_000_000.0
CPU = 32
CASES = (
    (3, 0, 0.0),
    (3, 1, 0.0),
    (10, 1, 0.0),
    (3, 1, 0.2),
    (3, 2, 0.2),
    (10, 1, 0.2),
    (3, 1, 0.6),
)


def pod(name: str, cpu: int, priority: int, on: str = "", group: str = "", **more: object) -> Pod:
    """A pod asking for whole cores, running when it is on a node."""
    return Pod(
        uid=name,
        namespace="default",
        name=name,
        node=on,
        phase="Running" if on else "Pending",
        priority=priority,
        requests=(("cpu", cpu * 1000), ("pods", 1)),
        pod_group=group,
        **more,  # type: ignore[arg-type]
    )


def cluster(nodes: int, zones: int, skew: int, share: float, members: int, seed: int) -> Snapshot:
    """The cluster with the gang "high" waiting."""
    rng = random.Random(seed)
    amounts = (("cpu", CPU * 1000), ("pods", 110))
    made = [
        Node(f"n{i:05}", labels={"zone": f"z{i % zones}"}, allocatable=amounts)
        for i in range(nodes)
    ]
    room = {node.name: CPU for node in made}
    names = list(room)
    pods: list[Pod] = []
    sizes: dict[str, int] = {}
    while sum(room.values()) > nodes * CPU * 0.05:
        priority, age = rng.choice((1, 1, 2, 3)), rng.randint(1, 100_000)
        size, cpu, group = 1, rng.choice((1, 2, 4, 8)), ""
        if rng.random() < share:
            size, cpu, group = rng.choice((2, 4, 8)), rng.choice((4, 8, 16)), f"g{len(pods)}"
        where = [n for n in rng.sample(names, 3 * size) if room[n] >= cpu][:size]
        if len(where) < size:
            share *= 0.99  # room for gangs runs out
            continue
        if group:
            sizes[group] = size
        for name in where:
            room[name] -= cpu
            pods.append(pod(f"p{len(pods)}", cpu, priority, name, group, started=NOW - age))
    ours = LabelSelector((Requirement("app", "In", ("ours",)),))
    shape = PodShape(spread=(SpreadConstraint("zone", skew, ours),) if skew else ())
    sizes["high"] = members
    pods += [
        pod(f"high-{i:03}", 16, 100, "", "high", labels={"app": "ours"}, shape=shape)
        for i in range(members)
    ]
    groups = [
        GroupObject("core", name, "default", name, min_count=size, disrupt_all=True)
        for name, size in sizes.items()
    ]
    return assemble(
        Resolver(Settings().groups).member_key,
        nodes=made,
        pods=pods,
        groups=groups,
        namespaces={"default": {}},
        now=NOW,
        generation=1,
    )


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser()
    options.add_argument("--nodes", type=int, default=1000)
    options.add_argument("--members", type=int, default=64)
    chosen = options.parse_args()
    print("| zones | skew | gang share | plan ms | victims | proof |")
    print("|---:|---:|---:|---:|---:|---|")
    for zones, skew, share in CASES:
        snapshot = cluster(chosen.nodes, zones, skew, share, chosen.members, 1)
        settings = Settings()
        resolver = Resolver(settings.groups)
        gang = resolver.resolve(GangKey("pod-group", "default", "high"), snapshot)
        planner = Planner(settings, resolver)
        planner.plan(GangQuestion(gang, snapshot))
        start = time.thread_time()
        plan = planner.plan(GangQuestion(gang, snapshot))
        whole = time.thread_time() - start
        assert isinstance(plan, Plan), plan
        print(
            f"| {zones} | {skew} | {share} | {whole * 1000:.1f} "
            f"| {len(plan.victims)} | {plan.proof} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
