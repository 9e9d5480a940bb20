# distutils: language = c++
"""Budgets and surpluses that bind, as a linear program over the choices of the nodes.

A column is a set of units of one part, with the seats it gives, what it costs at every
level, and what it takes from the coupling rows. The frontiers make the columns: at the program's
prices each part is asked for the set it would take now (Dantzig and Wolfe 1960). One
level at a time is made small, so the tables hold plain numbers, ``fraction`` bits of
them behind the point.

The program only proposes prices. ``ask`` turns them into a lower bound in integers:
any price of a coupling row between nothing and what one too many costs gives one (Lagrangian
relaxation), and any price of a level that must not rise above its own bound.
"""

from libcpp.vector cimport vector

from extender.search.core.mckp cimport EXACT, IMPOSSIBLE, LATE, Outcome, mckp_solve
from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport i64, is_never
from extender.search.core.lp.master cimport Master
from extender.search.core.states cimport OPEN, IN, OUT
from extender.search.core.coupling_rows cimport CouplingRows

cdef enum:
    MOST_FRACTION = 20        # bits behind the point of a price
    DEMAND = 0                # the program's row of seats; levels, then coupling rows, follow

cdef i64 MOST_PRICE = <i64>1 << 57


cdef class ColumnGeneration(CouplingRows):
    """A region whose coupling rows and levels are rows of a program."""

    def __cinit__(self):
        self.lp = Master()

    cdef void lay_program(self) noexcept nogil:
        """The rows, a column for what soft coupling rows have too much, an empty one for every part."""
        cdef int t, i, p, row
        cdef vector[int] rows
        cdef vector[double] values
        self.mass.assign(1 + self.stages + self.row_count, 0)
        self.lp.clock = &self.clock
        self.lp.start(1 + self.stages + self.row_count, self.parts)
        self.lp.scan = 0
        self.lp.sign[DEMAND] = -1
        self.columns = 2 * self.lp.rows
        self.row_price.assign(self.row_count, 0)
        self.stamp.assign(self.N, -1)
        self.stamps = 0
        self.held_first.assign(1, 0)
        self.held_unit.clear()
        self.columns_of.assign(self.parts, vector[int]())
        self.against.assign(self.parts, 0)
        self.row_column.clear()
        for p in range(self.parts):
            self.held_first.push_back(0)
            self.columns_of[p].push_back(self.columns + p)
        for t in range(self.row_count):
            self.row_column.push_back(-1)
            if self.row_state[t] == OUT:
                continue
            rows.clear()
            values.clear()
            for i in range(self.over_first[t], self.over_first[t + 1]):
                rows.push_back(1 + self.over_stage[i])
                values.push_back(<double>self.over[i] / self.row_divide[t])
            rows.push_back(1 + self.stages + t)
            values.push_back(-1.0)
            self.row_column[t] = self.lp.add(-1, &rows[0], &values[0], <int>rows.size())
            self.held_first.push_back(0)
            self.against.push_back(0)
        self.scale = 1
        self.demand = self.missing()
        self.lp.activate(DEMAND, <double>self.demand)
        self.lp.refactor()

    cdef double cost_at(self, int column, int row) noexcept nogil:
        """The column's entry in that row."""
        cdef int e
        for e in range(self.lp.first[column], self.lp.first[column + 1]):
            if self.lp.entry_row[e] == row:
                return self.lp.entry[e]
        return 0

    cdef void aim(self, int stage) noexcept nogil:
        """Costs of the program: this stage's; earlier ones are held, later ones ignored."""
        cdef int j, e, row, count = <int>self.lp.group.size()
        cdef double total = 0
        self.scale = 1
        for j in range(self.columns, count):
            self.lp.cost[j] = self.cost_at(j, 1 + stage)
            if self.lp.cost[j] > self.scale:
                self.scale = self.lp.cost[j]
        total = <double>self.level_most[self.stage_level[stage]] / self.scale
        self.most_price = 4 * (1 + total)
        for j in range(self.columns, count):
            self.lp.cost[j] = self.lp.cost[j] / self.scale
            self.lp.barred[j] = self.against[j - self.columns] > 0
            if self.lp.barred[j]:
                self.lp.cost[j] = self.lp.cost[j] + self.most_price
        for row in range(self.lp.rows):
            self.lp.cost[2 * row] = 0
            self.lp.cost[2 * row + 1] = self.most_price
            if row > stage and row <= self.stages:
                self.lp.cost[2 * row + 1] = 0

    cdef int taken_at(self, int p, double* v) noexcept nogil:
        """The p-th column that the program's answer rests on, and how much of it is taken."""
        if p < self.lp.m:
            v[0] = self.lp.x[p]
            return self.lp.basic[p]
        v[0] = self.lp.key_x[p - self.lp.m]
        return self.lp.key[p - self.lp.m]

    cdef double measure(self, double* missing) noexcept nogil:
        """The program's cost at its stage; ``missing``: how much of it is not allowed."""
        cdef int p, g, j
        cdef double total = 0, v
        missing[0] = 0
        for p in range(self.lp.m + self.parts):
            j = self.taken_at(p, &v)
            if j >= self.columns:
                if self.lp.barred[j]:
                    missing[0] += v
                    total += v * (self.lp.cost[j] - self.most_price)
                else:
                    total += v * self.lp.cost[j]
            elif j & 1 and self.lp.cost[j] > 0:
                missing[0] += v
        return total * self.scale

    cdef bint add_rows(self) noexcept nogil:
        """Let the coupling rows count that the program's answer exceeds; True when there were any."""
        cdef int p, j, e, t, row
        cdef double v
        cdef bint some = False
        cdef vector[double] load
        load.assign(self.row_count, 0)
        for p in range(self.lp.m + self.parts):
            j = self.taken_at(p, &v)
            if j >= self.columns:
                for e in range(self.lp.first[j], self.lp.first[j + 1]):
                    row = self.lp.entry_row[e] - 1 - self.stages
                    if row >= 0:
                        load[row] += v * self.lp.entry[e]
        for t in range(self.row_count):
            row = 1 + self.stages + t
            if self.lp.at[row] < 0 and load[t] > self.row_limit(t) + 1e-6:
                self.lp.activate(row, self.row_limit(t))
                some = True
        if some:
            self.lp.refactor()
        return some

    cdef double row_limit(self, int t) noexcept nogil:
        """The limit of the coupling row; a little more, each its own: no two corners coincide."""
        cdef i64 limit = self.row_load[t] if self.row_state[t] == IN else self.row_allowed[t]
        return <double>limit + 1e-6 * (1 + (t * 7919 % 97) / 97.0)

    cdef void settle_row(self, int t, int state) noexcept nogil:
        """A gang with surplus: broken and paid for (IN), not to be broken (OUT), or OPEN."""
        cdef int i, v = self.U + self.row_gang[t], sign = 1 if state == IN else -1
        if self.row_state[t] == IN or state == IN:
            for i in range(self.owes_first[v], self.owes_first[v + 1]):
                self.fixed[self.owes_stage[i]] += sign * self.owes[i]
        if self.row_state[t] == OUT or state == OUT:
            self.against[self.row_column[t] - self.columns] += 1 if state == OUT else -1
        self.row_state[t] = <char>state
        if self.lp.at[1 + self.stages + t] >= 0:
            self.lp.set_limit(1 + self.stages + t, self.row_limit(t))

    cdef void take_prices(self, int stage) noexcept nogil:
        """The program's prices in integers, and the units' costs under them."""
        cdef int t, u, g, i, row, rows = self.lp.m
        cdef i64 total = 1, most, cap, unit
        cdef double price
        total += self.level_most[self.stage_level[stage]]
        self.fraction = 0
        while self.fraction < MOST_FRACTION and (
            total < (MOST_PRICE // (self.U + 1)) >> (self.fraction + 12)
        ):
            self.fraction += 1
        unit = <i64>1 << self.fraction
        self.level_price.assign(self.stages, 0)
        self.level_price[stage] = unit
        for t in range(stage):
            most = MOST_PRICE // rows // (1 + self.level_most[self.stage_level[t]])
            price = self.lp.price_of(1 + t) * self.scale * unit
            self.level_price[t] = <i64>price if price < most else most
        for t in range(self.row_count):
            row = 1 + self.stages + t
            self.row_price[t] = 0
            if self.lp.at[row] < 0 or self.row_state[t] == IN:
                continue
            most = MOST_PRICE // rows // (1 + self.row_load[t])
            if self.row_state[t] == OPEN:
                cap = 0
                for i in range(self.over_first[t], self.over_first[t + 1]):
                    cap += self.level_price[self.over_stage[i]] * self.over[i]
                most = min(most, cap // self.row_divide[t])
            price = self.lp.price_of(row) * self.scale * unit
            self.row_price[t] = <i64>(price + 0.5) if price < most else most
        for u in range(self.V):
            price = 0
            total = 0
            for i in range(self.owes_first[u], self.owes_first[u + 1]):
                total += self.level_price[self.owes_stage[i]] * self.owes[i]
            if u >= self.U:
                self.crack[u - self.U] = total
                continue
            for i in range(self.uses_first[u], self.uses_first[u + 1]):
                total += self.row_price[self.uses_row[i]] * self.uses_pods[i]
            if total != self.eff[u]:
                self.eff[u] = total
                self.soil(u)

    cdef Outcome ask(
        self, vector[i64]* floor, i64* bound, vector[i64]* paid
    ) noexcept nogil:
        """The relaxation at these prices: ``bound`` of the stage, ``fraction`` bits too fine.

        ``paid`` gets what the decisions cost in every part. Outcome as ``mckp_solve``.
        """
        cdef int u, g, t
        cdef i64 base = 0
        cdef Outcome outcome
        self.branches += 1
        paid[0].assign(self.parts, 0)
        for u in range(self.U):
            if self.status[u] == IN and not self.is_free[u]:
                paid[0][self.unit_part[u]] += self.eff[u]
        for g in range(self.G):
            if self.status[self.U + g] == IN:
                paid[0][self.unit_part[self.U + g]] += self.crack[g]
        for u in range(self.parts):
            base += paid[0][u]
        for t in range(self.row_count):
            base -= self.row_price[t] * self.row_allowed[t]
        for t in range(self.stage_now + 1):
            base += self.level_price[t] * self.fixed[t]
            if t < self.stage_now:
                base -= self.level_price[t] * floor[0][t]
        self.demand = self.missing()
        self.pick.w = 1
        self.pick.demand = self.demand
        self.pick.patience = 0
        self.pick.work = 0
        bound[0] = base
        if self.demand <= 0:
            self.forget_groups()
            return EXACT
        self.mark_too_short()
        if not self.eliminate():
            return LATE
        outcome = mckp_solve(&self.pick, NULL)
        self.work += self.pick.work
        if outcome == IMPOSSIBLE:
            return outcome
        bound[0] += self.pick.bound[0]
        return outcome

    cdef int gather(self, vector[i64]* paid, i64 seat_price) noexcept nogil:
        """Add what every part would take at these prices where the program lacks it."""
        cdef int g, k, best, p
        cdef i64 value, least
        cdef vector[i64] total = paid[0]
        cdef vector[int] part_of_group
        self.parts_of_groups(&part_of_group)
        self.pick.picks.assign(self.pick.most.size(), 0)
        for g in range(<int>self.pick.most.size()):
            best = 0
            least = 0
            for k in range(1, self.pick.most[g] + 1):
                if is_never(self.pick.rows[g] + k):
                    break
                value = self.pick.rows[g][k] - seat_price * k
                if value < least:
                    least = value
                    best = k
            self.pick.picks[g] = best
            total[part_of_group[g]] += least
        return self.make_columns(&total, seat_price, False)

    cdef void parts_of_groups(self, vector[int]* into) noexcept nogil:
        """The part of every group of the knapsack."""
        cdef int g, f, r
        cdef vector[int] of_factor
        of_factor.assign(self.f_scope.size(), -1)
        for f in range(<int>self.f_scope.size()):
            if self.f_leaf[f] >= 0:
                of_factor[f] = self.part_of[self.f_leaf[f]]
        for r in range(<int>self.r_output.size()):
            of_factor[self.r_output[r]] = of_factor[self.r_inputs[r][0]]
        into.resize(self.pick.most.size())
        for g in range(<int>self.pick.most.size()):
            if self.group_node[g] >= 0:
                into[0][g] = self.part_of[self.group_node[g]]
            else:
                into[0][g] = of_factor[self.group_factor[g]]

    cdef int make_columns(self, vector[i64]* total, i64 seat_price, bint every) noexcept nogil:
        """Columns for the rows that ``pick`` holds; unless ``every``, only what pays."""
        cdef int n, u, p, found = 0
        cdef vector[i64] here
        cdef vector[vector[int]] units
        cdef double unit = <double>(<i64>1 << self.fraction) * self.scale, gain
        here.assign(self.parts, 0)
        for n in range(self.N):
            if self.active[n]:
                here[self.part_of[n]] += self.base_slots[n] - self.root_slots[n]
        self.trace()
        units.resize(self.parts)
        for u in range(self.U):
            if self.unit_part[u] >= 0 and (self.chosen[u] or self.status[u] == IN):
                units[self.unit_part[u]].push_back(u)
        for p in range(self.parts):
            if units[p].size() == 0:
                continue
            if not every:
                gain = self.lp.price_of_group(p) * unit
                if <double>total[0][p] - <double>seat_price * here[p] > gain - 16:
                    continue
            if self.grow(p, &units[p]):
                found += 1
        self.work += self.U + self.N
        return found

    cdef bint grow(self, int part, vector[int]* units) noexcept nogil:
        """A column for these units of the part (ascending); False when there is one."""
        cdef int i, j, k, u, g, e, column, count = <int>units.size()
        cdef vector[int] rows, broken
        cdef vector[double] values
        for i in range(<int>self.columns_of[part].size()):
            j = self.columns_of[part][i] - self.columns
            k = 0
            if self.held_first[j + 1] - self.held_first[j] == count:
                while k < count and self.held_unit[self.held_first[j] + k] == units[0][k]:
                    k += 1
            if k == count:
                return False
        self.mass[DEMAND] = <double>self.seats_with(units)
        rows.push_back(DEMAND)
        for i in range(count):
            u = units[0][i]
            self.held_unit.push_back(u)
            self.weigh(u, &rows)
            for e in range(self.uses_first[u], self.uses_first[u + 1]):
                k = 1 + self.stages + self.uses_row[e]
                if self.mass[k] == 0:
                    rows.push_back(k)
                self.mass[k] += self.uses_pods[e]
            g = self.c.unit_gang[u]
            if g >= 0 and self.gated[g]:
                k = 0
                while k < <int>broken.size() and broken[k] != g:
                    k += 1
                if k == <int>broken.size():
                    broken.push_back(g)
                    self.weigh(self.U + g, &rows)
        self.held_first.push_back(<int>self.held_unit.size())
        for i in range(<int>rows.size()):
            values.push_back(self.mass[rows[i]])
            self.mass[rows[i]] = 0
        column = self.lp.add(part, &rows[0], &values[0], <int>rows.size())
        self.columns_of[part].push_back(column)
        self.against.push_back(0)
        self.lp.cost[column] = self.cost_at(column, 1 + self.stage_now) / self.scale
        return True

    cdef i64 seats_with(self, vector[int]* units) noexcept nogil:
        """Seats that these units give, and their nodes did not have at the root."""
        cdef int i, e, u, n
        cdef i64 seats = 0
        for i in range(<int>units.size()):
            self.move(units[0][i], 1, &self.root_room, &self.root_waiting)
        self.stamps += 1
        for i in range(<int>units.size()):
            u = units[0][i]
            for e in range(self.touch_first[u], self.touch_first[u + 1]):
                n = self.touch_node[e]
                if self.stamp[n] != self.stamps:
                    self.stamp[n] = self.stamps
                    seats += self.slots(
                        n, &self.root_room[n * self.R] if self.R else NULL, self.root_waiting[n]
                    ) - self.root_slots[n]
        for i in range(<int>units.size()):
            self.move(units[0][i], -1, &self.root_room, &self.root_waiting)
        return seats

    cdef void weigh(self, int v, vector[int]* rows) noexcept nogil:
        """Add what a unit, or the break of a gang, costs to ``mass``."""
        cdef int e, row
        for e in range(self.owes_first[v], self.owes_first[v + 1]):
            row = 1 + self.owes_stage[e]
            if self.mass[row] == 0 and self.owes[e]:
                rows[0].push_back(row)
            self.mass[row] += <double>self.owes[e]

    cdef void seed(self, vector[i64]* floor) noexcept nogil:
        """Columns for one seat of every part, for two, for four, and so on."""
        cdef int g, k = 1, most = 0
        cdef vector[i64] paid
        cdef i64 bound
        cdef Outcome outcome = self.ask(floor, &bound, &paid)
        if outcome == IMPOSSIBLE or outcome == LATE:
            return
        for g in range(<int>self.pick.most.size()):
            most = max(most, self.pick.most[g])
        while k <= most and not late(&self.clock):
            self.pick.picks.resize(self.pick.most.size())
            for g in range(<int>self.pick.most.size()):
                self.pick.picks[g] = min(k, self.pick.most[g])
                while is_never(self.pick.rows[g] + self.pick.picks[g]):
                    self.pick.picks[g] -= 1
            self.make_columns(&paid, 0, True)
            k = k + 1 if k < 4 else 2 * k
