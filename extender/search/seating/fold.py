"""Adding up cells of nodes under rules that hold over several nodes.

A cell is a set of nodes that no such rule tells apart, with the vectors of members
it can seat. A rule says for each of its domains how many members may, and how many
must, sit there (spread.Band; a cap is a band without a lower limit).

Without lower limits only maximal vectors matter, for whatever a vector allows a
smaller one allows too. With lower limits that all count the same classes, each on a
cell of its own, maximal vectors still do: the members can be taken away again down
to the lower limits, as long as no set of the counted classes has to give more than
it has (``floors``: the least members of each such set, by Hall's theorem). Where
lower limits overlap in other ways every vector is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations, islice

from msgspec import Struct

from extender.search.problem.stop import Stop
from extender.search.seating.patterns import (
    MOST_STEPS,
    WIDEST,
    Counts,
    Pattern,
    TooWide,
    Ways,
    all_below,
    below,
    endless,
    maximal,
    ways_down,
)
from extender.search.seating.spread import Band

MOST_COUNTED = 10
"""Classes under one lower limit: every set of them is asked for what it has to give."""

Key = tuple[int, int]
"""(rule, domain)"""

Usage = tuple[tuple[Key, tuple[int, int]], ...]
"""Counted and bound members so far in the domains that still have cells to come."""


class FoldState(Struct, frozen=True, order=True):
    """What matters of the cells so far for those to come."""

    counts: Counts
    """(C,) members, clipped at the classes' counts."""
    floors: Counts = ()
    """Per set of counted classes: members that the lower limits ask of it at least."""
    usage: Usage = ()


class Chosen(Struct, frozen=True):
    """How one cell takes part in an answer."""

    vector: Counts
    """(C,) members at most,"""
    floor: Counts
    """(C,) and at least."""


class Fold:
    """Every state that can be reached under one set of bands.

    ``cells`` are, in a fixed order, (domain under each rule or -1, maximal vectors).
    """

    def __init__(
        self,
        cells: Sequence[tuple[tuple[int, ...], Pattern]],
        rules: Mapping[Key, Band],
        counts: Counts,
        stop: Stop | None = None,
        ways: Ways | None = None,
    ) -> None:
        """Raises OutOfTime, TooWide."""
        self._stop = stop
        self._ways = ways
        self.counts = counts
        self.rules = rules
        self.exact = True
        """False once there were too many states to keep."""
        self._keys = [
            [(rule, d) for rule, d in enumerate(cell) if (rule, d) in rules] for cell, _ in cells
        ]
        self._last = {key: at for at, keys in enumerate(self._keys) for key in keys}
        self._first = {
            key: at for at, keys in reversed(list(enumerate(self._keys))) for key in keys
        }
        low = [key for key, band in rules.items() if band.low > 0]
        self._groups: list[frozenset[int]] = []
        self._every = False
        if low:
            counted = {rules[key].counted for key in low}
            if len(counted) > 1 or any(self._shared(key) for key in low):
                self._every = True
            else:
                members = sorted(counted.pop())
                if len(members) > MOST_COUNTED:
                    raise TooWide
                self._groups = [
                    frozenset(group)
                    for group in chain.from_iterable(
                        combinations(members, size) for size in range(1, len(members) + 1)
                    )
                ]
        start = FoldState((0,) * len(counts), (0,) * len(self._groups))
        self._steps: list[dict[FoldState, tuple[FoldState, Counts]]] = [
            {start: (start, start.counts)}
        ]
        if any(key not in self._last for key in low):
            self._steps.append({})
            return
        for at, (_, vectors) in enumerate(cells):
            self._steps.append(self._step(at, vectors))

    @property
    def states(self) -> Iterable[FoldState]:
        """The states after the last cell."""
        return self._steps[-1]

    def _shared(self, key: Key) -> bool:
        return self._first.get(key) != self._last.get(key)

    def _low(self, at: int) -> int:
        """The most that a rule with this cell to itself asks of it."""
        return max((self.rules[key].low for key in self._keys[at]), default=0)

    def _step(self, at: int, vectors: Pattern) -> dict[FoldState, tuple[FoldState, Counts]]:
        own = [self.rules[key] for key in self._keys[at] if not self._shared(key)]
        shared = [key for key in self._keys[at] if self._shared(key)]
        for band in own:
            vectors = under(vectors, band, self._stop, self._ways)
        options = all_below(vectors, self._stop) if shared or self._every else vectors
        low = [band for band in own if band.low > 0]
        options = tuple(v for v in options if all(band.count(v) >= band.low for band in low))
        asked = [(v, self._asked(at, v)) for v in options]
        reached: dict[FoldState, tuple[FoldState, Counts]] = {}
        if self._ways is not None:
            self._ways.add(len(self._steps[-1]) * len(asked) * (1 + len(shared)))
        elif len(self._steps[-1]) * len(asked) > MOST_STEPS and endless(self._stop):
            raise TooWide
        for state in self._steps[-1]:
            if self._stop is not None:
                self._stop.check()
            for vector, floors in asked:
                after = self._after(at, state, vector, floors, shared)
                if after is not None:
                    reached.setdefault(after, (state, vector))
        return self._kept(reached)

    def _asked(self, at: int, vector: Counts) -> Counts:
        """What this cell's lower limit asks of each set of classes when others give all."""
        low = self._low(at) if self._groups else 0
        whole = self._groups[-1] if self._groups else frozenset()
        return tuple(max(0, low - sum(vector[c] for c in whole - g)) for g in self._groups)

    def _after(
        self, at: int, state: FoldState, vector: Counts, floors: Counts, shared: Sequence[Key]
    ) -> FoldState | None:
        used = dict(state.usage)
        for key in shared:
            band = self.rules[key]
            counted, bound = used.get(key, (0, 0))
            counted += band.count(vector)
            bound = min(1, bound + sum(vector[c] for c in band.bound))
            if bound and counted > band.high:
                return None
            if self._last[key] == at:
                used.pop(key, None)
                if self._every and counted < band.low:
                    return None
            else:
                used[key] = (counted, bound)
        total = tuple(a + b for a, b in zip(state.counts, vector, strict=True))
        if self._every:
            if any(have > most for have, most in zip(total, self.counts, strict=True)):
                return None
        else:
            total = tuple(map(min, total, self.counts))
        asked = tuple(a + b for a, b in zip(state.floors, floors, strict=True))
        for group, members in zip(self._groups, asked, strict=True):
            if members > sum(self.counts[c] for c in group):
                return None
        return FoldState(total, asked, tuple(sorted(used.items())))

    def _kept(
        self, reached: dict[FoldState, tuple[FoldState, Counts]]
    ) -> dict[FoldState, tuple[FoldState, Counts]]:
        """Those that are not worse than another in everything."""
        kept = reached
        if not self._every:
            by_usage: dict[Usage, dict[Counts, FoldState]] = {}
            for state in reached:
                worth = (*state.counts, *(-members for members in state.floors))
                by_usage.setdefault(state.usage, {})[worth] = state
            kept = {
                group[worth]: reached[group[worth]]
                for _, group in sorted(by_usage.items())
                for worth in maximal(group, self._stop, self._ways)
            }
        if len(kept) > WIDEST:
            self.exact = False
            best = sorted(kept, key=lambda s: (-sum(s.counts), s))[:WIDEST]
            kept = {state: kept[state] for state in best}
        return kept

    def path(self, state: FoldState) -> list[Chosen]:
        """How each cell takes part in a final state."""
        vectors: list[Counts] = []
        for step in reversed(self._steps[1:]):
            state, vector = step[state]
            vectors.append(vector)
        vectors.reverse()
        if self._every:
            return [Chosen(vector, vector) for vector in vectors]
        lows = [self._low(at) if self._groups else 0 for at in range(len(vectors))]
        floors = self._floors(vectors, lows)
        return [Chosen(v, floor) for v, floor in zip(vectors, floors, strict=True)]

    def _floors(self, vectors: Sequence[Counts], lows: Sequence[int]) -> list[Counts]:
        """Who sits for each lower limit, so that no class gives more than it has."""
        nobody = (0,) * len(self.counts)
        whole = sorted(self._groups[-1]) if self._groups else []
        ways: list[dict[Counts, tuple[Counts, Counts]]] = [{nobody: (nobody, nobody)}]
        for vector, low in zip(vectors, lows, strict=True):
            options = [nobody]
            if low:
                splits = list(islice(ways_down(vector, whole, low), WIDEST + 1))
                if len(splits) > WIDEST:
                    raise TooWide
                options = [
                    tuple(a - b for a, b in zip(vector, rest, strict=True)) for rest in splits
                ]
            step: dict[Counts, tuple[Counts, Counts]] = {}
            for total in ways[-1]:
                if self._stop is not None:
                    self._stop.check()
                for option in options:
                    more = tuple(a + b for a, b in zip(total, option, strict=True))
                    if all(a <= b for a, b in zip(more, self.counts, strict=True)):
                        step.setdefault(more, (total, option))
            ways.append(step)
        total = next(iter(ways[-1]))
        floors: list[Counts] = []
        for step in reversed(ways[1:]):
            total, option = step[total]
            floors.append(option)
        return floors[::-1]


def under(
    vectors: Pattern, band: Band, stop: Stop | None = None, ways: Ways | None = None
) -> Pattern:
    """The maximal vectors that keep a band's upper limit. Raises OutOfTime, TooWide."""
    if all(vector in band for vector in vectors):
        return vectors
    lowered: list[Counts] = []
    if band.high >= 0:
        lowered += below(vectors, [(band.counted, band.high)], stop, ways)
    if band.high < 0 or not band.counted <= band.bound:
        lowered += [
            tuple(0 if c in band.bound else k for c, k in enumerate(vector)) for vector in vectors
        ]
    return maximal(lowered, stop, ways)
