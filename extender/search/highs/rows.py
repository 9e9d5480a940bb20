"""A problem as rows and columns of whole numbers, for a solver of mixed-integer programs.

Columns: members of class c on node n, unit u chosen, gang g broken, pods above a soft budget.
Rows: everybody has a seat; the members of a node fit into its room and what the chosen units
release there; gangs, budgets, blockers, caps. Every answer of the problem that costs no more
than ``above`` is a point of the program, so what bounds the program bounds the problem.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import gcd, inf

from extender.search.problem import Problem, Solution, Vector
from extender.search.problem.types import states_only

Row = dict[int, int]
"""Column -> coefficient."""

MOST_COEFFICIENT = 1 << 20
"""Larger amounts of a row are counted in coarser units, rounded in the members' favour."""


WRITTEN = frozenset(
    ("gangs", "budgets", "blockers", "caps", "domain_required", "domain_level", "fill")
)
"""The RULES that are rows and columns here, or say nothing where everybody needs a seat
and there is no domain."""


def covers(problem: Problem) -> bool:
    """Whether every rule of the (settled) problem has rows here, and every member needs a seat."""
    return (
        problem.need == sum(cls.count for cls in problem.classes)
        and states_only(problem, WRITTEN)
        and all(pods <= MOST_COEFFICIENT for unit in problem.units for _, pods in unit.budgets)
    )


class Rows:
    """The program of one problem; its points are vectors of whole numbers, one a column."""

    def __init__(self, problem: Problem, above: Vector | None, nothing: Sequence[int]) -> None:
        """``above``: the cost of an answer that is there; units that alone cost more are left
        out. ``nothing``: levels at which no better answer costs anything."""
        self.problem = problem
        self.low = array("d")
        """(columns,) least value of each, and"""
        self.high = array("d")
        """its greatest."""
        self.row_low = array("d")
        self.row_high = array("d")
        self.start = array("i", [0])
        self.index = array("i")
        self.value = array("d")
        self.seats: dict[tuple[int, int], int] = {}
        """(class, node) -> column."""
        self.units: dict[int, int] = {}
        self.broken: dict[int, int] = {}
        self.excess: dict[int, int] = {}
        self._short: dict[int, list[int]] = {}
        """Column "members sit where the room is overcommitted" -> their columns."""
        self._above, self._nothing = above, nothing
        classes = problem.classes
        asked = [r for r in range(len(problem.resources)) if any(c.request[r] for c in classes)]
        self._asked = {
            c: [(r, cls.request[r]) for r in asked if cls.request[r]]
            for c, cls in enumerate(classes)
        }
        self._there: dict[int, list[tuple[int, Vector]]] = {}
        for u, unit in enumerate(problem.units):
            if not self._dear(unit.cost):
                for n, amounts in unit.releases:
                    self._there.setdefault(n, []).append((u, amounts))
        self._seat_columns(asked)
        self._unit_columns()
        for c, cls in enumerate(classes):
            if not cls.count:
                continue
            mine = dict.fromkeys((x for (k, _), x in self.seats.items() if k == c), 1)
            self.row(cls.count, cls.count, mine)
        self._room(asked)
        self._needed_units()
        self._gangs()
        self._budgets()
        self._blockers()
        self._caps()

    def _dear(self, cost: Vector) -> bool:
        """Whether nothing that costs so much is part of an answer no dearer than ``above``."""
        if self._above is not None and cost > self._above:
            return True
        return any(cost[level] for level in self._nothing)

    def column(self, high: int) -> int:
        """A new column of 0 to ``high``."""
        self.low.append(0)
        self.high.append(high)
        return len(self.low) - 1

    def row(self, low: float, high: float, entries: Mapping[int, int]) -> None:
        """A new row: low <= sum <= high."""
        self.row_low.append(low)
        self.row_high.append(high)
        self.index.extend(entries.keys())
        self.value.extend(entries.values())
        self.start.append(len(self.index))

    def _seat_columns(self, asked: Sequence[int]) -> None:
        problem = self.problem
        self._whole = {r: list(problem.free[r]) for r in asked}
        for n, there in self._there.items():
            for _, amounts in there:
                for r in asked:
                    self._whole[r][n] += amounts[r]
        for c, cls in enumerate(problem.classes):
            for n, allowed in enumerate(cls.allowed):
                if allowed:
                    most = self._fits(c, {r: self._whole[r][n] for r, _ in self._asked[c]})
                    if most:
                        self.seats[c, n] = self.column(most)

    def _fits(self, c: int, room: Mapping[int, int]) -> int:
        most = self.problem.classes[c].count
        for r, ask in self._asked[c]:
            most = min(most, max(0, room[r]) // ask)
        return most

    def _unit_columns(self) -> None:
        """Of the units those whose end makes a difference to a member somewhere."""
        useful: set[int] = set()
        for c, n in self.seats:
            for u, amounts in self._there.get(n, ()):
                if any(amounts[r] for r, _ in self._asked[c]):
                    useful.add(u)
        for blocker in self.problem.blockers:
            if (blocker.cls, blocker.node) in self.seats:
                useful.update(
                    u for u in blocker.units if not self._dear(self.problem.units[u].cost)
                )
        for u in sorted(useful):
            self.units[u] = self.column(1)

    def _room(self, asked: Sequence[int]) -> None:
        problem = self.problem
        for n in sorted({n for _, n in self.seats}):
            for r in asked:
                members = {
                    self.seats[c, n]: cls.request[r]
                    for c, cls in enumerate(problem.classes)
                    if cls.request[r] and (c, n) in self.seats
                }
                free = problem.free[r][n]
                most = sum(ask * int(self.high[x]) for x, ask in members.items())
                if not members or most <= free:
                    continue
                freed = {
                    self.units[u]: amounts[r]
                    for u, amounts in self._there.get(n, ())
                    if amounts[r] and u in self.units
                }
                short: Row = {}
                if free < 0:
                    # A node that is short of it already is so only for members who ask for it.
                    used = self.column(1)
                    for x in members:
                        self.row(-inf, 0, {x: 1, used: -int(self.high[x])})
                    short[used] = -free
                    free = 0
                    self._short[used] = list(members)
                self._fitted(members, freed, short, free)

    def _fitted(self, members: Row, freed: Row, short: Row, free: int) -> None:
        """members + short <= free + freed, in units that keep the coefficients small."""
        amounts = [*members.values(), *freed.values(), *short.values()]
        scale = gcd(*amounts)
        step = scale * max(1, -(-max(amounts) // (scale * MOST_COEFFICIENT)))
        row = {x: amount // step for x, amount in (*members.items(), *short.items())}
        row.update((y, (-amount) // step) for y, amount in freed.items())
        self.row(-inf, free // scale if step == scale else -(-free // step), row)

    def _needed_units(self) -> None:
        """A member that is alone on its node needs each unit gone without which it finds no room
        there: the relaxation, which takes a unit by halves, does not see that."""
        for (c, n), x in self.seats.items():
            free = {r: self.problem.free[r][n] for r, _ in self._asked[c]}
            if self.high[x] > 1 or self._fits(c, free):
                continue
            for u, amounts in self._there.get(n, ()):
                if u in self.units:
                    rest = {r: self._whole[r][n] - amounts[r] for r in free}
                    if not self._fits(c, rest):
                        self.row(-inf, 0, {x: 1, self.units[u]: -1})

    def _gangs(self) -> None:
        pods: dict[int, list[int]] = {}
        for u, y in self.units.items():
            if self.problem.units[u].gang >= 0:
                pods.setdefault(self.problem.units[u].gang, []).append(y)
        for g, mine in pods.items():
            gang = self.problem.gangs[g]
            if len(mine) <= gang.surplus:
                continue
            if self._dear(gang.break_cost):
                self.row(-inf, gang.surplus, dict.fromkeys(mine, 1))
                continue
            broken = self.broken[g] = self.column(1)
            if gang.surplus == 0:
                for y in mine:
                    self.row(-inf, 0, {y: 1, broken: -1})
            else:
                over = gang.surplus - len(mine)
                self.row(-inf, gang.surplus, {**dict.fromkeys(mine, 1), broken: over})

    def _budgets(self) -> None:
        taken: dict[int, Row] = {}
        for u, y in self.units.items():
            for b, pods in self.problem.units[u].budgets:
                taken.setdefault(b, {})[y] = pods
        for b, row in taken.items():
            rule = self.problem.budgets[b]
            over = sum(row.values()) - rule.allowed
            if over > 0:
                if not rule.hard and rule.level not in self._nothing:
                    self.excess[b] = self.column(over)
                    row[self.excess[b]] = -1
                self.row(-inf, rule.allowed, row)

    def _blockers(self) -> None:
        for blocker in self.problem.blockers:
            x = self.seats.get((blocker.cls, blocker.node))
            if x is None:
                continue
            for u in set(blocker.units):
                if u in self.units:
                    self.row(-inf, 0, {x: 1, self.units[u]: -int(self.high[x])})
                else:
                    self.row(-inf, 0, {x: 1})

    def _caps(self) -> None:
        for cap in self.problem.caps:
            inside: dict[int, Row] = {}
            for (c, n), x in self.seats.items():
                if c in cap.classes and cap.domain[n] >= 0:
                    inside.setdefault(cap.domain[n], {})[x] = 1
            for row in inside.values():
                if sum(self.high[x] for x in row) > cap.limit:
                    self.row(-inf, cap.limit, row)

    def level(self, level: int) -> Row:
        """What each column costs at this level."""
        problem = self.problem
        row = {y: problem.units[u].cost[level] for u, y in self.units.items()}
        row.update((b, problem.gangs[g].break_cost[level]) for g, b in self.broken.items())
        row.update((e, 1) for b, e in self.excess.items() if problem.budgets[b].level == level)
        return {column: cost for column, cost in row.items() if cost}

    def weightless(self) -> Row:
        """The units that cost nothing themselves, each counted once."""
        units = self.problem.units
        return {y: 1 for u, y in self.units.items() if not any(units[u].cost)}

    def point(self, answer: Solution) -> list[int]:
        """The columns' values in this answer."""
        values = [0] * len(self.low)
        for c, n, members in answer.seats:
            values[self.seats[c, n]] = members
        pods: dict[int, int] = {}
        used: dict[int, int] = {}
        for u in answer.chosen:
            unit = self.problem.units[u]
            if u in self.units:
                values[self.units[u]] = 1
            pods[unit.gang] = pods.get(unit.gang, 0) + 1
            for b, taken in unit.budgets:
                used[b] = used.get(b, 0) + taken
        for g, column in self.broken.items():
            values[column] = int(pods.get(g, 0) > self.problem.gangs[g].surplus)
        for b, column in self.excess.items():
            values[column] = max(0, used.get(b, 0) - self.problem.budgets[b].allowed)
        for switch, columns in self._short.items():
            values[switch] = int(any(values[x] for x in columns))
        return values

    def read(
        self, values: Sequence[int]
    ) -> tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]]:
        """Seats and chosen units of a point, less every unit that these seats do not need."""
        problem = self.problem
        seats = tuple(sorted((c, n, values[x]) for (c, n), x in self.seats.items() if values[x]))
        chosen = {u for u, y in self.units.items() if values[y]}
        return seats, tuple(sorted(needed(problem, seats, chosen)))


def needed(problem: Problem, seats: Sequence[tuple[int, int, int]], chosen: set[int]) -> set[int]:
    """The chosen units less every one that these seats do not need, the dearest first."""
    asks = [[(r, ask) for r, ask in enumerate(c.request) if ask] for c in problem.classes]
    chosen = set(chosen)
    room: dict[int, list[int]] = {}
    asked: dict[int, set[int]] = {}
    for c, n, members in seats:
        left = room.setdefault(n, [column[n] for column in problem.free])
        for r, ask in asks[c]:
            left[r] -= ask * members
            asked.setdefault(n, set()).add(r)
    for u in chosen:
        for n, amounts in problem.units[u].releases:
            if n in room:
                room[n] = [a + b for a, b in zip(room[n], amounts, strict=True)]
    sitting = {(c, n) for c, n, _ in seats}
    blocked = {u for b in problem.blockers if (b.cls, b.node) in sitting for u in b.units}
    for u in sorted(chosen, key=lambda u: (problem.units[u].cost, u), reverse=True):
        held = [(n, a) for n, a in problem.units[u].releases if n in asked]
        if u not in blocked and all(room[n][r] >= a[r] for n, a in held for r in asked[n]):
            chosen.remove(u)
            for n, amounts in held:
                room[n] = [a - b for a, b in zip(room[n], amounts, strict=True)]
    return chosen
