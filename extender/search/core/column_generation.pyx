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

cdef enum:
    MOST_FRACTION = 20        # bits behind the point of a price
    DEMAND = 0                # the program's row of seats; levels, then coupling rows, follow

cdef i64 MOST_PRICE = <i64>1 << 57


cdef class ColumnGeneration:
    """The program over the coupling rows and levels of a region, and its columns."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Frontiers
        frontiers, Elimination elimination, Relaxation relaxation, CouplingRows coupling,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.elimination = elimination
        self.relaxation = relaxation
        self.coupling = coupling
        self.c = space.c
        self.lp = Master()

    cdef void lay_program(self) noexcept nogil:
        """The rows, a column for what soft coupling rows have too much, an empty one for every part."""
        cdef int t, i, p, row
        cdef vector[int] rows
        cdef vector[double] values
        self.mass.assign(1 + self.coupling.stages + self.coupling.row_count, 0)
        self.lp.clock = &self.effort.clock
        self.lp.start(1 + self.coupling.stages + self.coupling.row_count, self.coupling.parts)
        self.lp.scan = 0
        self.lp.sign[DEMAND] = -1
        self.columns = 2 * self.lp.rows
        self.row_price.assign(self.coupling.row_count, 0)
        self.stamp.assign(self.space.N, -1)
        self.stamps = 0
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
            rows.push_back(1 + self.coupling.stages + t)
            values.push_back(-1.0)
            self.row_column[t] = self.lp.add(-1, &rows[0], &values[0], <int>rows.size())
            self.held_first.push_back(0)
            self.against.push_back(0)
        self.scale = 1
        self.frontiers.demand = self.relaxation.missing()
        self.lp.activate(DEMAND, <double>self.frontiers.demand)
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
        total = <double>self.levels.level_most[self.coupling.stage_level[stage]] / self.scale
        self.most_price = 4 * (1 + total)
        for j in range(self.columns, count):
            self.lp.cost[j] = self.lp.cost[j] / self.scale
            self.lp.barred[j] = self.against[j - self.columns] > 0
            if self.lp.barred[j]:
                self.lp.cost[j] = self.lp.cost[j] + self.most_price
        for row in range(self.lp.rows):
            self.lp.cost[2 * row] = 0
            self.lp.cost[2 * row + 1] = self.most_price
            if row > stage and row <= self.coupling.stages:
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
        for p in range(self.lp.m + self.coupling.parts):
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
        load.assign(self.coupling.row_count, 0)
        for p in range(self.lp.m + self.coupling.parts):
            j = self.taken_at(p, &v)
            if j >= self.columns:
                for e in range(self.lp.first[j], self.lp.first[j + 1]):
                    row = self.lp.entry_row[e] - 1 - self.coupling.stages
                    if row >= 0:
                        load[row] += v * self.lp.entry[e]
        for t in range(self.coupling.row_count):
            row = 1 + self.coupling.stages + t
            if self.lp.at[row] < 0 and load[t] > self.row_limit(t) + 1e-6:
                self.lp.activate(row, self.row_limit(t))
                some = True
        if some:
            self.lp.refactor()
        return some

    cdef double row_limit(self, int t) noexcept nogil:
        """The limit of the coupling row; a little more, each its own: no two corners coincide."""
        cdef i64 limit = self.coupling.row_allowed[t]
        if self.coupling.row_state[t] == IN:
            limit = self.coupling.row_load[t]
        return <double>limit + 1e-6 * (1 + (t * 7919 % 97) / 97.0)

    cdef void settle_row(self, int t, int state) noexcept nogil:
        """A gang with surplus: broken and paid for (IN), not to be broken (OUT), or OPEN."""
        cdef int i, stage, v = self.space.U + self.coupling.row_gang[t]
        cdef int sign = 1 if state == IN else -1
        if self.coupling.row_state[t] == IN or state == IN:
            for i in range(self.coupling.owes_first[v], self.coupling.owes_first[v + 1]):
                stage = self.coupling.owes_stage[i]
                self.coupling.fixed[stage] = (
                    self.coupling.fixed[stage] + sign * self.coupling.owes[i]
                )
        if self.coupling.row_state[t] == OUT or state == OUT:
            self.against[self.row_column[t] - self.columns] += 1 if state == OUT else -1
        self.coupling.row_state[t] = <char>state
        if self.lp.at[1 + self.coupling.stages + t] >= 0:
            self.lp.set_limit(1 + self.coupling.stages + t, self.row_limit(t))

    cdef void take_prices(self, int stage) noexcept nogil:
        """The program's prices in integers, and the units' costs under them."""
        cdef int t, u, g, i, row, rows = self.lp.m
        cdef i64 total = 1, most, cap, unit
        cdef double price
        total += self.levels.level_most[self.coupling.stage_level[stage]]
        self.fraction = 0
        while self.fraction < MOST_FRACTION and (
            total < (MOST_PRICE // (self.space.U + 1)) >> (self.fraction + 12)
        ):
            self.fraction += 1
        unit = <i64>1 << self.fraction
        self.level_price.assign(self.coupling.stages, 0)
        self.level_price[stage] = unit
        for t in range(stage):
            most = MOST_PRICE // rows // (1 + self.levels.level_most[self.coupling.stage_level[t]])
            price = self.lp.price_of(1 + t) * self.scale * unit
            self.level_price[t] = <i64>price if price < most else most
        for t in range(self.coupling.row_count):
            row = 1 + self.coupling.stages + t
            self.row_price[t] = 0
            if self.lp.at[row] < 0 or self.coupling.row_state[t] == IN:
                continue
            most = MOST_PRICE // rows // (1 + self.coupling.row_load[t])
            if self.coupling.row_state[t] == OPEN:
                cap = 0
                for i in range(self.coupling.over_first[t], self.coupling.over_first[t + 1]):
                    cap += self.level_price[self.coupling.over_stage[i]] * self.coupling.over[i]
                most = min(most, cap // self.coupling.row_divide[t])
            price = self.lp.price_of(row) * self.scale * unit
            self.row_price[t] = <i64>(price + 0.5) if price < most else most
        for u in range(self.space.V):
            price = 0
            total = 0
            for i in range(self.coupling.owes_first[u], self.coupling.owes_first[u + 1]):
                total += self.level_price[self.coupling.owes_stage[i]] * self.coupling.owes[i]
            if u >= self.space.U:
                self.relations.crack[u - self.space.U] = total
                continue
            for i in range(self.coupling.uses_first[u], self.coupling.uses_first[u + 1]):
                total += self.row_price[self.coupling.uses_row[i]] * self.coupling.uses_pods[i]
            if total != self.relations.eff[u]:
                self.relations.eff[u] = total
                self.relations.soil(u)

    cdef Outcome ask(
        self, vector[i64]* floor, i64* bound, vector[i64]* paid
    ) noexcept nogil:
        """The relaxation at these prices: ``bound`` of the stage, ``fraction`` bits too fine.

        ``paid`` gets what the decisions cost in every part. Outcome as ``mckp_solve``.
        """
        cdef int u, g, t
        cdef i64 base = 0
        cdef Outcome outcome
        self.effort.branches += 1
        paid[0].assign(self.coupling.parts, 0)
        for u in range(self.space.U):
            if self.space.status[u] == IN and not self.space.is_free[u]:
                paid[0][self.coupling.unit_part[u]] += self.relations.eff[u]
        for g in range(self.space.G):
            if self.space.status[self.space.U + g] == IN:
                paid[0][self.coupling.unit_part[self.space.U + g]] += self.relations.crack[g]
        for u in range(self.coupling.parts):
            base += paid[0][u]
        for t in range(self.coupling.row_count):
            base -= self.row_price[t] * self.coupling.row_allowed[t]
        for t in range(self.stage_now + 1):
            base += self.level_price[t] * self.coupling.fixed[t]
            if t < self.stage_now:
                base -= self.level_price[t] * floor[0][t]
        self.frontiers.demand = self.relaxation.missing()
        self.elimination.pick.w = 1
        self.elimination.pick.demand = self.frontiers.demand
        self.elimination.pick.patience = 0
        self.elimination.pick.work = 0
        bound[0] = base
        if self.frontiers.demand <= 0:
            self.elimination.forget_groups()
            return EXACT
        self.relaxation.mark_too_short()
        if not self.elimination.eliminate():
            return LATE
        outcome = mckp_solve(&self.elimination.pick, NULL)
        self.effort.work += self.elimination.pick.work
        if outcome == IMPOSSIBLE:
            return outcome
        bound[0] += self.elimination.pick.bound[0]
        return outcome

    cdef int gather(self, vector[i64]* paid, i64 seat_price) noexcept nogil:
        """Add what every part would take at these prices where the program lacks it."""
        cdef int g, k, best, p
        cdef i64 value, least
        cdef vector[i64] total = paid[0]
        cdef vector[int] part_of_group
        self.parts_of_groups(&part_of_group)
        self.elimination.pick.picks.assign(self.elimination.pick.most.size(), 0)
        for g in range(<int>self.elimination.pick.most.size()):
            best = 0
            least = 0
            for k in range(1, self.elimination.pick.most[g] + 1):
                if is_never(self.elimination.pick.rows[g] + k):
                    break
                value = self.elimination.pick.rows[g][k] - seat_price * k
                if value < least:
                    least = value
                    best = k
            self.elimination.pick.picks[g] = best
            total[part_of_group[g]] += least
        return self.make_columns(&total, seat_price, False)

    cdef void parts_of_groups(self, vector[int]* into) noexcept nogil:
        """The part of every group of the knapsack."""
        cdef int g, f, r
        cdef vector[int] of_factor
        of_factor.assign(self.elimination.f_scope.size(), -1)
        for f in range(<int>self.elimination.f_scope.size()):
            if self.elimination.f_leaf[f] >= 0:
                of_factor[f] = self.coupling.part_of[self.elimination.f_leaf[f]]
        for r in range(<int>self.elimination.r_output.size()):
            of_factor[self.elimination.r_output[r]] = of_factor[self.elimination.r_inputs[r][0]]
        into.resize(self.elimination.pick.most.size())
        for g in range(<int>self.elimination.pick.most.size()):
            if self.elimination.group_node[g] >= 0:
                into[0][g] = self.coupling.part_of[self.elimination.group_node[g]]
            else:
                into[0][g] = of_factor[self.elimination.group_factor[g]]

    cdef int make_columns(self, vector[i64]* total, i64 seat_price, bint every) noexcept nogil:
        """Columns for the rows that ``pick`` holds; unless ``every``, only what pays."""
        cdef int n, u, p, found = 0
        cdef vector[i64] here
        cdef vector[vector[int]] units
        cdef double unit = <double>(<i64>1 << self.fraction) * self.scale, gain
        here.assign(self.coupling.parts, 0)
        for n in range(self.space.N):
            if self.relations.active[n]:
                p = self.coupling.part_of[n]
                here[p] += self.relations.base_slots[n] - self.coupling.root_slots[n]
        self.elimination.trace()
        units.resize(self.coupling.parts)
        for u in range(self.space.U):
            if self.coupling.unit_part[u] >= 0 and (self.frontiers.chosen[u] or self.space.status[u] == IN):
                units[self.coupling.unit_part[u]].push_back(u)
        for p in range(self.coupling.parts):
            if units[p].size() == 0:
                continue
            if not every:
                gain = self.lp.price_of_group(p) * unit
                if <double>total[0][p] - <double>seat_price * here[p] > gain - 16:
                    continue
            if self.grow(p, &units[p]):
                found += 1
        self.effort.work += self.space.U + self.space.N
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
            for e in range(self.coupling.uses_first[u], self.coupling.uses_first[u + 1]):
                k = 1 + self.coupling.stages + self.coupling.uses_row[e]
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
        self.lp.cost[column] = self.cost_at(column, 1 + self.stage_now) / self.scale
        return True

    cdef i64 seats_with(self, vector[int]* units) noexcept nogil:
        """Seats that these units give, and their nodes did not have at the root."""
        cdef int i, e, u, n
        cdef i64 seats = 0
        for i in range(<int>units.size()):
            self.space.move(units[0][i], 1, &self.coupling.root_room, &self.coupling.root_waiting)
        self.stamps += 1
        for i in range(<int>units.size()):
            u = units[0][i]
            for e in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
                n = self.relations.touch_node[e]
                if self.stamp[n] != self.stamps:
                    self.stamp[n] = self.stamps
                    seats += self.space.seats_on(
                        n, &self.coupling.root_room, &self.coupling.root_waiting
                    ) - self.coupling.root_slots[n]
        for i in range(<int>units.size()):
            self.space.move(units[0][i], -1, &self.coupling.root_room, &self.coupling.root_waiting)
        return seats

    cdef void weigh(self, int v, vector[int]* rows) noexcept nogil:
        """Add what a unit, or the break of a gang, costs to ``mass``."""
        cdef int e, row
        for e in range(self.coupling.owes_first[v], self.coupling.owes_first[v + 1]):
            row = 1 + self.coupling.owes_stage[e]
            if self.mass[row] == 0 and self.coupling.owes[e]:
                rows[0].push_back(row)
            self.mass[row] += <double>self.coupling.owes[e]

    cdef void seed(self, vector[i64]* floor) noexcept nogil:
        """Columns for one seat of every part, for two, for four, and so on."""
        cdef int g, k = 1, most = 0
        cdef vector[i64] paid
        cdef i64 bound
        cdef Outcome outcome = self.ask(floor, &bound, &paid)
        if outcome == IMPOSSIBLE or outcome == LATE:
            return
        for g in range(<int>self.elimination.pick.most.size()):
            most = max(most, self.elimination.pick.most[g])
        while k <= most and not late(&self.effort.clock):
            self.elimination.pick.picks.resize(self.elimination.pick.most.size())
            for g in range(<int>self.elimination.pick.most.size()):
                self.elimination.pick.picks[g] = min(k, self.elimination.pick.most[g])
                while is_never(self.elimination.pick.rows[g] + self.elimination.pick.picks[g]):
                    self.elimination.pick.picks[g] = self.elimination.pick.picks[g] - 1
            self.make_columns(&paid, 0, True)
            k = k + 1 if k < 4 else 2 * k
