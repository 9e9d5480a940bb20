"""Hard families for the search, as Problems: seeded, of any size, one function a family.

Every node has 8 seats of room in sum ("gpu"), every problem one class of members
unless said otherwise. Levels are gangs and pods per priority, then work.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Sequence

from extender.search.problem import Budget, MemberClass, Problem, Unit, Vector

GPUS = 8
Family = Callable[[int, int], Problem]
"""(number of nodes, seed) -> problem."""


def _problem(
    nodes: int,
    units: Sequence[Unit],
    request: int,
    need: int,
    levels: tuple[str, ...],
    budgets: tuple[Budget, ...] = (),
    free: Sequence[int] | None = None,
) -> Problem:
    return Problem(
        resources=("gpu",),
        nodes=tuple(f"n{n:05}" for n in range(nodes)),
        free=(array("q", free if free is not None else [0] * nodes),),
        classes=(MemberClass("worker", (request,), need, b"\x01" * nodes),),
        need=need,
        units=tuple(units),
        levels=levels,
        budgets=budgets,
    )


def _levels(count: int) -> tuple[str, ...]:
    names: list[str] = []
    for priority in range(count, 0, -1):
        names += [f"gangs@{priority}", f"pods@{priority}"]
    return (*names, "work")


def _cost(levels: int, priority: int, gangs: int, pods: int, work: int) -> Vector:
    vector = [0] * (2 * levels + 1)
    vector[2 * (levels - priority)] = gangs
    vector[2 * (levels - priority) + 1] = pods
    vector[-1] = work
    return tuple(vector)


def overlaps(nodes: int, seed: int) -> Problem:
    """Minimum k-union: two whole gangs share every node, a member needs both gone.

    Gangs span four nodes drawn at random; a quarter of the nodes is wanted.
    """
    rng = random.Random(f"overlaps {nodes} {seed}")
    halves = list(range(nodes)) * 2
    rng.shuffle(halves)
    units: list[Unit] = []
    while halves:
        where: list[int] = []
        for n in list(halves):
            if len(where) < 4 and n not in where:
                where.append(n)
                halves.remove(n)
        units.append(
            Unit(
                f"gang-{len(units):05}",
                tuple((n, (GPUS // 2,)) for n in sorted(where)),
                _cost(1, 1, 1, len(where), rng.randint(1, 1000)),
                pods=len(where),
            )
        )
    return _problem(nodes, units, GPUS, max(1, nodes // 4), _levels(1))


def neighbours(nodes: int, seed: int) -> Problem:
    """As ``overlaps``, but gangs lie on nodes in a row, as a scheduler that packs leaves them."""
    rng = random.Random(f"neighbours {nodes} {seed}")
    units: list[Unit] = []
    for half in range(2):
        at = 0
        while at < nodes:
            size = rng.choice((2, 3, 4, 8))
            where = range(at, min(nodes, at + size))
            at += size
            units.append(
                Unit(
                    f"gang-{half}-{at:05}",
                    tuple((n, (GPUS // 2,)) for n in where),
                    _cost(1, 1, 1, len(where), rng.randint(1, 1000)),
                    pods=len(where),
                )
            )
    return _problem(nodes, units, GPUS, max(1, nodes // 4), _levels(1))


def packed(nodes: int, seed: int) -> Problem:
    """4 GPUs a node, all taken by single pods of one GPU; one member of 4 GPUs a node."""
    del seed
    units = [
        Unit(f"pod-{n:05}-{i}", ((n, (1,)),), _cost(1, 1, 0, 1, 1))
        for n in range(nodes)
        for i in range(4)
    ]
    return _problem(nodes, units, 4, nodes, _levels(1))


def packed_one_short(nodes: int, seed: int) -> Problem:
    """As ``packed`` with one member more than there are nodes: the answer is no."""
    return _problem(nodes, packed(nodes, seed).units, 4, nodes + 1, _levels(1))


def fragmentation(nodes: int, seed: int) -> Problem:
    """Pods of 1, 2 and 4 GPUs and one free GPU here and there; members want whole nodes."""
    rng = random.Random(f"fragmentation {nodes} {seed}")
    units: list[Unit] = []
    free = []
    for n in range(nodes):
        left = GPUS
        spare = rng.choice((0, 0, 1, 2))
        while left > spare:
            size = min(left - spare, rng.choice((1, 1, 1, 2, 4)))
            left -= size
            priority = rng.choice((1, 1, 2))
            units.append(
                Unit(
                    f"pod-{n:05}-{left}",
                    ((n, (size,)),),
                    _cost(2, priority, 0, 1, size * rng.randint(1, 1000)),
                )
            )
        free.append(left)
    return _problem(nodes, units, GPUS, max(1, nodes // 5), _levels(2), free=free)


def ties(nodes: int, seed: int) -> Problem:
    """Equal gangs of two nodes and equal pods, no level tells them apart."""
    rng = random.Random(f"ties {nodes} {seed}")
    units: list[Unit] = []
    order = list(range(nodes))
    rng.shuffle(order)
    for at in range(0, nodes - 1, 2):
        pair = sorted(order[at : at + 2])
        units.append(
            Unit(
                f"gang-{at:05}",
                tuple((n, (GPUS // 2,)) for n in pair),
                _cost(1, 1, 1, 2, 1),
                pods=2,
            )
        )
    units += [Unit(f"pod-{n:05}", ((n, (GPUS // 2,)),), _cost(1, 1, 0, 1, 1)) for n in range(nodes)]
    return _problem(nodes, units, GPUS // 2, nodes + nodes // 4, _levels(1))


def fifty_levels(nodes: int, seed: int) -> Problem:
    """Pods and spanning gangs of 50 priorities; a third of all room is wanted."""
    rng = random.Random(f"fifty {nodes} {seed}")
    units = [
        Unit(
            f"pod-{n:05}-{i}",
            ((n, (2,)),),
            _cost(50, rng.randint(1, 50), 0, 1, rng.randint(1, 1000)),
        )
        for n in range(nodes)
        for i in range(2)
    ]
    order = list(range(nodes))
    rng.shuffle(order)
    while order:
        where = sorted(order.pop() for _ in range(min(len(order), rng.choice((2, 3, 4)))))
        units.append(
            Unit(
                f"gang-{len(units):05}",
                tuple((n, (4,)) for n in where),
                _cost(50, rng.randint(1, 50), 1, len(where), rng.randint(1, 1000)),
                pods=len(where),
            )
        )
    return _problem(nodes, units, 4, max(1, 2 * nodes // 3), _levels(50))


def budgets(nodes: int, seed: int) -> Problem:
    """Budgets of a few pods each, spread over all nodes: half of them firm, half soft."""
    rng = random.Random(f"budgets {nodes} {seed}")
    count = max(2, nodes // 5)
    levels = ("pdb-violations", *_levels(1))
    units = [
        Unit(
            f"pod-{n:05}-{i}",
            ((n, (2,)),),
            (0, *_cost(1, 1, 0, 1, rng.randint(1, 1000))),
            budgets=((rng.randrange(count), 1),),
        )
        for n in range(nodes)
        for i in range(4)
    ]
    rules = tuple(
        Budget(f"budget-{b}", rng.choice((1, 2, 4)), hard=b % 2 == 0) for b in range(count)
    )
    return _problem(nodes, units, 4, max(1, nodes // 4), levels, rules)


FAMILIES: dict[str, Family] = {
    "overlaps of spanning gangs": overlaps,
    "gangs in rows, two a node": neighbours,
    "packed clique": packed,
    "packed clique, one node short": packed_one_short,
    "fragmentation": fragmentation,
    "equal ties": ties,
    "50 priority levels": fifty_levels,
    "disruption budgets": budgets,
}
