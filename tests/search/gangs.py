"""Seeded clusters of any size for gangs of several kinds: leaders and workers, three kinds.

Nodes of 8 GPUs, nearly full of single pods, whole gangs and gangs with surplus, as
``generate.medium`` makes them; the members ask for enough that somebody has to go.
"""

from __future__ import annotations

import random
from array import array

from extender.search.problem import Budget, ElasticGang, MemberClass, Problem, Unit, Vector

LEVELS = ("budget", "gangs@2", "pods@2", "gangs@1", "pods@1", "work")
GPUS, CPU = 8, 64_000


def _cost(priority: int, pods: int, broken: int, work: int) -> Vector:
    at = 1 if priority == 2 else 3
    vector = [0] * len(LEVELS)
    vector[at], vector[at + 1], vector[5] = broken, pods, work
    return tuple(vector)


def _cluster(
    rng: random.Random, nodes: int, budgets: int
) -> tuple[list[list[int]], list[Unit], list[ElasticGang]]:
    """Room left on each node, units, and gangs with surplus."""
    free = [[GPUS, CPU] for _ in range(nodes)]
    units: list[Unit] = []
    gangs: list[ElasticGang] = []

    def take(n: int, gpus: int, cpu: int) -> None:
        free[n][0] -= gpus
        free[n][1] -= cpu

    many = rng.choice((nodes // 8, nodes // 4, nodes // 2))
    for number in range(many):
        priority, size = rng.choice((1, 1, 2)), rng.choice((2, 4, 6, 8))
        gpus = rng.choice((1, 2, 4, 8))
        cpu = gpus * rng.choice((2000, 6000, 8000))
        start = rng.randrange(nodes)
        near = rng.random() < 0.5
        where = (
            [(start + i) % nodes for i in range(min(size, nodes))]
            if near
            else rng.sample(range(nodes), min(size, nodes))
        )
        where = [n for n in where if free[n][0] >= gpus and free[n][1] >= cpu]
        if len(where) < 2:
            continue
        for n in where:
            take(n, gpus, cpu)
        if rng.random() < 0.75:
            units.append(
                Unit(
                    f"gang-{number}",
                    tuple((n, (gpus, cpu)) for n in sorted(where)),
                    _cost(priority, len(where), 1, rng.randint(1, 50) * gpus),
                    pods=len(where),
                )
            )
        else:
            gangs.append(ElasticGang(rng.choice((0, 0, 1, 2)), _cost(priority, 0, 1, 0)))
            units += [
                Unit(
                    f"elastic-{number}-{n}",
                    ((n, (gpus, cpu)),),
                    _cost(priority, 1, 0, rng.randint(1, 50) * gpus),
                    gang=len(gangs) - 1,
                )
                for n in where
            ]
    full = rng.choice((0.8, 0.9, 0.97))
    for n in range(nodes):
        for number in range(20):
            gpus = rng.choice((0, 1, 1, 2, 4))
            cpu = rng.choice((1000, 4000, 8000, 16000)) if gpus == 0 else gpus * 6000
            if free[n][0] < gpus or free[n][1] < cpu or rng.random() > full:
                continue
            take(n, gpus, cpu)
            taken: tuple[tuple[int, int], ...] = ()
            if budgets and rng.random() < 0.2:
                taken = ((rng.randrange(budgets), 1),)
            units.append(
                Unit(
                    f"single-{n}-{number}",
                    ((n, (gpus, cpu)),),
                    _cost(rng.choice((1, 1, 2)), 1, 0, rng.randint(1, 50) * max(1, gpus)),
                    budgets=taken,
                )
            )
    return free, units, gangs


def _problem(
    rng: random.Random, nodes: int, classes: tuple[MemberClass, ...], *, budgets: int = 0
) -> Problem:
    free, units, gangs = _cluster(rng, nodes, budgets)
    return Problem(
        resources=("gpu", "cpu"),
        nodes=tuple(f"n{n:04}" for n in range(nodes)),
        free=tuple(array("q", [room[r] for room in free]) for r in range(2)),
        classes=classes,
        need=sum(cls.count for cls in classes),
        units=tuple(units),
        levels=LEVELS,
        gangs=tuple(gangs),
        budgets=tuple(
            Budget(f"b{i}", rng.randint(0, 3), hard=rng.random() < 0.5) for i in range(budgets)
        ),
    )


def _fitting(rng: random.Random, nodes: int, most: int, per_node: int) -> int:
    """Members that all the nodes together could seat, between 20 and ``most``."""
    return max(1, min(rng.randint(20, most), int(nodes * per_node * rng.uniform(0.3, 0.9))))


def leader_and_workers(seed: int, *, most_nodes: int = 500) -> Problem:
    """20 to 200 members on 20 to ``most_nodes`` nodes: one to four leaders, workers with GPUs."""
    rng = random.Random(seed)
    nodes = rng.randint(20, most_nodes)
    gpus = rng.choice((1, 2, 4, 8))
    workers = _fitting(rng, nodes, 199, GPUS // gpus)
    leaders = rng.choice((1, 1, 1, 2, 4))
    everywhere = b"\x01" * nodes
    leader = MemberClass(
        "leader",
        (rng.choice((0, 0, 0, 1)), rng.choice((2000, 8000, 16_000, 32_000))),
        leaders,
        everywhere,
        leaders,
    )
    worker = MemberClass(
        "worker",
        (gpus, gpus * rng.choice((4000, 6000, 8000))),
        workers,
        bytes(1 if rng.random() < 0.97 else 0 for _ in range(nodes)),
        workers,
    )
    return _problem(rng, nodes, (leader, worker), budgets=rng.choice((0, 0, 0, 2)))


def three_kinds(seed: int, nodes: int = 0) -> Problem:
    """20 to 200 members of three kinds that contest the same nodes."""
    rng = random.Random(seed)
    nodes = nodes or rng.randint(20, 500)
    everywhere = b"\x01" * nodes
    first, second = rng.choice(((1, 2), (2, 4), (1, 4), (2, 2), (4, 8)))
    total = _fitting(rng, nodes, 200, GPUS // second)
    a = max(1, int(total * rng.uniform(0.1, 0.5)))
    b = max(1, int(total * rng.uniform(0.1, 0.4)))
    classes = (
        MemberClass("trainer", (second, second * 6000), max(1, total - a - b), everywhere),
        MemberClass("actor", (first, first * rng.choice((4000, 8000))), a, everywhere),
        MemberClass("server", (0, rng.choice((4000, 8000, 16_000))), b, everywhere),
    )
    return _problem(rng, nodes, classes, budgets=rng.choice((0, 0, 0, 2)))


def one_kind(seed: int) -> Problem:
    """20 to 200 like members on 20 to 500 nodes, with budgets, half of them hard."""
    rng = random.Random(seed)
    nodes = rng.randint(20, 500)
    gpus = rng.choice((1, 2, 4, 8))
    count = _fitting(rng, nodes, 200, GPUS // gpus)
    worker = MemberClass("worker", (gpus, gpus * 6000), count, b"\x01" * nodes, count)
    return _problem(rng, nodes, (worker,), budgets=rng.choice((0, 2, 6)))
