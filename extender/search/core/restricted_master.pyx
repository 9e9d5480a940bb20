# distutils: language = c++
"""Budgets and surpluses that bind, as a linear program over choices of the parts.

A column is a set of units of one part, with the seats it gives, what it costs at every
level, and what it takes from the coupling rows. The program (the restricted master of
Dantzig and Wolfe 1960) knows some of them; column_generation.pyx finds more. One level at a
time is made small, those before it are held. Floating point: it proposes, nothing here
proves.
"""

from libcpp.vector cimport vector

from extender.search.core.lp.basis cimport Taken
from extender.search.core.lp.master cimport Master
from extender.search.core.packed_cost cimport i64
from extender.search.core.states cimport IN, OPEN, OUT

cdef enum:
    DEMAND = 0                # the row of seats; levels, then coupling rows, follow

cdef double NEAR = 1e-6       # of a column: rounding


cdef class RestrictedMaster:
    """The program over the coupling rows and levels of a region, and its columns."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Frontiers
        frontiers, Relaxation relaxation, CouplingRows coupling,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.relaxation = relaxation
        self.coupling = coupling
        self.c = space.c
        self.lp = Master()

    cdef void lay(self) noexcept nogil:
        """The rows, a column for what soft coupling rows have too much, an empty one for every part."""
        cdef int t, i, p, rows_in_all = 1 + self.coupling.stages + self.coupling.row_count
        cdef vector[int] rows
        cdef vector[double] values
        self.mass.assign(rows_in_all, 0)
        self.lp.start(rows_in_all, self.coupling.parts, &self.effort.clock)
        self.lp.at_least(DEMAND)
        self.columns = 2 * rows_in_all
        self.held_first.assign(1, 0)
        self.held_unit.clear()
        self.columns_of.assign(self.coupling.parts, vector[int]())
        self.against.assign(self.coupling.parts, 0)
        self.row_column.clear()
        for p in range(self.coupling.parts):
            self.held_first.push_back(0)
            self.columns_of[p].push_back(self.columns + p)
        for t in range(self.coupling.row_count):
            self.row_column.push_back(-1)
            if self.coupling.row_state[t] == OUT:
                continue
            rows.clear()
            values.clear()
            for i in range(self.coupling.over_first[t], self.coupling.over_first[t + 1]):
                rows.push_back(1 + self.coupling.over_stage[i])
                values.push_back(<double>self.coupling.over[i] / self.coupling.row_divide[t])
            rows.push_back(self.row_of(t))
            values.push_back(-1.0)
            self.row_column[t] = self.lp.add(-1, &rows[0], &values[0], <int>rows.size())
            self.held_first.push_back(0)
            self.against.push_back(0)
        self.scale = 1
        self.relaxation.count_demand()
        self.lp.activate(DEMAND, <double>self.frontiers.demand)
        self.lp.refactor()

    cdef int row_of(self, int t) noexcept nogil:
        """The program's row of a coupling row."""
        return 1 + self.coupling.stages + t

    cdef double row_limit(self, int t) noexcept nogil:
        """The limit of the coupling row; a little more, each its own: no two corners coincide."""
        cdef i64 limit = self.coupling.row_allowed[t]
        if self.coupling.row_state[t] == IN:
            limit = self.coupling.row_load[t]
        return <double>limit + 1e-6 * (1 + (t * 7919 % 97) / 97.0)

    cdef void aim(self, int stage) noexcept nogil:
        """Costs of the program: this stage's; earlier ones are held, later ones ignored."""
        cdef int j, row, count = <int>self.lp.group.size()
        cdef bint barred
        cdef vector[double] cost
        self.scale = 1
        cost.resize(count)
        for j in range(self.columns, count):
            cost[j] = self.lp.entry_of(j, 1 + stage)
            if cost[j] > self.scale:
                self.scale = cost[j]
        self.most_price = 4 * (
            1 + <double>self.levels.level_most[self.coupling.stage_level[stage]] / self.scale
        )
        for j in range(self.columns, count):
            barred = self.against[j - self.columns] > 0
            self.lp.bar(j, barred)
            self.lp.set_cost(j, cost[j] / self.scale + (self.most_price if barred else 0))
        for row in range(self.lp.rows):
            self.lp.set_cost(2 * row, 0)
            self.lp.set_cost(
                2 * row + 1, 0 if row > stage and row <= self.coupling.stages else self.most_price
            )

    cdef bint solve(self, int pivots) noexcept nogil:
        """As Master.solve; the work is counted."""
        cdef bint whole = self.lp.solve(pivots)
        self.effort.count(self.lp.take_work())
        return whole

    cdef Measured measure(self) noexcept nogil:
        """What the program's answer costs at its stage, and what of it is not allowed."""
        cdef int p
        cdef Taken taken
        cdef Measured found
        found.cost = 0
        found.missing = 0
        for p in range(self.lp.taken_count()):
            taken = self.lp.taken(p)
            if taken.column >= self.columns:
                if self.lp.barred[taken.column]:
                    found.missing += taken.part
                    found.cost += taken.part * (self.lp.cost[taken.column] - self.most_price)
                else:
                    found.cost += taken.part * self.lp.cost[taken.column]
            elif taken.column & 1 and self.lp.cost[taken.column] > 0:
                found.missing += taken.part
        found.cost *= self.scale
        return found

    cdef bint add_rows(self) noexcept nogil:
        """Let the coupling rows count that the program's answer exceeds; True when there were any."""
        cdef int p, e, t, row
        cdef Taken taken
        cdef bint some = False
        cdef vector[double] load
        load.assign(self.coupling.row_count, 0)
        for p in range(self.lp.taken_count()):
            taken = self.lp.taken(p)
            if taken.column >= self.columns:
                for e in range(self.lp.first[taken.column], self.lp.first[taken.column + 1]):
                    row = self.lp.entry_row[e] - self.row_of(0)
                    if row >= 0:
                        load[row] += taken.part * self.lp.entry[e]
        for t in range(self.coupling.row_count):
            if not self.row_counts(t) and load[t] > self.row_limit(t) + 1e-6:
                self.lp.activate(self.row_of(t), self.row_limit(t))
                some = True
        if some:
            self.lp.refactor()
        return some

    cdef int rows_counting(self) noexcept nogil:
        """How many rows the basis has."""
        return self.lp.m

    cdef bint row_counts(self, int t) noexcept nogil:
        """Whether the coupling row counts."""
        return self.lp.counts(self.row_of(t))

    cdef void hold(self, int stage, i64 amount) noexcept nogil:
        """From now on no answer may cost more at this stage."""
        if self.lp.counts(1 + stage):
            self.lp.set_limit(1 + stage, self.held_at(stage, amount))
        else:
            self.lp.activate(1 + stage, self.held_at(stage, amount))
            self.lp.refactor()

    cdef double held_at(self, int stage, i64 amount) noexcept nogil:
        """The limit of a stage's row: its floor, and a little for the rounding of doubles."""
        return <double>(amount - self.coupling.fixed[stage]) * (1 + 1e-9) + 1e-6

    cdef void settle_row(self, int t, int state) noexcept nogil:
        """A gang with surplus: broken and paid for (IN), not to be broken (OUT), or OPEN."""
        if self.coupling.row_state[t] == OUT or state == OUT:
            self.against[self.row_column[t] - self.columns] += 1 if state == OUT else -1
        self.coupling.settle(t, state)
        if self.row_counts(t):
            self.lp.set_limit(self.row_of(t), self.row_limit(t))

    cdef void settle_unit(self, int u, int state, int before) noexcept nogil:
        """Decide a unit, or undo that (state OPEN): columns that say otherwise are barred."""
        cdef int i, j, k, part = self.coupling.unit_part[u], by = 1
        cdef bint has, asked = state == IN
        if state == OPEN:
            by = -1
            asked = before == IN
        for i in range(<int>self.columns_of[part].size()):
            j = self.columns_of[part][i] - self.columns
            has = False
            for k in range(self.held_first[j], self.held_first[j + 1]):
                if self.held_unit[k] == u:
                    has = True
            if has != asked:
                self.against[j] += by

    cdef double price_of_seat(self) noexcept nogil:
        """What one seat less would save, at the stage's own scale."""
        return self.lp.price_of(DEMAND) * self.scale

    cdef double price_of_stage(self, int stage) noexcept nogil:
        """What one more unit of cost at a held stage would save."""
        return self.lp.price_of(1 + stage) * self.scale

    cdef double price_of_row(self, int t) noexcept nogil:
        """What one more pod in the coupling row would save."""
        return self.lp.price_of(self.row_of(t)) * self.scale

    cdef double price_of_part(self, int p) noexcept nogil:
        """What the part's choice costs at the program's prices."""
        return self.lp.price_of_group(p) * self.scale

    cdef void shares(self, vector[double]* into) noexcept nogil:
        """(U,) how much of every unit the program takes."""
        cdef int p, j, i
        cdef Taken taken
        into.assign(self.space.U, 0)
        for p in range(self.lp.taken_count()):
            taken = self.lp.taken(p)
            if taken.column >= self.columns and taken.part > NEAR:
                j = taken.column - self.columns
                for i in range(self.held_first[j], self.held_first[j + 1]):
                    into[0][self.held_unit[i]] += taken.part

    cdef bint has_column(self, int part, vector[int]* units) noexcept nogil:
        """Whether there is a column of the part for these units (ascending)."""
        cdef int i, j, k, count = <int>units.size()
        for i in range(<int>self.columns_of[part].size()):
            j = self.columns_of[part][i] - self.columns
            k = 0
            if self.held_first[j + 1] - self.held_first[j] == count:
                while k < count and self.held_unit[self.held_first[j] + k] == units[0][k]:
                    k += 1
            if k == count:
                return True
        return False

    cdef bint grow(self, int part, vector[int]* units, int stage) noexcept nogil:
        """A column for these units of the part (ascending), priced for this stage; False when
        there is one."""
        cdef int i, k, u, g, e, column, count = <int>units.size()
        cdef vector[int] rows, broken
        cdef vector[double] values
        if self.has_column(part, units):
            return False
        self.mass[DEMAND] = <double>self.coupling.seats_with(units)
        rows.push_back(DEMAND)
        for i in range(count):
            u = units[0][i]
            self.held_unit.push_back(u)
            self.weigh(u, &rows)
            for e in range(self.coupling.uses_first[u], self.coupling.uses_first[u + 1]):
                k = self.row_of(self.coupling.uses_row[e])
                if self.mass[k] == 0:
                    rows.push_back(k)
                self.mass[k] += self.coupling.uses_pods[e]
            g = self.c.unit_gang[u]
            if g >= 0 and self.relations.gated[g]:
                k = 0
                while k < <int>broken.size() and broken[k] != g:
                    k += 1
                if k == <int>broken.size():
                    broken.push_back(g)
                    self.weigh(self.space.U + g, &rows)
        self.held_first.push_back(<int>self.held_unit.size())
        for i in range(<int>rows.size()):
            values.push_back(self.mass[rows[i]])
            self.mass[rows[i]] = 0
        column = self.lp.add(part, &rows[0], &values[0], <int>rows.size())
        self.columns_of[part].push_back(column)
        self.against.push_back(0)
        self.lp.set_cost(column, self.lp.entry_of(column, 1 + stage) / self.scale)
        return True

    cdef void weigh(self, int v, vector[int]* rows) noexcept nogil:
        """Add what a unit, or the break of a gang, costs to ``mass``."""
        cdef int e, row
        for e in range(self.coupling.owes_first[v], self.coupling.owes_first[v + 1]):
            row = 1 + self.coupling.owes_stage[e]
            if self.mass[row] == 0 and self.coupling.owes[e]:
                rows[0].push_back(row)
            self.mass[row] += <double>self.coupling.owes[e]
