"""Some answer, soon: members seated one class after the other, wherever they fit first.

It takes work in proportion to classes times nodes, whatever the classes are, so it
has an answer where nothing else comes to an end. Proved is nothing.

1. Units that cost nothing, and those that a caller thinks will do, are gone: who fits now
   takes a seat.
2. For the others everybody goes whom the hard budgets let go, nodes that cost least first.
3. Then every unit stays, the dearest first, whose room is not used by a seat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from msgspec.structs import replace

from extender.search.problem import Problem, Vector
from extender.search.problem.cost import broken_budgets, is_free
from extender.search.problem.stop import Stop
from extender.search.problem.types import Seats


def first_fit(
    problem: Problem, nodes: Sequence[int], hint: Iterable[int], stop: Stop
) -> tuple[Seats, tuple[int, ...]] | None:
    """Seats on these nodes, and the units to choose for them; None: no member-by-member way
    was found, which says nothing about others. ``hint``: units to choose first.

    Rules over several nodes are kept as kube-scheduler's filters keep them, one member after
    the other; an answer has to be verified. Raises OutOfTime (see Stop.check_first).
    """
    seating = _Seating(problem, nodes, stop)
    seating.choose([u for u in range(len(problem.units)) if is_free(problem, u)])
    seating.choose(hint)
    if not seating.all_sit():
        order = sorted(
            (u for u in range(len(problem.units)) if u not in seating.gone),
            key=lambda u: (problem.units[u].cost, problem.units[u].uid),
        )
        seating.choose(order)
        if not seating.all_sit():
            return None
    seating.put_back()
    return seating.seats(), tuple(sorted(seating.gone))


def seated_without(problem: Problem, nodes: Sequence[int]) -> tuple[int, ...]:
    """(C,) members that find a seat on these nodes, one class after the other, with every unit
    gone whatever the budgets say."""
    unbounded = replace(problem, budgets=tuple(replace(b, hard=False) for b in problem.budgets))
    seating = _Seating(unbounded, nodes, Stop())
    seating.choose(range(len(problem.units)))
    seating.all_sit()
    return tuple(cls.count - left for cls, left in zip(problem.classes, seating.left, strict=True))


class _Seating:
    def __init__(self, problem: Problem, nodes: Sequence[int], stop: Stop) -> None:
        self.problem = problem
        self.nodes = nodes
        self.stop = stop
        self.gone: set[int] = set()
        self.room = [list(column) for column in problem.free]
        self.sits: dict[tuple[int, int], int] = {}
        self.left = [cls.count for cls in problem.classes]
        self._in_the_way: dict[tuple[int, int], set[int]] = {}
        for blocker in problem.blockers:
            at = (blocker.cls, blocker.node)
            self._in_the_way.setdefault(at, set()).update(blocker.units)
        self._caps = [
            [cap for cap in problem.caps if c in cap.classes] for c in range(len(problem.classes))
        ]
        self._load: dict[tuple[int, int], int] = {}
        """(id of a cap, domain) -> members there."""
        self._there = [list(rule.most) for rule in problem.spreads]
        self._low = [list(rule.fewest) for rule in problem.spreads]
        self._least = [min(low, default=0) for low in self._low]
        """(S,) the count of each rule's emptiest domain."""
        self._taken = [0] * len(problem.budgets)

    def choose(self, units: Iterable[int]) -> None:
        """Let these go, as far as the hard budgets allow."""
        for u in units:
            unit = self.problem.units[u]
            budgets = self.problem.budgets
            if u in self.gone or any(
                budgets[b].hard and self._taken[b] + pods > budgets[b].allowed
                for b, pods in unit.budgets
            ):
                continue
            self.gone.add(u)
            for b, pods in unit.budgets:
                self._taken[b] += pods
            for n, amounts in unit.releases:
                for column, amount in zip(self.room, amounts, strict=True):
                    column[n] += amount

    def all_sit(self) -> bool:
        """Seat who is left; whether as many sit as have to."""
        classes = self.problem.classes
        least = [min((cls.request[r] for cls in classes), default=0) for r in range(len(self.room))]
        asked = [(column, ask) for column, ask in zip(self.room, least, strict=True) if ask > 0]
        some = [n for n in self.nodes if all(column[n] >= ask for column, ask in asked)]
        dear = self._dear()
        some.sort(key=lambda n: (dear.get(n, ()), n))
        order = sorted(
            range(len(classes)),
            key=lambda c: (sum(classes[c].allowed), tuple(-a for a in classes[c].request), c),
        )
        want = max(self.problem.need, sum(cls.least for cls in classes))
        for must in (True, False):
            for c in order:
                self.stop.check_first()
                goal = classes[c].least if must else classes[c].count
                if not must and not self.problem.fill:
                    goal = min(goal, self._seated(c) + max(0, want - self._all_seated()))
                if self._seated(c) < goal:
                    self._seat(c, goal, some)
        return self._all_seated() >= want and all(
            self._seated(c) >= cls.least for c, cls in enumerate(classes)
        )

    def _dear(self) -> dict[int, Vector]:
        """Node -> what those cost that are gone there and need not be."""
        found: dict[int, Vector] = {}
        for u in self.gone:
            unit = self.problem.units[u]
            if any(unit.cost):
                for n, _ in unit.releases:
                    before = found.get(n, (0,) * len(unit.cost))
                    found[n] = tuple(map(sum, zip(before, unit.cost, strict=True)))
        return found

    def _seated(self, c: int) -> int:
        return self.problem.classes[c].count - self.left[c]

    def _all_seated(self) -> int:
        return sum(cls.count for cls in self.problem.classes) - sum(self.left)

    def _seat(self, c: int, goal: int, nodes: Sequence[int]) -> None:
        cls = self.problem.classes[c]
        bound = [i for i, rule in enumerate(self.problem.spreads) if c in rule.bound]
        open_nodes = [n for n in nodes if cls.allowed[n] and self._fits(c, n) > 0]
        if not bound:
            for n in open_nodes:
                members = min(goal - self._seated(c), self._fits(c, n))
                if members > 0:
                    self._take(c, n, members)
                if self._seated(c) >= goal:
                    return
            return
        rule = self.problem.spreads[bound[0]]
        inside: dict[int, list[int]] = {}
        for n in reversed(open_nodes):
            inside.setdefault(rule.domain[n], []).append(n)
        there = self._there[bound[0]]
        emptiest = [(there[d] if d >= 0 else -1, d) for d in inside]
        heapify(emptiest)
        uneven: list[tuple[int, int]] = []
        while emptiest and self._seated(c) < goal:
            self.stop.check_first()
            _, d = at = heappop(emptiest)
            while inside[d] and self._fits(c, inside[d][-1]) <= 0:
                inside[d].pop()
            here = next(
                (
                    n
                    for n in reversed(inside[d])
                    if self._fits(c, n) > 0 and all(self._even(i, n) for i in bound)
                ),
                None,
            )
            if here is not None:
                self._take(c, here, 1)
                heappush(emptiest, (there[d] if d >= 0 else -1, d))
                while uneven:  # with one more in this domain they may be even
                    heappush(emptiest, uneven.pop())
            elif inside[d]:
                uneven.append(at)

    def _even(self, index: int, n: int) -> bool:
        """Whether the spread rule lets a member of a bound class sit there next."""
        rule = self.problem.spreads[index]
        d = rule.domain[n]
        if d < 0:
            return True
        least = 0 if rule.from_zero else self._least[index]
        return self._there[index][d] + 1 - least <= rule.max_skew

    def _fits(self, c: int, n: int) -> int:
        """Members of the class that still fit on the node; spread rules aside."""
        cls = self.problem.classes[c]
        if self._in_the_way.get((c, n), set()) - self.gone:
            return 0
        fits = self.left[c]
        for column, ask in zip(self.room, cls.request, strict=True):
            if ask > 0:
                fits = min(fits, column[n] // ask)
        for cap in self._caps[c]:
            if cap.domain[n] >= 0:
                fits = min(fits, cap.limit - self._load.get((id(cap), cap.domain[n]), 0))
        return fits

    def _take(self, c: int, n: int, members: int) -> None:
        self.sits[c, n] = self.sits.get((c, n), 0) + members
        self.left[c] -= members
        for column, ask in zip(self.room, self.problem.classes[c].request, strict=True):
            column[n] -= ask * members
        for cap in self._caps[c]:
            if cap.domain[n] >= 0:
                at = (id(cap), cap.domain[n])
                self._load[at] = self._load.get(at, 0) + members
        for i, rule in enumerate(self.problem.spreads):
            if c in rule.counted and rule.domain[n] >= 0:
                low, d = self._low[i], rule.domain[n]
                self._there[i][d] += members
                low[d] += members
                if low[d] - members == self._least[i] and self._least[i] not in low:
                    self._least[i] = min(low)

    def put_back(self) -> None:
        """Let everybody stay, the dearest first, whose room no seat uses."""
        units = self.problem.units
        needed: set[int] = set()
        for c, n in self.sits:
            needed |= self._in_the_way.get((c, n), set())
        used: dict[int, list[int]] = {}
        for c, n in self.sits:
            used.setdefault(n, [])
            used[n] += [r for r, ask in enumerate(self.problem.classes[c].request) if ask > 0]
        order = sorted(self.gone - needed, key=lambda u: (units[u].cost, units[u].uid))
        for u in reversed(order):
            if all(
                self.room[r][n] >= amounts[r]
                for n, amounts in units[u].releases
                for r in used.get(n, ())
            ):
                self.gone.remove(u)
                for n, amounts in units[u].releases:
                    for column, amount in zip(self.room, amounts, strict=True):
                        column[n] -= amount
        assert not broken_budgets(self.problem, self.gone)

    def seats(self) -> Seats:
        """Who sits where."""
        return tuple(sorted((c, n, members) for (c, n), members in self.sits.items()))
