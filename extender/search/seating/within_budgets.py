"""A first answer where hard budgets are scarce: whom to let go so that everybody sits.

Quick ways that take the cheapest units first run out of a budget half way, and then refuse what
fits. Here members are seated one after the other, each where it takes least of what budgets have
left (pods by what remains, as covering heuristics price rows), and a seat that leaves a later
member without one is taken back. Classes that found no seat go first in the next round, and
budgets that were short cost more. The work is bounded by counts, and nothing is proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.search.problem import Problem, Solution, Vector
from extender.search.problem.cost import cost_of, is_free
from extender.search.problem.seat_regions import scattered_seats
from extender.search.problem.stop import Stop
from extender.search.problem.types import Seats
from extender.search.problem.verify import verify

LOOKS = 2_000
"""Times that a node is looked at for one member, some 50 us each; at least twice for each."""
ROUNDS = 12
"""So often it begins anew."""
MOST_SEATED, MOST_PAIRS = 64, 1_000
"""Members, and members times nodes, at most."""
MOST_UNITS = 12
"""Of a node these are weighed, those that cost least of the budgets."""
MOST_SETS = 4
"""Sets of units that make room for one member on one node."""


def within_budgets(
    problem: Problem, nodes: Sequence[int], stop: Stop
) -> tuple[Seats, tuple[int, ...]] | None:
    """Seats on these nodes and the units to choose for them; None: none were found, which says
    nothing. Only with hard budgets, few members and few nodes. Raises OutOfTime as
    Stop.check_first."""
    members = _members(problem)
    few = len(members) <= MOST_SEATED and len(members) * len(nodes) <= MOST_PAIRS
    if not few or not any(budget.hard for budget in problem.budgets):
        return None
    search = _Rounds(problem, nodes, members)
    for _ in range(ROUNDS):
        stop.check_first()
        if search.left <= 0:
            return None
        if search.seat_all():
            return search.answer()
    return None


def _members(problem: Problem) -> list[int]:
    """The class of each member that has to sit; those that may use fewest nodes first."""
    classes = problem.classes
    order = sorted(
        range(len(classes)),
        key=lambda c: (sum(classes[c].allowed), tuple(-a for a in classes[c].request), c),
    )
    seated = [cls.least for cls in classes]
    for c in order:
        seated[c] += max(0, min(classes[c].count - seated[c], problem.need - sum(seated)))
    return [c for c in order for _ in range(seated[c])]


class _Rounds:
    """What is taken and who sits so far, and what earlier rounds have learned."""

    def __init__(self, problem: Problem, nodes: Sequence[int], members: list[int]) -> None:
        self.problem = problem
        self.nodes = nodes
        self.members = members
        self.pairs = len(members) * len(nodes)
        self.left = max(LOOKS, 2 * self.pairs)
        self.gone: set[int] = set()
        self.room = [list(column) for column in problem.free]
        self.taken = [0] * len(problem.budgets)
        self.sits: dict[tuple[int, int], int] = {}
        self.load = [[0] * (1 + max((0, *cap.domain))) for cap in problem.caps]
        self.there = [list(rule.most) for rule in problem.spreads]
        self.low = [list(rule.fewest) for rule in problem.spreads]
        self.scarce = [1.0] * len(problem.budgets)
        self.failed = [0] * len(problem.classes)
        self.shut: set[tuple[int, int]] = set()
        self.on_node: dict[int, list[int]] = {}
        for u, unit in enumerate(problem.units):
            for n, _ in unit.releases:
                self.on_node.setdefault(n, []).append(u)
        self.in_the_way: dict[tuple[int, int], set[int]] = {}
        for blocker in problem.blockers:
            at = (blocker.cls, blocker.node)
            self.in_the_way.setdefault(at, set()).update(blocker.units)
        self._choose([u for u in range(len(problem.units)) if is_free(problem, u)], 1)

    def seat_all(self) -> bool:
        """One round; whether all members sit."""
        self.limit = self.left - max(LOOKS // ROUNDS, self.pairs)
        self.members.sort(key=lambda c: -self.failed[c])
        return self._seat(0)

    def answer(self) -> tuple[Seats, tuple[int, ...]] | None:
        """Who sits where with whom gone, without those who may stay; None if a rule is broken."""
        units = self.problem.units
        seats = tuple(sorted((c, n, members) for (c, n), members in self.sits.items()))
        needed = set().union(*(self.in_the_way.get((c, n), set()) for c, n in self.sits))
        used = {(n, r) for c, n in self.sits for r in self._asked(c)}
        order = sorted(self.gone - needed, key=lambda u: (units[u].cost, units[u].uid))
        for u in reversed(order):
            if all(
                self.room[r][n] >= amount
                for n, amounts in units[u].releases
                for r, amount in enumerate(amounts)
                if (n, r) in used
            ):
                self._choose([u], -1)
        chosen = tuple(sorted(self.gone))
        cost = cost_of(self.problem, chosen, scattered=scattered_seats(self.problem, seats))
        nothing = (0,) * len(cost)
        found = Solution(seats, chosen, cost, nothing, optimal=cost == nothing)
        return None if verify(self.problem, found) else (seats, chosen)

    def _seat(self, at: int) -> bool:
        """Seat the members from this one on."""
        if at == len(self.members):
            return True
        c = self.members[at]
        options = sorted(self._options(c))
        if not options:
            self.failed[c] += 1
            for b, budget in enumerate(self.problem.budgets):
                if budget.hard and self.taken[b] >= budget.allowed:
                    self.scarce[b] *= 1.5
            return False
        tried: list[tuple[int, int]] = []
        for _, _, n, units in options:
            if (c, n) in self.shut:
                continue
            if self.left <= self.limit:
                break
            self._take(c, n, units, 1)
            if self._seat(at + 1):
                return True
            self._take(c, n, units, -1)
            tried.append((c, n))
            self.shut.add((c, n))  # nor does a later member of the class sit there, then
        self.shut.difference_update(tried)
        return False

    def _options(self, c: int) -> Iterator[tuple[float, Vector, int, tuple[int, ...]]]:
        """(price in budgets, cost, node, units to choose) of seats for one more member."""
        problem, cls = self.problem, self.problem.classes[c]
        for n in self.nodes:
            if not cls.allowed[n] or (c, n) in self.shut or not self._ruled(c, n):
                continue
            self.left -= 1
            lack = [
                (r, cls.request[r] - self.room[r][n])
                for r in self._asked(c)
                if cls.request[r] > self.room[r][n]
            ]
            must = tuple(sorted(self.in_the_way.get((c, n), set()) - self.gone))
            for units in self._sets(n, lack, must):
                if self._allowed(units):
                    costs = zip(*(problem.units[u].cost for u in units), strict=True)
                    yield sum(map(self._price, units)), tuple(map(sum, costs)), n, units

    def _sets(
        self, n: int, lack: list[tuple[int, int]], must: tuple[int, ...]
    ) -> Iterator[tuple[int, ...]]:
        """Sets of units, none with one that is not needed, that free what is lacking."""
        if not lack:
            yield must
            return
        units = self.problem.units
        gives: list[tuple[int, list[int]]] = []
        lacks = [amount for _, amount in lack]
        for u in self.on_node.get(n, ()):
            if u in self.gone:
                continue
            amounts = next(amounts for m, amounts in units[u].releases if m == n)
            if u in must:
                lacks = [a - amounts[r] for a, (r, _) in zip(lacks, lack, strict=True)]
            elif any(amounts[r] > 0 for r, _ in lack):
                gives.append((u, [amounts[r] for r, _ in lack]))
        gives.sort(key=lambda give: (self._price(give[0]), units[give[0]].cost, give[0]))
        del gives[MOST_UNITS:]
        sets: list[tuple[tuple[int, ...], list[int], int]] = [(must, lacks, 0)]
        found = 0
        for so_far, still, first in sets:  # the smallest sets first: it grows while it is read
            if max(still) <= 0:
                yield so_far
                found += 1
                if found == MOST_SETS:
                    return
                continue
            if len(sets) < 1 << (MOST_SETS + 2):
                for i in range(first, len(gives)):
                    u, given = gives[i]
                    short = [a - b for a, b in zip(still, given, strict=True)]
                    sets.append(((*so_far, u), short, i + 1))

    def _allowed(self, units: Sequence[int]) -> bool:
        """Whether the hard budgets let these go as well."""
        budgets, pods = self.problem.budgets, dict[int, int]()
        for u in units:
            for b, some in self.problem.units[u].budgets:
                pods[b] = pods.get(b, 0) + some
        return all(
            not budgets[b].hard or self.taken[b] + some <= budgets[b].allowed
            for b, some in pods.items()
        )

    def _price(self, u: int) -> float:
        """What a unit takes of the hard budgets, by what they have left."""
        budgets = self.problem.budgets
        return sum(
            self.scarce[b] * pods / max(1, budgets[b].allowed - self.taken[b])
            for b, pods in self.problem.units[u].budgets
            if budgets[b].hard
        )

    def _asked(self, c: int) -> list[int]:
        return [r for r, ask in enumerate(self.problem.classes[c].request) if ask > 0]

    def _ruled(self, c: int, n: int) -> bool:
        """Whether caps and spread rules let one more member of the class sit there next."""
        for cap, load in zip(self.problem.caps, self.load, strict=True):
            if c in cap.classes and cap.domain[n] >= 0 and load[cap.domain[n]] >= cap.limit:
                return False
        for i, rule in enumerate(self.problem.spreads):
            d = rule.domain[n]
            if c in rule.bound and d >= 0:
                least = 0 if rule.from_zero else min(self.low[i], default=0)
                if self.there[i][d] + (c in rule.counted) - least > rule.max_skew:
                    return False
        return True

    def _take(self, c: int, n: int, units: Sequence[int], sign: int) -> None:
        """Seat a member there with these units gone, or undo it (sign -1)."""
        self._choose(units, sign)
        for column, ask in zip(self.room, self.problem.classes[c].request, strict=True):
            column[n] -= sign * ask
        self.sits[c, n] = self.sits.get((c, n), 0) + sign
        if not self.sits[c, n]:
            del self.sits[c, n]
        for cap, load in zip(self.problem.caps, self.load, strict=True):
            if c in cap.classes and cap.domain[n] >= 0:
                load[cap.domain[n]] += sign
        for i, rule in enumerate(self.problem.spreads):
            if c in rule.counted and rule.domain[n] >= 0:
                self.there[i][rule.domain[n]] += sign
                self.low[i][rule.domain[n]] += sign

    def _choose(self, units: Sequence[int], sign: int) -> None:
        for u in units:
            unit = self.problem.units[u]
            if sign > 0:
                self.gone.add(u)
            else:
                self.gone.remove(u)
            for b, pods in unit.budgets:
                self.taken[b] += sign * pods
            for n, amounts in unit.releases:
                for column, amount in zip(self.room, amounts, strict=True):
                    column[n] += sign * amount
