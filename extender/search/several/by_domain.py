"""A gang over several topology domains: every domain on its own, then all together.

A cap or spread rule says how many members each domain may and must take. When no unit
has room in two domains, the least cost of k seats in a domain is that domain's matter,
and the best split of the demand over the domains is the optimum: few values of k
matter under a spread rule. A unit with room in several domains (a whole gang, pods of
an elastic one) is paid in shares, one for each of them; then the sum is a lower bound,
since whoever chooses the unit pays all its shares. Branching on such units closes
the gap.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import ceil, lcm

from msgspec import Struct
from msgspec.structs import replace

from extender.search.core.branch_and_bound import BranchAndBound
from extender.search.core.columns import Columns
from extender.search.problem import Problem, Vector
from extender.search.problem.cost import add, cost_of
from extender.search.problem.stop import Stop

Split = Mapping[int, tuple[int, int]]
"""Domain -> members at least, at most."""

FINEST = 2520
"""A unit's cost is shared out in so many parts at most."""
MOST_ASKED = 64
"""More (domain, members) pairs than this are not asked."""


class DomainBound(Struct, frozen=True):
    """What the relaxation says about a branch."""

    bound: Vector
    """Least cost of what comes on top of the units gone."""
    units: frozenset[int]
    """Units to choose for it."""
    torn: frozenset[int]
    """Those of them that are chosen, and paid, in some of their domains only."""


DomainAnswer = tuple[Vector, tuple[frozenset[int], ...]]
"""Shared cost, and the units chosen in each domain."""


class ByDomain:
    """One class, one rule over several nodes, in one region."""

    def __init__(
        self,
        alone: Problem,
        domain: array[int],
        splits: Sequence[Split],
        region: Sequence[int],
    ) -> None:
        """``alone`` has the one class; ``splits`` are alternatives, over the same domains.

        Raises Doubtful when shares of the costs are too wide for the core.
        """
        allowed = alone.classes[0].allowed
        self.need = alone.need
        self.splits = splits
        nodes: dict[int, list[int]] = {}
        for n in region:
            if allowed[n]:
                nodes.setdefault(domain[n], []).append(n)
        self.domains = sorted(nodes)
        self.inside = {d: _mask(len(alone.nodes), nodes[d]) for d in self.domains}
        self._touches = _touches(alone, domain, region)
        self.scale, self.problem = _shared(alone, self._touches)
        self.columns = Columns(self.problem)
        self._tied = {u for u, unit in enumerate(alone.units) if unit.gang >= 0 or unit.budgets}
        """Units whose end may matter in any domain,"""
        self._here: dict[int, set[int]] = {d: set() for d in self.domains}
        """and in each those that matter there."""
        for u, where in self._touches.items():
            for d in where & self._here.keys():
                self._here[d].add(u)
        self._known: dict[object, tuple[Vector, frozenset[int]] | None] = {}
        """Answers, by domain, members, and what is gone and kept of the units that matter there."""
        self.worthwhile = len(self.domains) > 1 and all(
            sum(high - low + 1 for low, high in self._ranges(split)) <= MOST_ASKED
            for split in splits
        )

    def _ranges(self, split: Split) -> list[tuple[int, int]]:
        """(least, most) members of each domain that has nodes; outside all of them any."""
        ranges = (split.get(d, (0, self.need)) for d in self.domains)
        return [(low, max(low, min(high, self.need))) for low, high in ranges]

    def relax(self, gone: frozenset[int], kept: frozenset[int], stop: Stop) -> DomainBound | None:
        """The cheapest split of the members over the domains; None: there is none."""
        best: DomainAnswer | None = None
        for split in self.splits:
            if any(low > 0 for d, (low, _) in split.items() if d not in self.inside):
                continue
            found = self._together(split, gone, kept, stop)
            if found is not None and (best is None or found[0] < best[0]):
                best = found
        if best is None:
            return None
        times = Counter(u for units in best[1] for u in units)
        torn = frozenset(u for u, often in times.items() if often < len(self._touches[u]))
        return DomainBound(_raised(best[0], self.scale), frozenset(times), torn)

    def _together(
        self, split: Split, gone: frozenset[int], kept: frozenset[int], stop: Stop
    ) -> DomainAnswer | None:
        """The cheapest way to reach the need, each domain within its limits."""
        nothing = (0,) * len(self.problem.levels)
        reached: dict[int, DomainAnswer] = {0: (nothing, ())}
        for d, (low, high) in zip(self.domains, self._ranges(split), strict=True):
            step: dict[int, DomainAnswer] = {}
            related = tuple(
                (units & self._tied) | (units & self._here[d]) for units in (gone, kept)
            )
            for members in range(low, high + 1):
                key = (d, members, *related)
                if key not in self._known:
                    self._known[key] = self._ask(d, members, gone, kept, stop)
                value = self._known[key]
                if value is None:
                    break
                stop.check()
                for seats, (cost, units) in reached.items():
                    total = min(self.need, seats + members)
                    more = add(cost, value[0])
                    if total not in step or more < step[total][0]:
                        step[total] = (more, (*units, value[1]))
            reached = step
        return reached.get(self.need)

    def _ask(
        self, d: int, members: int, gone: frozenset[int], kept: frozenset[int], stop: Stop
    ) -> tuple[Vector, frozenset[int]] | None:
        """The least (shared) cost of so many seats in a domain; None when there is no way."""
        nothing = (0,) * len(self.problem.levels)
        if members == 0:
            return nothing, frozenset()
        core = BranchAndBound(self.columns, self.inside[d], -1, gone, kept, members)
        if not core.possible:
            return None
        if core.settled_free:
            return nothing, frozenset(core.free_answer())
        stop.check()
        chosen, bound, closed, branches = core.search(
            None, max(1, stop.left), stop.deadline, stop.cancel
        )
        stop.used += branches - 1
        if chosen is None:
            return None if closed else (bound or nothing, frozenset())
        units = frozenset(chosen)
        if not closed:
            return bound or nothing, units
        before = cost_of(self.problem, gone)
        after = cost_of(self.problem, gone | units)
        return tuple(b - a for a, b in zip(before, after, strict=True)), units


def _mask(nodes: int, inside: Sequence[int]) -> bytes:
    mask = bytearray(nodes)
    for n in inside:
        mask[n] = 1
    return bytes(mask)


def _touches(problem: Problem, domain: array[int], region: Sequence[int]) -> dict[int, set[int]]:
    """Unit -> domains in which its end can make a seat."""
    inside = set(region)
    found: dict[int, set[int]] = {}
    for u, unit in enumerate(problem.units):
        where = {domain[n] for n, _ in unit.releases if n in inside}
        if where:
            found[u] = where
    for blocker in problem.blockers:
        if blocker.node in inside:
            for u in blocker.units:
                found.setdefault(u, set()).add(domain[blocker.node])
    return found


def _shared(problem: Problem, touches: Mapping[int, set[int]]) -> tuple[int, Problem]:
    """(scale, the problem with each cost times scale over the domains it is paid in)."""
    gangs: list[set[int]] = [set() for _ in problem.gangs]
    for u, where in touches.items():
        if problem.units[u].gang >= 0:
            gangs[problem.units[u].gang] |= where
    shares = {len(where) for where in (*touches.values(), *gangs) if where}
    scale = min(FINEST, lcm(*shares))
    if scale == 1:
        return 1, problem

    def share(cost: Vector, parts: int) -> Vector:
        return tuple(amount * scale // max(1, parts) for amount in cost)

    units = tuple(
        replace(unit, cost=share(unit.cost, len(touches.get(u, ()))))
        for u, unit in enumerate(problem.units)
    )
    elastic = tuple(
        replace(gang, break_cost=share(gang.break_cost, len(where)))
        for gang, where in zip(problem.gangs, gangs, strict=True)
    )
    return scale, replace(problem, units=units, gangs=elastic)


def _raised(value: Vector, scale: int) -> Vector:
    """The least whole cost not below value / scale: up at the first fraction, then nothing."""
    raised: list[int] = []
    for level, amount in enumerate(value):
        raised.append(ceil(Fraction(amount, scale)))
        if amount % scale:
            return (*raised, *(0 for _ in value[level + 1 :]))
    return tuple(raised)
