"""Gangs that fit only if hard budgets are spent well: above the size that is answered outright."""

from __future__ import annotations

import random
from array import array

from extender.search.problem import Budget, Cap, MemberClass, Problem, Spread, Unit


def scarce_budgets(seed: int) -> Problem:
    """9 to 14 full nodes of three zones, one to three classes of up to three members; one to three
    hard budgets of one to four pods, of which most pods and some gangs take; mostly a cap on the
    members of a zone, sometimes one a node, sometimes a spread rule. Some do not fit."""
    rng = random.Random(seed)
    size, kinds, rules = rng.randint(9, 14), rng.choice((1, 2, 2, 3)), rng.randint(1, 3)
    zone = array("i", (n % 3 for n in range(size)))

    def used(share: float, most: int) -> tuple[tuple[int, int], ...]:
        return ((rng.randrange(rules), rng.randint(1, most)),) if rng.random() < share else ()

    budgets = tuple(Budget(f"b{i}", rng.randint(1, 4), hard=True) for i in range(rules))
    units = [
        Unit(
            f"u{n}-{j}",
            ((n, (rng.randint(1, 4), rng.randint(0, 3))),),
            (1, rng.randint(1, 9)),
            budgets=used(0.8, 1),
        )
        for n in range(size)
        for j in range(rng.randint(1, 4))
    ]
    for g in range(rng.randint(0, 2)):
        nodes = sorted(rng.sample(range(size), 3))
        releases = tuple((n, (rng.randint(1, 4), 1)) for n in nodes)
        cost = (3, rng.randint(1, 9))
        units.append(Unit(f"g{g}", releases, cost, pods=3, budgets=used(0.5, 2)))
    classes = []
    for c in range(kinds):
        members, request = rng.randint(1, 3), (rng.randint(1, 5), rng.randint(0, 3))
        allowed = bytes(rng.random() < 0.85 for _ in range(size))
        classes.append(MemberClass(f"c{c}", request, members, allowed, members))
    caps = []
    if rng.random() < 0.6:
        some = tuple(sorted(rng.sample(range(kinds), rng.randint(1, kinds))))
        caps.append(Cap(some, zone, rng.randint(1, 2)))
    if rng.random() < 0.3:
        caps.append(Cap(tuple(range(kinds)), array("i", range(size)), 1))
    spreads = (Spread((0,), (0,), zone, (0, 0, 0), (0, 0, 0), 1),) if rng.random() < 0.3 else ()
    free = tuple(array("q", (rng.choice((0, 0, 0, 1)) for _ in range(size))) for _ in range(2))
    return Problem(
        resources=("a", "b"),
        nodes=tuple(f"n{i}" for i in range(size)),
        free=free,
        classes=tuple(classes),
        need=sum(cls.count for cls in classes),
        units=tuple(units),
        levels=("pods", "work"),
        budgets=budgets,
        caps=tuple(caps),
        spreads=spreads,
    )
