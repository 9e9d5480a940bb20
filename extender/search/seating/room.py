"""How many members fit while units are chosen and put back, one region at a time.

A region is the set of nodes that seats may use (the whole cluster, or one
topology domain). Room keeps, per node, the amounts free under the units chosen
so far, and groups nodes whose pattern is the same: whether the gang fits is
then a sum over the few different patterns, not over thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from msgspec.structs import replace

from extender.search.problem import Cap, Problem, Spread
from extender.search.problem.stop import Stop
from extender.search.seating.fold import Chosen, Fold, FoldState, Key
from extender.search.seating.patterns import (
    Counts,
    Pattern,
    PatternSum,
    Ways,
    endless,
    join,
    node_pattern,
    times,
)
from extender.search.seating.spread import Band, BandCase, cases, most_cases


class Cell(NamedTuple):
    """Nodes that no rule over several nodes tells apart."""

    domains: tuple[int, ...]
    """Their domain under each wide cap, then under each spread rule; -1 for none."""
    total: PatternSum
    """What they seat together."""
    groups: list[tuple[Pattern, int]]
    """Their patterns, and how many nodes have each."""


class Room:
    """Seats available in one region under a changing set of chosen units."""

    def __init__(self, problem: Problem, region: Sequence[int], ways: Ways | None = None) -> None:
        """Raises TooWide once ``ways`` are used up; ``ways_known`` lifts that bound."""
        self.problem = problem
        self._ways = ways
        self.region = tuple(
            n for n in region if any(cls.allowed[n] and cls.count for cls in problem.classes)
        )
        self.chosen: set[int] = set()
        self.exact = True
        """False once a packing, or the ways to spread, were too many to be searched in full."""
        self.stop: Stop | None = None
        """Where there is one, ``fits`` raises OutOfTime."""
        inside = set(self.region)
        self._counts: Counts = tuple(cls.count for cls in problem.classes)
        self._least: Counts = tuple(cls.least for cls in problem.classes)
        self._free = {n: [column[n] for column in problem.free] for n in self.region}
        self._blocked: dict[int, list[int]] = {}
        self._lifts: dict[int, list[tuple[int, int]]] = {}
        in_the_way: dict[tuple[int, int], set[int]] = {}
        for blocker in problem.blockers:
            if blocker.node in inside:
                in_the_way.setdefault((blocker.node, blocker.cls), set()).update(blocker.units)
        for (n, cls), units in in_the_way.items():
            self._blocked.setdefault(n, [0] * len(problem.classes))[cls] = len(units)
            for unit in units:
                self._lifts.setdefault(unit, []).append((n, cls))
        self._releases = [
            tuple((n, amounts) for n, amounts in unit.releases if n in inside)
            for unit in problem.units
        ]
        self._rules(inside)
        self._patterns: dict[tuple[object, ...], Pattern] = {}
        self._most_of: dict[Pattern, int] = {}
        self._now: dict[int, Pattern] = {}
        self._groups: dict[tuple[tuple[int, ...], Pattern], int] = {}
        self._sums: dict[tuple[Pattern, int], PatternSum] = {}
        self.cases = cases(problem, self.region)
        """Limits of the spread rules: every answer keeps one of these sets."""
        most = most_cases(problem)
        if len(self.cases) > most:
            del self.cases[most:]
            self.exact = False
        self._simple = len(problem.classes) == 1 and not self._wide and not problem.spreads
        self._seats = 0
        for n in self.region:
            self._refresh(n)

    def _rules(self, inside: set[int]) -> None:
        """Sort the caps: those that bind on one node only become part of its pattern."""
        self._limits: dict[int, tuple[tuple[frozenset[int], int], ...]] = {}
        self._wide: list[int] = []
        for index, cap in enumerate(self.problem.caps):
            seen: set[int] = set()
            for n in self.region:
                domain = cap.domain[n]
                if domain >= 0:
                    rule = (frozenset(cap.classes), cap.limit)
                    self._limits[n] = (*self._limits.get(n, ()), rule)
                    if domain in seen and index not in self._wide:
                        self._wide.append(index)
                    seen.add(domain)
        rules: list[Cap | Spread] = [self.problem.caps[index] for index in self._wide]
        self._bands: dict[Key, Band] = {}
        for at, index in enumerate(self._wide):
            cap = self.problem.caps[index]
            classes = frozenset(cap.classes)
            band = Band(classes, classes, 0, cap.limit)
            self._bands |= {(at, cap.domain[n]): band for n in self.region if cap.domain[n] >= 0}
        rules += self.problem.spreads
        self._cell = {n: tuple(rule.domain[n] for rule in rules) for n in self.region}

    def ways_known(self) -> None:
        """Take the work on patterns so far for all there is to come.

        To be said once every unit is chosen: no node has more ways than then.
        """
        self._ways = None

    def relevant(self, unit: int) -> bool:
        """Whether choosing the unit can change anything in this region."""
        return bool(self._releases[unit]) or unit in self._lifts

    def touched(self, unit: int) -> tuple[int, ...]:
        """Nodes of the region that the unit changes."""
        nodes = [n for n, _ in self._releases[unit]]
        return tuple(dict.fromkeys(nodes + [n for n, _ in self._lifts.get(unit, ())]))

    def choose(self, units: Iterable[int]) -> None:
        """Take these units (not chosen so far) away from their nodes."""
        self._move(units, 1)

    def put_back(self, units: Iterable[int]) -> None:
        """Undo ``choose``."""
        self._move(units, -1)

    def _move(self, units: Iterable[int], sign: int) -> None:
        touched: set[int] = set()
        for unit in units:
            if sign > 0:
                self.chosen.add(unit)
            else:
                self.chosen.remove(unit)
            for n, amounts in self._releases[unit]:
                free = self._free[n]
                for r, amount in enumerate(amounts):
                    free[r] += sign * amount
                touched.add(n)
            for n, cls in self._lifts.get(unit, ()):
                self._blocked[n][cls] -= sign
                touched.add(n)
        for n in touched:
            self._refresh(n)

    def _refresh(self, n: int) -> None:
        pattern = self._pattern(n)
        old = self._now.get(n)
        if old == pattern:
            return
        cell = self._cell[n]
        if old is not None:
            self._groups[cell, old] -= 1
            if not self._groups[cell, old]:
                del self._groups[cell, old]
            self._seats -= self.seats_of(old)
        self._now[n] = pattern
        self._groups[cell, pattern] = self._groups.get((cell, pattern), 0) + 1
        self._seats += self.seats_of(pattern)

    def _pattern(self, n: int) -> Pattern:
        classes = self.problem.classes
        waiting = self._blocked.get(n)
        most = tuple(
            cls.count if cls.allowed[n] and not (waiting and waiting[c]) else 0
            for c, cls in enumerate(classes)
        )
        limits = self._limits.get(n, ())
        key = (tuple(self._free[n]), most, limits)
        found = self._patterns.get(key)
        if found is None:
            requests = [cls.request for cls in classes]
            found = node_pattern(self._free[n], requests, most, limits, self._ways)
            self._patterns[key] = found
        return found

    def amounts(self, n: int) -> tuple[int, ...]:
        """(R,) amounts free on node n under the units chosen now."""
        return tuple(self._free[n])

    def must(self, unit: int, n: int) -> bool:
        """Whether node n seats nobody before this unit goes (one class only)."""
        return len(self.problem.classes) == 1 and any(
            node == n for node, _ in self._lifts.get(unit, ())
        )

    def shut(self, n: int) -> int:
        """How many units still keep everybody off node n (0 with several classes)."""
        waiting = self._blocked.get(n)
        return waiting[0] if waiting and len(waiting) == 1 else 0

    def limit(self, n: int) -> int:
        """No more members than this on node n, room and blockers aside."""
        most = [cls.count if cls.allowed[n] else 0 for cls in self.problem.classes]
        total = sum(most)
        rules = self._limits.get(n, ())
        return min([total, *(total - sum(most[c] for c in cs) + limit for cs, limit in rules)])

    def seats_of(self, pattern: Pattern) -> int:
        """The most members, of any class, that the pattern seats."""
        if pattern not in self._most_of:
            self._most_of[pattern] = max(sum(vector) for vector in pattern)
        return self._most_of[pattern]

    def seats_on(self, n: int) -> int:
        """The most members that node n seats now."""
        return self.seats_of(self._now[n])

    @property
    def seats(self) -> int:
        """An upper limit of the members seated: every node at its best, wide caps aside."""
        return self._seats

    def fits(self) -> bool:
        """Whether need and every least are met under the units chosen now."""
        wanted = max(self.problem.need, sum(self._least))
        if self._seats < wanted or not self.cases:
            return False
        if self._simple:
            return True
        cells, ways = self._cells(), self._bound()
        return any(self._target(self._fold(cells, case, ways)) is not None for case in self.cases)

    def hopeless(self) -> bool:
        """Whether it is sure that ``fits`` does not hold."""
        return not self.fits()

    def best(self, ways: Ways) -> Counts:
        """The (C,) counts that come nearest to what is wanted, for explanations.

        Upper limits count, lower limits of spread rules do not. Raises TooWide once ``ways``
        are used up.
        """
        cells = self._cells(ways)
        upper: list[BandCase] = [
            {key: replace(band, low=0) for key, band in case.items()} for case in self.cases or [{}]
        ]
        counts = [state.counts for case in upper for state in self._fold(cells, case, ways).states]
        least = self._least
        return max(
            counts,
            key=lambda v: (
                sum(min(a, b) for a, b in zip(v, least, strict=True)),
                sum(v),
                v,
            ),
        )

    def _target(self, fold: Fold) -> FoldState | None:
        """The fullest final state that seats everybody who must sit."""
        return max(
            (
                state
                for state in fold.states
                if sum(state.counts) >= self.problem.need
                and all(a >= b for a, b in zip(state.counts, self._least, strict=True))
            ),
            key=lambda state: (sum(state.counts), state),
            default=None,
        )

    def _cells(self, ways: Ways | None = None) -> list[Cell]:
        """The region's nodes, grouped by their domains under the rules over several nodes."""
        order = sorted(self._groups.items(), key=lambda item: (item[0][0], item[0][1]))
        cells = []
        for cell, items in groupby(order, key=lambda item: item[0][0]):
            groups = [(pattern, nodes) for (_, pattern), nodes in items]
            total: PatternSum | None = None
            for pattern, nodes in groups:
                part = self._sums.get((pattern, nodes))
                if part is None:
                    part = times(pattern, nodes, self._counts, self.stop, ways)
                    self._sums[pattern, nodes] = part
                total = part if total is None else join(total, part, self._counts, self.stop, ways)
            assert total is not None
            self.exact = self.exact and total.exact
            cells.append(Cell(cell, total, groups))
        return cells

    def _bound(self) -> Ways | None:
        """The bound of one question's work, where the clock has none."""
        return self._ways or (Ways() if endless(self.stop) else None)

    def _fold(self, cells: Sequence[Cell], case: BandCase, ways: Ways | None) -> Fold:
        """Everything that the cells seat together under the wide caps and one case."""
        first = len(self._wide)
        rules = self._bands | {
            (first + index, domain): band for (index, domain), band in case.items()
        }
        fold = Fold(
            [(cell.domains, cell.total.vectors) for cell in cells],
            rules,
            self._counts,
            self.stop,
            ways,
        )
        self.exact = self.exact and fold.exact
        return fold

    def place(self) -> tuple[tuple[int, int, int], ...]:
        """Seats (class, node, members) under the units chosen now; ``fits`` holds.

        As many members as are needed (with ``fill`` all that fit; more than needed also
        where a spread rule asks for them). The nodes that the chosen units leave come
        first (their room was paid for), then the nodes that seat most, then by index.
        """
        cells, ways = self._cells(), self._bound()
        answers = [
            self._answer(fold, state)
            for fold in (self._fold(cells, case, ways) for case in self.cases)
            if (state := self._target(fold)) is not None
        ]
        if not answers:
            raise ValueError("place() asks for seats where the gang does not fit")
        sign = -1 if self.problem.fill else 1
        wanted, path = min(answers, key=lambda answer: sign * sum(answer[0]))
        floors = {cell.domains: chosen.floor for cell, chosen in zip(cells, path, strict=True)}
        seats: dict[int, Counts] = {}
        for cell, chosen in zip(cells, path, strict=True):
            source = next(
                v
                for v in cell.total.vectors
                if all(a >= b for a, b in zip(v, chosen.vector, strict=True))
            )
            members: dict[tuple[Pattern, int], list[int]] = {key: [] for key in cell.groups}
            for n in self._order():
                if self._cell[n] == cell.domains:
                    pattern = self._now[n]
                    members[pattern, self._groups[cell.domains, pattern]].append(n)
            nodes = [n for group in cell.groups for n in members[group]]
            inside = dict(zip(nodes, cell.total.leaves(source), strict=True))
            seats |= self._trim(inside, chosen.vector, {})
        return tuple(
            sorted(
                (cls, n, members)
                for n, vector in self._trim(seats, wanted, floors).items()
                for cls, members in enumerate(vector)
                if members
            )
        )

    def _answer(self, fold: Fold, state: FoldState) -> tuple[Counts, list[Chosen]]:
        """(C,) members to seat, what must be first, and what each cell does for it."""
        path = fold.path(state)
        if self.problem.fill:
            return state.counts, path
        floors = _sum((chosen.floor for chosen in path), self._least)
        wanted = [max(a, b) for a, b in zip(self._least, floors, strict=True)]
        for cls, most in enumerate(state.counts):
            wanted[cls] += max(0, min(most - wanted[cls], self.problem.need - sum(wanted)))
        return tuple(wanted), path

    def _order(self) -> list[int]:
        freed = {n for unit in self.chosen for n in self.touched(unit)}
        return sorted(self.region, key=lambda n: (n not in freed, -self.seats_on(n), n))

    def _trim(
        self, seats: dict[int, Counts], wanted: Counts, floors: Mapping[tuple[int, ...], Counts]
    ) -> dict[int, Counts]:
        """Drop members beyond ``wanted`` from the least welcome nodes.

        ``floors``: members that each cell keeps, whatever the others could take.
        """
        owed = {cell: list(floor) for cell, floor in floors.items()}
        left = [a - b for a, b in zip(wanted, _sum(floors.values(), wanted), strict=True)]
        kept: dict[int, Counts] = {}
        for n in self._order():
            if n in seats:
                mine = owed.get(self._cell[n], [0] * len(left))
                vector = tuple(
                    min(have, more + own)
                    for have, more, own in zip(seats[n], left, mine, strict=True)
                )
                for c, used in enumerate(vector):
                    first = min(used, mine[c])
                    mine[c] -= first
                    left[c] -= used - first
                kept[n] = vector
        return kept


def _sum(vectors: Iterable[Counts], like: Counts) -> Counts:
    total = (0,) * len(like)
    for vector in vectors:
        total = tuple(a + b for a, b in zip(total, vector, strict=True))
    return total
