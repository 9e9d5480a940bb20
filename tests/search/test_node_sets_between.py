"""Sets of units that enough other nodes have as cheaply are left out, and no optimum with them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest

from tests.search.build import COMPILED

pytestmark = pytest.mark.skipif(not COMPILED, reason="the core was not built")

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
