"""How many members fit while units are chosen and put back, one region at a time.

A region is the set of nodes that seats may use (the whole cluster, or one
topology domain). Room keeps, per node, the amounts free under the units chosen
so far, and groups nodes whose pattern is the same: whether the gang fits is
then a sum over the few different patterns, not over thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from extender.search.packing import (
    WIDEST,
    Counts,
    Pattern,
    Sum,
    all_below,
    below,
    join,
    maximal,
    node_pattern,
    times,
)
from extender.search.problem import Problem

Usage = tuple[tuple[tuple[int, int], int], ...]
"""((cap, domain), members so far) of the domains that still have nodes to come."""


class Room:
    """Seats available in one region under a changing set of chosen units."""

    def __init__(self, problem: Problem, region: Sequence[int]) -> None:
        self.problem = problem
        self.region = tuple(
            n for n in region if any(cls.allowed[n] and cls.count for cls in problem.classes)
        )
        self.chosen: set[int] = set()
        self.exact = True
        """False once a packing was too wide to be searched in full."""
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
        self._now: dict[int, Pattern] = {}
        self._groups: dict[tuple[tuple[int, ...], Pattern], int] = {}
        self._sums: dict[tuple[Pattern, int], Sum] = {}
        self._simple = len(problem.classes) == 1 and not self._wide
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
        caps = [self.problem.caps[index] for index in self._wide]
        self._cell = {n: tuple(cap.domain[n] for cap in caps) for n in self.region}

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
            found = node_pattern(self._free[n], [cls.request for cls in classes], most, limits)
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
        return max(sum(vector) for vector in pattern)

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
        if self._seats < wanted:
            return False
        if self._simple:
            return True
        return self._target(self._best()[-1]) is not None

    def best(self) -> Counts:
        """The (C,) counts that come nearest to what is wanted, for explanations."""
        counts = [state[0] for state in self._best()[-1]]
        least = self._least
        return max(
            counts,
            key=lambda v: (
                sum(min(a, b) for a, b in zip(v, least, strict=True)),
                sum(v),
                v,
            ),
        )

    def _target(self, states: Iterable[tuple[Counts, Usage]]) -> tuple[Counts, Usage] | None:
        for state in sorted(states, key=lambda s: (sum(s[0]), s), reverse=True):
            vector = state[0]
            if sum(vector) >= self.problem.need and all(
                have >= least for have, least in zip(vector, self._least, strict=True)
            ):
                return state
        return None

    def _cells(self) -> list[tuple[tuple[int, ...], Sum, list[tuple[Pattern, int]]]]:
        """Per cell (nodes that the wide caps do not tell apart): the sum of its patterns."""
        order = sorted(self._groups.items(), key=lambda item: (item[0][0], item[0][1]))
        cells = []
        for cell, items in groupby(order, key=lambda item: item[0][0]):
            groups = [(pattern, nodes) for (_, pattern), nodes in items]
            total: Sum | None = None
            for pattern, nodes in groups:
                part = self._sums.get((pattern, nodes))
                if part is None:
                    part = self._sums[pattern, nodes] = times(pattern, nodes, self._counts)
                total = part if total is None else join(total, part, self._counts)
            assert total is not None
            self.exact = self.exact and total.exact
            cells.append((cell, total, groups))
        return cells

    def _best(self) -> list[dict[tuple[Counts, Usage], tuple[tuple[Counts, Usage], Counts]]]:
        """Reachable (counts, usage of open domains) after each cell, with where from.

        A wide cap's domain is open from its first to its last cell; outside of
        that its use no longer matters. Cells whose domains are all their own
        need only their maximal vectors within the limits.
        """
        caps = [self.problem.caps[index] for index in self._wide]
        cells = self._cells()
        last: dict[tuple[int, int], int] = {}
        first: dict[tuple[int, int], int] = {}
        for position, (cell, _, _) in enumerate(cells):
            for index, domain in enumerate(cell):
                if domain >= 0:
                    last[index, domain] = position
                    first.setdefault((index, domain), position)
        zero: tuple[Counts, Usage] = ((0,) * len(self._counts), ())
        steps: list[dict[tuple[Counts, Usage], tuple[tuple[Counts, Usage], Counts]]] = [
            {zero: (zero, zero[0])}
        ]
        for position, (cell, total, _) in enumerate(cells):
            keys = [(index, domain) for index, domain in enumerate(cell) if domain >= 0]
            own = [k for k in keys if first[k] == last[k]]
            shared = [k for k in keys if first[k] != last[k]]
            options = below(
                total.vectors, [(frozenset(caps[i].classes), caps[i].limit) for i, _ in own]
            )
            steps.append(
                self._step(steps[-1], options, shared, {k for k in shared if last[k] == position})
            )
        return steps

    def _step(
        self,
        states: Iterable[tuple[Counts, Usage]],
        options: Pattern,
        shared: Sequence[tuple[int, int]],
        closing: set[tuple[int, int]],
    ) -> dict[tuple[Counts, Usage], tuple[tuple[Counts, Usage], Counts]]:
        caps = [self.problem.caps[index] for index in self._wide]
        vectors = all_below(options) if shared else options
        reached: dict[tuple[Counts, Usage], tuple[tuple[Counts, Usage], Counts]] = {}
        for state in states:
            counts, usage = state
            for vector in vectors:
                used = dict(usage)
                for key in shared:
                    more = sum(vector[c] for c in set(caps[key[0]].classes))
                    used[key] = used.get(key, 0) + more
                if any(used[key] > caps[key[0]].limit for key in shared):
                    continue
                total = tuple(
                    min(a + b, most)
                    for a, b, most in zip(counts, vector, self._counts, strict=True)
                )
                rest = tuple(sorted((k, v) for k, v in used.items() if k not in closing))
                reached.setdefault((total, rest), (state, vector))
        by_usage: dict[Usage, list[Counts]] = {}
        for counts, usage in reached:
            by_usage.setdefault(usage, []).append(counts)
        kept = {
            (counts, usage): reached[counts, usage]
            for usage, group in sorted(by_usage.items())
            for counts in maximal(group)
        }
        if len(kept) > WIDEST:
            self.exact = False
            best = sorted(kept, key=lambda s: (-sum(s[0]), s))[:WIDEST]
            kept = {state: kept[state] for state in best}
        return kept

    def place(self) -> tuple[tuple[int, int, int], ...]:
        """Seats (class, node, members) under the units chosen now; ``fits`` holds.

        Exactly as many members as are needed (with ``fill`` all that fit). The
        nodes that the chosen units leave come first (their room was paid for),
        then the nodes that seat most, then by index.
        """
        steps = self._best()
        state = self._target(steps[-1])
        if state is None:
            raise ValueError("place() asks for seats where the gang does not fit")
        final = state[0]
        per_cell: list[Counts] = []
        for step in reversed(steps[1:]):
            state, vector = step[state]
            per_cell.append(vector)
        seats: dict[int, Counts] = {}
        for (cell, total, groups), option in zip(self._cells(), reversed(per_cell), strict=True):
            source = next(
                v for v in total.vectors if all(a >= b for a, b in zip(v, option, strict=True))
            )
            members = {key: [] for key in groups}  # type: dict[tuple[Pattern, int], list[int]]
            for n in self._order():
                if self._cell[n] == cell:
                    pattern = self._now[n]
                    members[pattern, self._groups[cell, pattern]].append(n)
            nodes = [n for group in groups for n in members[group]]
            inside = dict(zip(nodes, total.leaves(source), strict=True))
            seats |= self._trim(inside, option)
        wanted = self._wanted(final)
        return tuple(
            sorted(
                (cls, n, members)
                for n, vector in self._trim(seats, wanted).items()
                for cls, members in enumerate(vector)
                if members
            )
        )

    def _wanted(self, reachable: Counts) -> Counts:
        """Counts to seat: every least, then classes in order until need is met."""
        if self.problem.fill:
            return reachable
        wanted = list(self._least)
        for cls, most in enumerate(reachable):
            wanted[cls] += max(0, min(most - wanted[cls], self.problem.need - sum(wanted)))
        return tuple(wanted)

    def _order(self) -> list[int]:
        freed = {n for unit in self.chosen for n in self.touched(unit)}
        return sorted(self.region, key=lambda n: (n not in freed, -self.seats_on(n), n))

    def _trim(self, seats: dict[int, Counts], wanted: Counts) -> dict[int, Counts]:
        """Drop members beyond ``wanted`` from the least welcome nodes."""
        left = list(wanted)
        kept: dict[int, Counts] = {}
        for n in self._order():
            if n in seats:
                vector = tuple(map(min, seats[n], left))
                left = [have - used for have, used in zip(left, vector, strict=True)]
                kept[n] = vector
        return kept
