"""Bucket elimination against trying every set of units."""

from __future__ import annotations

import random
from array import array
from itertools import combinations, product

from msgspec.structs import replace

from extender.search.core.columns import Columns
from extender.search.problem import ElasticGang, MemberClass, Problem, Unit, Vector
from extender.search.problem.cost import cost_of
from tests.search.core.doors import couplers


def overlapping(seed: int, nodes: int, units: int, width: int) -> Problem:
    """Whole gangs over several nodes, pods of gangs that break with the first, single pods.

    A unit makes one coupler at most, so seven units never have more than fit into a table.
    """
    rng = random.Random(seed)
    gangs = tuple(ElasticGang(0, (rng.choice((1, 2)), 0)) for _ in range(rng.choice((0, 2))))
    made = []
    for u in range(units):
        gang = rng.randrange(len(gangs)) if gangs and rng.random() < 0.4 else -1
        # The break of a gang by a unit on several nodes is left to the branches.
        most = 1 if gang >= 0 else min(width, nodes)
        where = sorted(rng.sample(range(nodes), rng.randint(1, most)))
        made.append(
            Unit(
                f"u{u:02}",
                tuple((n, (rng.choice((1, 2, 3)), rng.choice((0, 1)))) for n in where),
                (rng.choice((0, 1)), rng.choice((1, 2, 5))),
                gang=gang,
            )
        )
    problem = Problem(
        resources=("cpu", "gpu"),
        nodes=tuple(f"n{n}" for n in range(nodes)),
        free=tuple(array("q", [rng.choice((0, 0, 1)) for _ in range(nodes)]) for _ in range(2)),
        classes=(MemberClass("member", (2, rng.choice((0, 1))), 3 * nodes, b"\1" * nodes),),
        need=0,
        units=tuple(made),
        gangs=gangs,
        levels=("gangs", "pods"),
    )
    everybody = seats(problem, tuple(range(units)))
    return replace(problem, need=everybody)


def seats(problem: Problem, chosen: tuple[int, ...]) -> int:
    """Members that fit with these units gone."""
    room = [list(column) for column in problem.free]
    for u in chosen:
        for n, amounts in problem.units[u].releases:
            for r, amount in enumerate(amounts):
                room[r][n] += amount
    request = problem.classes[0].request
    return sum(
        max(0, min(room[r][n] // ask for r, ask in enumerate(request) if ask))
        for n in range(len(problem.nodes))
    )


def least(problem: Problem, more: int) -> list[Vector | None]:
    """The least cost of 0, 1, ... more seats."""
    now = seats(problem, ())
    best: list[Vector | None] = [None] * (more + 1)
    for size in range(len(problem.units) + 1):
        for chosen in combinations(range(len(problem.units)), size):
            cost = cost_of(problem, chosen)
            for k in range(min(more, seats(problem, chosen) - now) + 1):
                known = best[k]
                if known is None or cost < known:
                    best[k] = cost
    return best


def together(groups: list[list[Vector | None]], more: int) -> list[Vector | None]:
    """The least cost of 0, 1, ... more seats over all frontiers."""
    best: list[Vector | None] = [(0, 0)] + [None] * more
    for rows in groups:
        then: list[Vector | None] = [None] * (more + 1)
        for (k, cost), (j, row) in product(enumerate(best), enumerate(rows)):
            if cost is not None and row is not None:
                total = tuple(a + b for a, b in zip(cost, row, strict=True))
                for got in range(min(more, k + j) + 1):
                    known = then[got]
                    if known is None or total < known:
                        then[got] = total
        best = then
    return best


def test_frontiers_after_elimination_are_what_trying_everything_finds() -> None:
    some = 0
    for seed in range(120):
        problem = overlapping(seed, nodes=4, units=7, width=3)
        more = problem.need - seats(problem, ())
        found = couplers.eliminated(Columns(problem), b"\1" * 4, more)
        if found is None:
            continue
        groups, split, eliminated = found
        assert not split, f"seed {seed}"
        some += eliminated
        assert together(groups, more) == least(problem, more), f"seed {seed}"
    assert some > 100


def test_a_split_bucket_gives_a_lower_bound() -> None:
    splits = lower = 0
    for seed in range(25):
        problem = overlapping(seed, nodes=6, units=11, width=4)
        more = problem.need - seats(problem, ())
        found = couplers.eliminated(Columns(problem), b"\1" * 6, more)
        if found is None:
            continue
        groups, split, _ = found
        splits += split
        for bound, cost in zip(together(groups, more), least(problem, more), strict=True):
            assert cost is not None
            assert bound is not None
            assert bound <= cost, f"seed {seed}"
            lower += bound < cost
    assert splits
    assert lower
