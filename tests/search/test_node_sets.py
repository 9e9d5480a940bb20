"""Sets of nodes that are alike, and what lies between them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations, product

import pytest

from tests.search.build import COMPILED

pytestmark = pytest.mark.skipif(not COMPILED, reason="the core was not built")
Local = tuple[int, tuple[int, ...], tuple[int, ...], int]
Tied = tuple[int, tuple[int, ...]]


class Node:
    """A random node: C classes, R resources, L levels, units, switches, limits."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.classes, self.resources, self.levels = (rng.randint(1, n) for n in (3, 3, 3))
        scale = [rng.choice((1, 1000, 1 << 55)) for _ in range(self.resources)]
        self.requests = [
            tuple(rng.choice((0, 1, 2, 3)) * s for s in scale) for _ in range(self.classes)
        ]
        self.requests = [
            request if any(request) else (scale[0],) * self.resources for request in self.requests
        ]
        self.free = [rng.randint(-1, 3) * s for s in scale]
        self.most = [rng.randint(0, 3) for _ in range(self.classes)]
        every = range(self.classes)
        self.limits = [
            (tuple(sorted(rng.sample(every, rng.randint(1, self.classes)))), rng.randint(0, 3))
            for _ in range(rng.choice((0, 0, 1, 2)))
        ]
        self.switches: list[Tied] = [
            (100 + i, tuple(rng.choice((0, 0, 1, 2)) * s for s in scale))
            for i in range(rng.choice((0, 1, 2, 3)))
        ]
        self.units: list[Local] = [
            (
                10 + i,
                tuple(rng.choice((0, 1, 1, 2)) * s for s in scale),
                tuple(rng.choice((0, 0, 1, 2)) for _ in range(self.levels)),
                rng.randrange(-1, len(self.switches)),
            )
            for i in range(rng.randint(0, 5))
        ]

    def found(self) -> dict[tuple[int, ...], list[tuple[frozenset[int], tuple[int, ...]]]]:
        """Members -> switches and least cost of the sets that seat them."""
        import numpy as np

        from extender.search.core.node_sets import NodeSets

        sets = NodeSets(self.requests, self.levels)
        assert sets.add(7, self.free, self.most, self.limits, self.units, self.switches)
        told = [np.frombuffer(part, dtype=np.int32) for part in sets.found()[:6]]
        node, members, first, switches, unit_first, units = told
        costs = np.frombuffer(sets.found()[6], dtype=np.int64).reshape(len(node), self.levels)
        assert (node == 7).all()
        out: dict[tuple[int, ...], list[tuple[frozenset[int], tuple[int, ...]]]] = {}
        for at, seated in enumerate(members.reshape(len(node), self.classes).tolist()):
            on = frozenset(switches[first[at] : first[at + 1]].tolist())
            gone = units[unit_first[at] : unit_first[at + 1]].tolist()
            cost = tuple(costs[at].tolist())
            mine = [unit for unit in self.units if unit[0] in gone]
            assert cost == tuple(sum(unit[2][k] for unit in mine) for k in range(self.levels))
            assert self.seats(seated, mine, on)
            out.setdefault(tuple(seated), []).append((on, cost))
        return out

    def seats(self, members: list[int], units: list[Local], on: frozenset[int]) -> bool:
        """Whether these members fit with these units gone and these switches on."""
        numbers = [number for number, _ in self.switches]
        if any(unit[3] >= 0 and numbers[unit[3]] not in on for unit in units):
            return False
        for classes, limit in self.limits:
            if sum(members[c] for c in classes) > limit:
                return False
        for r in range(self.resources):
            asked = sum(m * q[r] for m, q in zip(members, self.requests, strict=True))
            room = self.free[r] + sum(unit[1][r] for unit in units)
            room += sum(amounts[r] for number, amounts in self.switches if number in on)
            if asked and asked > room:
                return False
        return all(m <= most for m, most in zip(members, self.most, strict=True))


@pytest.mark.parametrize("part", range(4))
def test_for_all_members_and_switches_the_cheapest_is_there(part: int) -> None:
    told = 0
    for seed in range(part, 400, 4):
        node = Node(seed)
        found = node.found()
        numbers = [number for number, _ in node.switches]
        for members in product(*(range(most + 1) for most in node.most)):
            if not any(members):
                continue
            for size in range(len(numbers) + 1):
                for on in map(frozenset, combinations(numbers, size)):
                    least = min(
                        (
                            tuple(sum(unit[2][k] for unit in some) for k in range(node.levels))
                            for many in range(len(node.units) + 1)
                            for some in combinations(node.units, many)
                            if node.seats(list(members), list(some), on)
                        ),
                        default=None,
                    )
                    mine = min(
                        (
                            cost
                            for seated, ways in found.items()
                            if all(a >= b for a, b in zip(seated, members, strict=True))
                            for needs, cost in ways
                            if needs <= on
                        ),
                        default=None,
                    )
                    assert mine == least, f"seed {seed}: {members} with {sorted(on)}"
                    told += least is not None
    assert told > 100


def test_none_of_the_sets_is_dominated() -> None:
    for seed in range(200):
        found = Node(seed).found()
        ways = [(m, on, cost) for m, several in found.items() for on, cost in several]
        for i, (m, on, cost) in enumerate(ways):
            for k, (other, needs, price) in enumerate(ways):
                more = all(a >= b for a, b in zip(other, m, strict=True))
                assert i == k or not (more and needs <= on and price <= cost), f"seed {seed}"


def test_a_limit_may_name_a_class_twice() -> None:
    import numpy as np

    from extender.search.core.node_sets import NodeSets

    sets = NodeSets([(1,), (1,)], 1)
    assert sets.add(0, [3], [2, 2], [((0, 0), 1)], [], [])
    members = np.frombuffer(sets.found()[1], dtype=np.int32).reshape(-1, 2).tolist()
    assert sorted(members) == [[1, 2]]


def test_what_has_too_many_sets_is_refused() -> None:
    from extender.search.core.node_sets import NodeSets

    sets = NodeSets([(1,)], 1)
    units = [(i, (1,), (1,), -1) for i in range(65)]
    assert not sets.add(0, [0], [1], [], units, [])
    assert not sets.add(0, [0], [1], [], [], [(i, (1,)) for i in range(13)])
    assert not sets.add(0, [10_000], [9_999], [], [], [])
    many = NodeSets([(1,)] * 65, 1)
    assert not many.add(0, [1], [1] + [0] * 64, [((64,), 1)], [], [])
    rng = random.Random(0)
    wide = [
        (i, tuple(rng.randrange(1 << 20) for _ in range(4)), (rng.randrange(1 << 20),), -1)
        for i in range(40)
    ]
    assert not NodeSets([(1 << 22,) * 4], 1).add(0, [0] * 4, [5], [], wide, [])


Cost = tuple[int, ...]
Way = tuple[tuple[int, ...], frozenset[int], Cost]
"""Members, switches and cost of a set."""
SWITCHES = (100, 101)


class Cluster:
    """Random nodes with units of their own and with some that a switch of several nodes frees."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.levels = rng.choice((1, 2))
        self.counts = [rng.randint(1, 2) for _ in range(rng.choice((1, 2, 2)))]
        self.requests = [(rng.choice((1, 2)), rng.choice((1, 2))) for _ in self.counts]
        dear = rng.choice((1, 2, 5))
        self.nodes = [
            (
                [rng.choice((0, 0, 1)), rng.choice((0, 1, 2))],
                [
                    (10 * n + i, (rng.choice((0, 1, 2)), rng.choice((1, 2))), self._cost(rng, dear))
                    for i in range(rng.randint(0, 3))
                ],
                [(s, (rng.choice((0, 1)), rng.choice((0, 1, 2)))) for s in self._some(rng)],
            )
            for n in range(rng.randint(4, 14))
        ]
        self.price = {s: self._cost(rng, dear) for s in SWITCHES}
        self.every = {n for n in range(len(self.nodes)) if rng.random() < 0.1}

    def _cost(self, rng: random.Random, most: int) -> Cost:
        return tuple(rng.randint(0, most) for _ in range(self.levels))

    def _some(self, rng: random.Random) -> list[int]:
        return [s for s in SWITCHES if rng.random() < 0.3]

    def ways(self, counts: Sequence[int]) -> list[list[Way]]:
        """The sets of each node; ``counts``: what is handed over as the gang's members."""
        import numpy as np

        from extender.search.core.node_sets import NodeSets

        sets = NodeSets(self.requests, self.levels, counts)
        for n, (free, units, switches) in enumerate(self.nodes):
            local = [(number, amounts, cost, -1) for number, amounts, cost in units]
            assert sets.add(n, free, list(self.counts), [], local, switches, n in self.every)
        *told, costs = sets.found()
        node, members, first, needs, unit_first, chosen = (
            np.frombuffer(part, dtype=np.int32) for part in told
        )
        cost = np.frombuffer(costs, dtype=np.int64).reshape(len(node), self.levels)
        out: list[list[Way]] = [[] for _ in self.nodes]
        for at, n in enumerate(node.tolist()):
            on = frozenset(needs[first[at] : first[at + 1]].tolist())
            gone = chosen[unit_first[at] : unit_first[at + 1]].tolist()
            mine = [price for number, _, price in self.nodes[n][1] if number in gone]
            assert len(mine) == len(gone)
            assert tuple(cost[at].tolist()) == added((0,) * self.levels, *mine)
            seated = tuple(members.reshape(len(node), -1)[at].tolist())
            out[n].append((seated, on, tuple(cost[at].tolist())))
        return out

    def least(self, ways: list[list[Way]]) -> Cost | None:
        """What seats for all members cost at least, by trying all."""
        found = []
        for size in range(len(SWITCHES) + 1):
            for on in map(frozenset, combinations(SWITCHES, size)):
                price = added((0,) * self.levels, *(self.price[s] for s in on))
                best = {tuple(self.counts): price}
                for mine in ways:
                    for left, so_far in list(best.items()):
                        for seated, needs, cost in mine:
                            if needs <= on:
                                rest = tuple(
                                    max(0, a - b) for a, b in zip(left, seated, strict=True)
                                )
                                total = added(so_far, cost)
                                best[rest] = min(best.get(rest, total), total)
                none_left = (0,) * len(self.counts)
                if none_left in best:
                    found.append(best[none_left])
        return min(found, default=None)


def added(*costs: Cost) -> Cost:
    """Their sums, level by level."""
    return tuple(map(sum, zip(*costs, strict=True)))


@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_among_what_is_left(part: int) -> None:
    fewer = told = 0
    for seed in range(part, 2000, 4):
        cluster = Cluster(seed)
        every, left = cluster.ways(()), cluster.ways(cluster.counts)
        assert all(set(some) <= set(mine) for some, mine in zip(left, every, strict=True))
        assert all(left[n] == every[n] for n in cluster.every)
        least = cluster.least(every)
        assert cluster.least(left) == least, f"seed {seed}"
        fewer += left != every
        told += least is not None
    assert fewer > 100
    assert told > 300


def test_of_like_nodes_as_many_are_left_as_there_are_members_and_one() -> None:
    from extender.search.core.node_sets import NodeSets

    sets = NodeSets([(1,)], 1, [3])
    for n in range(50):
        assert sets.add(n, [0], [3], [], [(n, (1,), (50 - n,), -1)], [])
    assert len(sets.found()[0]) // 4 == 4


def test_gangs_beyond_what_is_compared_keep_all_their_sets() -> None:
    from extender.search.core.node_sets import NodeSets

    for counts in ([2001], [1 << 40] * 2):
        sets = NodeSets([(1,)] * len(counts), 1, counts)
        for n in range(50):
            assert sets.add(n, [1], [1] * len(counts), [], [], [])
        assert len(sets.found()[0]) // 4 == 50 * len(counts)
