"""Seeded inputs for the search benchmark, and where their shapes come from.

Job sizes follow the counts of the Microsoft ITP trace of 2021 (69,351 jobs of ten
clusters, MIT licence, github.com/microsoft/elasticflow-traces): by GPUs 1: 57,682,
2: 1,483, 4: 2,371, 8: 7,009, 16: 381, 32: 354, 64: 71. Jobs above 8 GPUs are gangs of
whole 8-GPU nodes. Background pods without GPU ask what the median to large pods of
Alibaba's openb-2023 trace ask (2 to 16 CPU, 4 to 32 GiB), scaled down where a node is
to hold many. Neither trace has priorities: they are drawn evenly from a stated number
of levels. Everything else is synthetic, seed in the name.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence

from extender.search.problem import Budget, ElasticGang, MemberClass, Problem, Unit, Vector

JOBS = ((1, 57_682), (2, 1_483), (4, 2_371), (8, 7_009), (16, 381), (32, 354), (64, 71))
GIB = 1 << 30
NODE = (96_000, 768 * GIB, 8, 110)
"""milli-CPU, bytes, GPUs, pods."""


def levels_for(priorities: int) -> tuple[str, ...]:
    """The planner's default levels for priorities priorities-1 .. 0."""
    middle = [f"{what}@{p}" for p in reversed(range(priorities)) for what in ("gangs", "pods")]
    return ("pdb-violations", *middle, "work", "waits", "age")


def price(priorities: int, priority: int, pods: int, gangs: int, work: int, age: int) -> Vector:
    """A unit's cost at the levels of ``levels_for``."""
    vector = [0] * (2 * priorities + 4)
    at = 1 + 2 * (priorities - 1 - priority)
    vector[at], vector[at + 1] = gangs, pods
    vector[-3], vector[-1] = work, age
    return tuple(vector)


def mix(
    nodes: int,
    need: int,
    *,
    seed: int,
    gpus: int = 8,
    pods_per_node: int = 30,
    priorities: int = 3,
    fill: float = 0.97,
    elastic: float = 0.2,
    budgets: int = 0,
) -> Problem:
    """GPU nodes with gangs of the trace's sizes, singles, and CPU pods around them."""
    rng = random.Random(seed)
    free = [list(NODE) for _ in range(nodes)]
    units: list[Unit] = []
    gangs: list[ElasticGang] = []
    pdbs = tuple(Budget(f"pdb-{b}", rng.randint(0, 5), hard=False) for b in range(budgets))
    share_of_gpus = [gpus_asked * jobs for gpus_asked, jobs in JOBS]
    empty = [n for n in range(nodes) if rng.random() < fill]
    rng.shuffle(empty)

    def pod(n: int, cpu: int, memory: int, gpu: int) -> tuple[int, Vector]:
        amounts = (cpu, memory, gpu, 1)
        for r, amount in enumerate(amounts):
            free[n][r] -= amount
        return n, amounts

    while empty:
        size = rng.choices([asked for asked, _ in JOBS], share_of_gpus)[0]
        priority, age = rng.randrange(priorities), rng.randrange(60, 1_000_000)
        if size > 8:
            where = [empty.pop() for _ in range(min(size // 8, len(empty)))]
            parts = [pod(n, 64_000, 512 * GIB, 8) for n in where]
            work = 1000 * age * len(parts)
            if rng.random() < elastic:
                gangs.append(ElasticGang(0, price(priorities, priority, 0, 1, 0, 0)))
                units += [
                    Unit(
                        f"gang-{len(units)}-{part[0]}",
                        (part,),
                        price(priorities, priority, 1, 0, 1000 * age, age),
                        gang=len(gangs) - 1,
                    )
                    for part in parts
                ]
            else:
                units.append(
                    Unit(
                        f"gang-{len(units)}",
                        tuple(parts),
                        price(priorities, priority, len(parts), 1, work, age * len(parts)),
                        pods=len(parts),
                    )
                )
            continue
        n = empty.pop()
        left = 8
        while left:
            size = min(left, size)
            left -= size
            units.append(
                Unit(
                    f"job-{len(units)}",
                    (pod(n, 8_000 * size, 64 * GIB * size, size),),
                    price(priorities, rng.randrange(priorities), 1, 0, 125 * size * age, age),
                    budgets=((rng.randrange(budgets), 1),) if budgets else (),
                )
            )
            size = rng.choice((1, 1, 2, 4))
    for n in range(nodes):
        for _ in range(rng.randint(pods_per_node - 8, pods_per_node + 2)):
            cpu, memory = rng.choice((250, 500, 1000)), rng.choice((1, 2, 4)) * GIB
            if free[n][0] < cpu or free[n][1] < memory or free[n][3] < 1:
                break
            age = rng.randrange(60, 1_000_000)
            units.append(
                Unit(
                    f"cpu-{len(units)}",
                    (pod(n, cpu, memory, 0),),
                    price(priorities, rng.randrange(priorities), 1, 0, cpu // 96 * age, age),
                )
            )
    return problem(
        free,
        units,
        (8_000 * gpus, 64 * GIB * gpus, gpus, 1),
        need,
        levels_for(priorities),
        gangs=gangs,
        budgets=pdbs,
    )


def problem(
    free: Sequence[Sequence[int]],
    units: Sequence[Unit],
    request: Vector,
    need: int,
    levels: tuple[str, ...],
    *,
    gangs: Sequence[ElasticGang] = (),
    budgets: Sequence[Budget] = (),
) -> Problem:
    """One class that may use every node."""
    return Problem(
        resources=("cpu", "memory", "gpu", "pods")[: len(request)],
        nodes=tuple(f"n{n:05}" for n in range(len(free))),
        free=tuple(array("q", [row[r] for row in free]) for r in range(len(request))),
        classes=(MemberClass("worker", request, need, bytes([1]) * len(free)),),
        need=need,
        units=tuple(units),
        levels=levels,
        gangs=tuple(gangs),
        budgets=tuple(budgets),
    )


def five_cases() -> list[tuple[str, Problem, int]]:
    """The five measured on kube-scheduler 1.37.0: (name, problem, pods it evicted)."""

    def single(n: int, priority: int = 0, cpu: int = 3) -> Unit:
        return Unit(f"p{n}", ((n, (cpu,)),), price(2, priority, 1, 0, 0, 0))

    def gang(number: int, where: Sequence[int], cpu: int = 3) -> Unit:
        return Unit(
            f"g{number}",
            tuple((n, (cpu,)) for n in where),
            price(2, 0, len(where), 1, 0, 0),
            pods=len(where),
        )

    def case(free: Sequence[int], units: Sequence[Unit], need: int) -> Problem:
        return problem([[f] for f in free], units, (3,), need, levels_for(2))

    return [
        ("two nodes free", case([1] * 6 + [4] * 2, [single(n) for n in range(6)], 3), 3),
        (
            "gang or singles",
            case([1] * 8, [gang(0, range(4)), *map(single, range(4, 8))], 2),
            4,
        ),
        (
            "priority 5 or 1",
            case([1] * 8, [single(n, 1 if n < 4 else 0) for n in range(8)], 4),
            4,
        ),
        ("8 of 40 free", case([1] * 32 + [4] * 8, [single(n) for n in range(32)], 10), 10),
        (
            "8 gangs of 4",
            case([1] * 32 + [4] * 8, [gang(g, range(g, 32, 8)) for g in range(8)], 12),
            32,
        ),
    ]


def clique(size: int, need: int) -> Problem:
    """``size`` nodes of 4 GPUs full of singles; members take a whole node."""
    units = [
        Unit(f"p{n}-{k}", ((n, (1,)),), price(1, 0, 1, 0, 0, 0))
        for n in range(size)
        for k in range(4)
    ]
    return problem([[0]] * size, units, (4,), need, levels_for(1))


def overlaps(nodes: int, gangs: int, width: int, need: int, *, seed: int) -> Problem:
    """Every node shared by several gangs; a member needs the whole node (minimum k-union)."""
    rng = random.Random(seed)
    used = [0] * nodes
    units = []
    for g in range(gangs):
        where = rng.sample(range(nodes), width)
        for n in where:
            used[n] += 1
        units.append(
            Unit(
                f"g{g}",
                tuple((n, (1,)) for n in where),
                price(1, 0, width, 1, rng.randint(1, 1000), 0),
                pods=width,
            )
        )
    most = max(used)
    return problem([[most - used[n]] for n in range(nodes)], units, (most,), need, levels_for(1))


def ties(nodes: int, need: int) -> Problem:
    """Identical nodes, identical pods: any answer is as good as any other."""
    units = [
        Unit(f"p{n}-{k}", ((n, (1,)),), price(1, 0, 1, 0, 100, 100))
        for n in range(nodes)
        for k in range(8)
    ]
    return problem([[0]] * nodes, units, (3,), need, levels_for(1))
