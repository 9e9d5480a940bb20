"""A problem as columns of its nodes: each node takes one of its undominated sets of units.

What a set costs and the members that it seats are numbers of the column (core/node_sets.pyx), so
that the relaxation knows what room for half a member is worth: nothing. It is far closer to the
answer than that of rows.py, and its numbers are small. What ties nodes together is a switch: a
unit on several nodes, a gang that is broken, a pod that a surplus or a budget counts. A column
that needs a switch is at most as much as the switch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from extender.search.problem import Problem, Solution, Vector
from extender.search.problem.seat_regions import is_wide

OPEN_END = 1 << 62
"""In the place of a row's bound that it has not."""

Sets = Callable[[Sequence[Sequence[int]], int, Sequence[int]], Any]
"""Makes a core.node_sets.NodeSets."""


def covers(problem: Problem) -> bool:
    """Whether a (settled) problem that rows.covers takes has columns as well: nobody is in the way
    of a class, and no cap spans nodes."""
    return not problem.blockers and not any(is_wide(cap.domain) for cap in problem.caps)


class Switches:
    """What ties nodes together, of the units that a better answer may take."""

    def __init__(self, problem: Problem, above: Vector, nothing: Sequence[int]) -> None:
        """``above``, ``nothing`` as for rows.Rows."""
        self.problem = problem
        self._above, self._nothing = above, nothing
        units, gangs = problem.units, problem.gangs
        classes = problem.classes
        self.asked = [
            r for r in range(len(problem.resources)) if any(c.request[r] for c in classes)
        ]
        alive = [
            u
            for u, unit in enumerate(units)
            if not self.dear(unit.cost)
            and any(amounts[r] for _, amounts in unit.releases for r in self.asked)
        ]
        self.pods: dict[int, list[int]] = {}
        used = [0] * len(problem.budgets)
        for u in alive:
            self.pods.setdefault(units[u].gang, []).append(u)
            for b, pods in units[u].budgets:
                used[b] += pods
        self.pods.pop(-1, None)
        tight = {
            g: mine
            for g, mine in self.pods.items()
            if len(mine) > gangs[g].surplus and any(gangs[g].break_cost)
        }
        self.dead = {g for g in tight if self.dear(gangs[g].break_cost)}
        """Gangs that no better answer breaks, and"""
        self.counted = {g: mine for g, mine in tight.items() if gangs[g].surplus}
        """those that a surplus guards, with their pods."""
        self.bound = {b for b, pods in enumerate(used) if pods > problem.budgets[b].allowed}
        """Budgets that may be exceeded."""
        self.on_node: list[list[int]] = [[] for _ in problem.nodes]
        """Units that a node decides about for itself."""
        self.of_unit: dict[int, int] = {}
        """Unit -> its switch, and"""
        self.of_gang: dict[int, int] = {}
        """gang -> the switch "broken"; numbers from 0 on."""
        self.places: list[list[int]] = [[] for _ in problem.nodes]
        """Units with switches, on each node."""
        self.broken_by: dict[int, int] = {}
        """Unit -> the gang that it breaks by itself."""
        self._number(alive, tight)

    def _number(self, alive: Sequence[int], tight: dict[int, list[int]]) -> None:
        for u in alive:
            unit = self.problem.units[u]
            guarded = unit.gang in self.counted
            if unit.gang in tight and not guarded:
                if unit.gang in self.dead:
                    continue
                self.of_gang.setdefault(unit.gang, self.number)
                self.broken_by[u] = unit.gang
            if guarded and unit.gang not in self.dead:
                self.of_gang.setdefault(unit.gang, self.number)
            alone = len(unit.releases) == 1 and not guarded
            if alone and not any(b in self.bound for b, _ in unit.budgets):
                self.on_node[unit.releases[0][0]].append(u)
                continue
            self.of_unit[u] = self.number
            for n, _ in unit.releases:
                self.places[n].append(u)

    @property
    def number(self) -> int:
        """Switches so far."""
        return len(self.of_unit) + len(self.of_gang)

    def dear(self, cost: Vector) -> bool:
        """Whether nothing that costs so much is part of an answer no dearer than ``above``."""
        return cost > self._above or any(cost[level] for level in self._nothing)


class ColumnProgram:
    """Columns first, then switches, then pods above soft budgets; all of whole numbers."""

    def __init__(
        self,
        problem: Problem,
        sets: Sets,
        above: Vector,
        nothing: Sequence[int],
        over: Callable[[], bool],
        every: Collection[int] = (),
    ) -> None:
        self.problem, self.every = problem, every
        self.switches = Switches(problem, above, nothing)
        self.complete = self._find_sets(sets, over)
        """Whether all sets were found; nothing else holds where not."""
        if self.complete:
            self._lay(nothing)

    def _find_sets(self, sets: Sets, over: Callable[[], bool]) -> bool:
        problem, switches = self.problem, self.switches
        asked, classes = switches.asked, problem.classes
        counts = [c.count for c in classes]
        requests = [[c.request[r] for r in asked] for c in classes]
        found = sets(requests, len(problem.levels) + 1, counts)
        limits: list[list[tuple[Sequence[int], int]]] = [[] for _ in problem.nodes]
        for cap in problem.caps:
            for n, domain in enumerate(cap.domain):
                if domain >= 0:
                    limits[n].append((cap.classes, cap.limit))
        amounts_on = [dict(unit.releases) for unit in problem.units]
        nothing = [0] * len(asked)
        for n in range(len(problem.nodes)):
            most = [cls.count if cls.allowed[n] else 0 for cls in classes]
            if not any(most):
                continue
            if n % 16 == 0 and over():
                return False
            needed: dict[int, int] = {}
            for u in switches.on_node[n]:
                if u in switches.broken_by:
                    needed.setdefault(switches.of_gang[switches.broken_by[u]], len(needed))
            local = []
            for u in switches.on_node[n]:
                amounts, cost = amounts_on[u][n], self._cost(u)
                place = (
                    needed[switches.of_gang[switches.broken_by[u]]]
                    if u in switches.broken_by
                    else -1
                )
                local.append((u, [amounts[r] for r in asked], cost, place))
            tied = [(number, nothing) for number in needed]
            tied += [
                (switches.of_unit[u], [amounts_on[u][n][r] for r in asked])
                for u in switches.places[n]
            ]
            free = [problem.free[r][n] for r in asked]
            if not found.add(n, free, most, limits[n], local, tied, n in self.every):
                return False
        self._found = found.found()
        return True

    def _cost(self, u: int) -> Vector:
        """Level by level; at last whether it costs nothing: of equal answers the fewest such."""
        cost = self.problem.units[u].cost
        return (*cost, int(not any(cost)))

    def _lay(self, nothing: Sequence[int]) -> None:
        import numpy as np

        problem, switches = self.problem, self.switches
        classes, levels = len(problem.classes), len(problem.levels) + 1
        node, members, switch_first, needs, unit_first, units = (
            np.frombuffer(told, dtype=np.int32).astype(np.int64) for told in self._found[:6]
        )
        self.node, self.unit_first, self.units = node, unit_first, units
        many = self.columns = len(node)
        self.members = members.reshape(many, classes)
        self.switch_first, self.needs = switch_first, needs
        soft = [
            b
            for b in sorted(switches.bound)
            if not problem.budgets[b].hard and problem.budgets[b].level not in nothing
        ]
        self.excess = {b: many + switches.number + i for i, b in enumerate(soft)}
        self.variables = many + switches.number + len(soft)
        self.low = np.zeros(self.variables, dtype=np.int64)
        self.high = np.ones(self.variables, dtype=np.int64)
        self.cost = np.zeros((levels, self.variables), dtype=np.int64)
        self.cost[:, :many] = np.frombuffer(self._found[6], dtype=np.int64).reshape(many, levels).T
        for u, number in switches.of_unit.items():
            self.cost[:, many + number] = self._cost(u)
        for g, number in switches.of_gang.items():
            self.cost[:-1, many + number] = problem.gangs[g].break_cost
        for b, column in self.excess.items():
            self.cost[problem.budgets[b].level, column] = 1
        self._lay_rows()

    def _lay_rows(self) -> None:
        import numpy as np

        self._entries: list[tuple[Any, Any, Any]] = []
        self._row_low: list[int] = []
        self._row_high: list[int] = []
        self._one_a_node()
        self._demands()
        self._links()
        self._gangs()
        self._budgets()
        self.row_low = np.array(self._row_low, dtype=np.int64)
        self.row_high = np.array(self._row_high, dtype=np.int64)
        rows, columns, values = (np.concatenate(part) for part in zip(*self._entries, strict=True))
        order = np.argsort(columns, kind="stable")
        self.entry_row, self.entry_column = rows[order], columns[order]
        self.entry_value = values[order]
        self.column_first = np.searchsorted(self.entry_column, np.arange(self.variables + 1))

    def _row(self, low: int, high: int, columns: Any, values: Any) -> None:
        import numpy as np

        at = np.full(len(columns), len(self._row_low), dtype=np.int64)
        whole = np.int64  # an empty list would be floats, and all others with it
        self._entries.append((at, np.asarray(columns, whole), np.asarray(values, whole)))
        self._row_low.append(low)
        self._row_high.append(high)

    def _many_rows(self, row: Any, column: Any, high: int) -> None:
        """Rows of ones, numbered from 0: their sum is at most ``high``."""
        import numpy as np

        self._entries.append((row + len(self._row_low), column, np.ones(len(row), dtype=np.int64)))
        rows = int(row.max()) + 1 if len(row) else 0
        self._row_low += [-OPEN_END] * rows
        self._row_high += [high] * rows

    def _one_a_node(self) -> None:
        import numpy as np

        row = np.unique(self.node, return_inverse=True)[1]
        self._many_rows(row, np.arange(self.columns), 1)

    def _demands(self) -> None:
        for c, cls in enumerate(self.problem.classes):
            if cls.count:
                columns = self.members[:, c].nonzero()[0]
                self._row(cls.count, OPEN_END, columns, self.members[columns, c])

    def _links(self) -> None:
        import numpy as np

        many = self.columns
        column = np.repeat(np.arange(many), np.diff(self.switch_first))
        key = self.node[column] * max(1, self.switches.number) + self.needs
        pairs, row = np.unique(key, return_inverse=True)
        first = len(self._row_low)
        self._many_rows(row, column, 0)
        switch = pairs % max(1, self.switches.number)
        ties = np.arange(first, first + len(pairs))
        self._entries.append((ties, many + switch, np.full(len(pairs), -1, dtype=np.int64)))

    def _gangs(self) -> None:
        switches, many = self.switches, self.columns
        for u, g in switches.broken_by.items():
            if u in switches.of_unit:
                pair = (many + switches.of_unit[u], many + switches.of_gang[g])
                self._row(-OPEN_END, 0, pair, (1, -1))
        for g, pods in switches.counted.items():
            surplus = self.problem.gangs[g].surplus
            columns = [many + switches.of_unit[u] for u in pods]
            values = [1] * len(columns)
            if g not in switches.dead:
                columns.append(many + switches.of_gang[g])
                values.append(surplus - len(pods))
            self._row(-OPEN_END, surplus, columns, values)

    def _budgets(self) -> None:
        taken: dict[int, dict[int, int]] = {b: {} for b in sorted(self.switches.bound)}
        for u, number in self.switches.of_unit.items():
            for b, pods in self.problem.units[u].budgets:
                if b in taken:
                    taken[b][self.columns + number] = pods
        for b, row in taken.items():
            if b in self.excess:
                allowed = self.problem.budgets[b].allowed
                self.high[self.excess[b]] = max(0, sum(row.values()) - allowed)
                row[self.excess[b]] = -1
            self._row(-OPEN_END, self.problem.budgets[b].allowed, list(row), list(row.values()))

    def point(self, answer: Solution) -> Any:
        """The variables' values in an answer no dearer than this one, or None where none has the
        seats and units that the program has left: instead of those that it has not others may
        stand, which cost nothing at a later level and more at an earlier one."""
        import numpy as np

        switches, problem = self.switches, self.problem
        gone = set(answer.chosen)
        on = {number for u, number in switches.of_unit.items() if u in gone}
        for g, number in switches.of_gang.items():
            lost = sum(u in gone for u in switches.pods[g])
            if lost > problem.gangs[g].surplus:
                on.add(number)
        there: dict[int, list[int]] = {}
        for c, n, members in answer.seats:
            there.setdefault(n, [0] * len(problem.classes))[c] = members
        values = np.zeros(self.variables, dtype=np.int64)
        for n, wanted in there.items():
            j = self._cheapest(n, wanted, on)
            if j is None:
                return None
            values[j] = 1
        self.switch_on(values)
        dearer = (self.cost[:-1] @ values).tolist() > list(answer.cost)
        return values if self._keeps_rows(values) and not dearer else None

    def _keeps_rows(self, values: Any) -> bool:
        import numpy as np

        taken = values[self.entry_column].nonzero()[0]
        parts = self.entry_value[taken] * values[self.entry_column[taken]]
        sums = np.zeros(len(self.row_low), dtype=np.int64)
        np.add.at(sums, self.entry_row[taken], parts)
        return bool(((sums >= self.row_low) & (sums <= self.row_high)).all())

    def _cheapest(self, n: int, members: Sequence[int], on: set[int]) -> int | None:
        """The column of the node that seats so many with these switches on."""
        import numpy as np

        first, last = (int(at) for at in np.searchsorted(self.node, (n, n + 1)))
        found = [
            j
            for j in range(first, last)
            if (self.members[j] >= members).all()
            and on.issuperset(self.needs[self.switch_first[j] : self.switch_first[j + 1]].tolist())
        ]
        return min(found, key=lambda j: (self.cost[:, j].tolist(), j), default=None)

    def weight(self) -> Any:
        """(columns,) the share of what the gang asks for that each's members make up."""
        import numpy as np

        classes = self.problem.classes
        asked = [
            sum(c.request[r] * c.count for c in classes) for r in range(len(self.problem.resources))
        ]
        share = [
            max((c.request[r] / all_ for r, all_ in enumerate(asked) if all_), default=0.0)
            for c in classes
        ]
        return np.maximum(self.members @ np.array(share), 1e-9)

    def switch_on(self, values: Any) -> None:
        """Set the switches as the columns need them, and no others."""
        many, switches, problem = self.columns, self.switches, self.problem
        values[many:] = 0
        for j in values[:many].nonzero()[0]:
            values[many + self.needs[self.switch_first[j] : self.switch_first[j + 1]]] = 1
        gone = {u for u, number in switches.of_unit.items() if values[many + number]}
        for u in gone & switches.broken_by.keys():
            values[many + switches.of_gang[switches.broken_by[u]]] = 1
        for g, pods in switches.counted.items():
            if g in switches.of_gang:
                lost = len(gone.intersection(pods))
                values[many + switches.of_gang[g]] = int(lost > problem.gangs[g].surplus)
        for b, column in self.excess.items():
            used = sum(k for u in gone for c, k in problem.units[u].budgets if c == b)
            values[column] = max(0, used - problem.budgets[b].allowed)

    def read(self, values: Any) -> tuple[tuple[tuple[int, int, int], ...], set[int]]:
        """Seats, no more than there are members, and chosen units of a point."""
        chosen = {u for u, number in self.switches.of_unit.items() if values[self.columns + number]}
        left = [cls.count for cls in self.problem.classes]
        seats: list[tuple[int, int, int]] = []
        for j in values[: self.columns].nonzero()[0].tolist():
            chosen.update(self.units[self.unit_first[j] : self.unit_first[j + 1]].tolist())
            for c, members in enumerate(self.members[j].tolist()):
                here = min(members, left[c])
                if here:
                    left[c] -= here
                    seats.append((c, int(self.node[j]), here))
        return tuple(sorted(seats)), chosen
