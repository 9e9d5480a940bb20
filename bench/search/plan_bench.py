"""Plan time on a synthetic cluster: nothing free, and a gang that needs room on many nodes.

    python -m bench.search.plan_bench --nodes 5000 --pods 150000 --gang 512

Provenance: synthetic, seeded. Nodes of 96 CPU, 8 GPU, 768 GiB. A share of the
nodes holds members of whole gangs (8-GPU workers, gangs of 2 to 16 nodes,
priorities 1 to 3), the rest singles of 1 to 4 GPUs (priorities 1 to 3); every
node is filled up with small CPU pods (priority 0 or 5) to the wanted number.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import sys
import time
from collections.abc import Iterator

from msgspec.structs import replace

from extender.gang.plan.assemble import assemble
from extender.gang.plan.planner import Planner
from extender.gang.plan.question import GangQuestion
from extender.groups.resolver import Resolver
from extender.model.objects import GroupObject, Node, Pod, Requests
from extender.model.plan import Plan, Refusal
from extender.model.snapshot import Snapshot
from extender.search.solver import BACKEND
from extender.settings.cost_order import ORDERS
from extender.settings.settings import PlanSettings, Settings

GPU = "nvidia.com/gpu"
NOW = 1_800_000_000.0


def requests(cpu: int, gpu: int = 0, memory: int = 0) -> Requests:
    """Amounts in milli-CPU, GPUs and GiB as a pod's requests."""
    amounts = {"cpu": cpu, "memory": memory * 2**30, "pods": 1, GPU: gpu}
    return tuple(sorted((name, amount) for name, amount in amounts.items() if amount))


SMALL = [requests(250, memory=1), requests(500, memory=2), requests(1000, memory=4)]
MEMBER = requests(64_000, 8, 512)


def cluster(
    nodes: int, pods: int, gang: int, seed: int, spanning: float = 0.5
) -> tuple[Snapshot, Resolver]:
    """A full cluster and one waiting gang "urgent" of ``gang`` 8-GPU members.

    ``spanning``: how often the next free node starts a gang over several nodes.
    """
    rng = random.Random(seed)
    allocatable = requests(96_000, 8, 768)
    allocatable = tuple((n, 250 if n == "pods" else a) for n, a in allocatable)
    names = [f"node-{i:05}" for i in range(nodes)]
    groups: list[GroupObject] = []
    made: list[Pod] = []
    made += _big(rng, names, groups, spanning)
    per_node = max(0, pods - len(made)) // nodes
    for name in names:
        for i in range(per_node):
            made.append(
                Pod(
                    uid=f"s-{name}-{i}",
                    namespace="default",
                    name=f"s-{name}-{i}",
                    node=name,
                    phase="Running",
                    priority=rng.choice((0, 0, 0, 5)),
                    requests=SMALL[rng.randrange(3)],
                    started=NOW - rng.randrange(86_400),
                )
            )
    groups.append(
        GroupObject("core", "g-urgent", "default", "urgent", gang, disrupt_all=True, priority=1000)
    )
    made += [
        Pod(
            uid=f"u-{i:05}",
            namespace="default",
            name=f"urgent-{i:05}",
            priority=1000,
            pod_group="urgent",
            requests=MEMBER,
        )
        for i in range(gang)
    ]
    resolver = Resolver(Settings().groups)
    state = assemble(
        resolver.member_key,
        nodes=[Node(name=name, uid=name, allocatable=allocatable) for name in names],
        pods=made,
        groups=groups,
        now=NOW,
        generation=1,
    )
    return state, resolver


def _big(
    rng: random.Random, names: list[str], groups: list[GroupObject], spanning: float
) -> Iterator[Pod]:
    """GPU pods: gangs over neighbouring free nodes, singles on the rest."""
    left = list(names)
    rng.shuffle(left)
    while left:
        if rng.random() < spanning:
            size = min(rng.choice((2, 4, 8, 16)), len(left))
            name = f"gang-{len(groups):05}"
            priority = rng.randrange(1, 4)
            groups.append(
                GroupObject(
                    "core", name, "default", name, size, disrupt_all=True, priority=priority
                )
            )
            start = NOW - rng.randrange(86_400)
            for i in range(size):
                yield _pod(f"{name}-{i}", left.pop(), MEMBER, priority, start, name)
        else:
            node = left.pop()
            free = 8
            while free:
                gpus = min(free, rng.choice((1, 2, 4)))
                free -= gpus
                yield _pod(
                    f"g-{node}-{free}",
                    node,
                    requests(4000 * gpus, gpus, 32 * gpus),
                    rng.randrange(1, 4),
                    NOW - rng.randrange(86_400),
                    "",
                )


def _pod(name: str, node: str, wants: Requests, priority: int, started: float, group: str) -> Pod:
    return Pod(
        uid=name,
        namespace="default",
        name=name,
        node=node,
        phase="Running",
        priority=priority,
        requests=wants,
        started=float(started),
        pod_group=group,
    )


def touch(state: Snapshot, rng: random.Random, changes: int) -> Snapshot:
    """The next generation: a few nodes lose their last pod."""
    bound = dict(state.bound)
    for name in rng.sample(sorted(bound), changes):
        bound[name] = bound[name][:-1]
    return replace(state, generation=state.generation + 1, bound=bound)


def main() -> None:
    """Run and print one JSON document."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--gang", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cost-order", default="default", choices=ORDERS)
    args = parser.parse_args()
    state, resolver = cluster(args.nodes, args.pods, args.gang, args.seed)
    settings = Settings(plan=PlanSettings(cost_order=args.cost_order))
    planner = Planner(settings, resolver)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng = random.Random(args.seed)
    times: list[float] = []
    answer: Plan | Refusal | None = None
    for _ in range(args.rounds + 1):
        key = next(key for key in state.members if key.name == "urgent")
        began = time.perf_counter()
        answer = planner.plan(GangQuestion(resolver.resolve(key, state), state))
        times.append(time.perf_counter() - began)
        state = touch(state, rng, min(20, args.nodes))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = {
        "machine": f"{platform.machine()}, Python {sys.version.split()[0]}",
        "command": " ".join(sys.argv[1:]),
        "search": BACKEND,
        "first_ms": round(times[0] * 1000, 1),
        "next_ms": [round(t * 1000, 1) for t in times[1:]],
        "memory_mb": round((after - before) / 1024, 1),
        "answer": type(answer).__name__,
    }
    if isinstance(answer, Plan):
        result["victims"] = len(answer.victims)
        result["proof"] = answer.proof
    elif answer is not None:
        result["message"] = answer.message[:200]
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
