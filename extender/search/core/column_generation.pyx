# distutils: language = c++
"""New columns for the program over coupling rows, and the bound at its prices.

The frontiers make the columns: at the program's prices each part is asked for the set of
units it would take now (Dantzig and Wolfe 1960). One level at a time is made small, so the
tables hold plain numbers, ``fraction`` bits of them behind the point.

The program only proposes prices. ``ask`` turns them into a lower bound in integers:
any price of a coupling row between nothing and what one too many costs gives one (Lagrangian
relaxation), and any price of a level that must not rise above its own bound.
"""

from libcpp.vector cimport vector

from extender.search.core.mckp cimport EXACT, IMPOSSIBLE, LATE
from extender.search.core.packed_cost cimport i64, is_never
from extender.search.core.states cimport OPEN, IN

cdef enum:
    MOST_FRACTION = 20        # bits behind the point of a price

cdef i64 MOST_PRICE = <i64>1 << 57


cdef class ColumnGeneration:
    """Prices in integers, and what the parts would take at them."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Frontiers
        frontiers, Traced traced, Elimination elimination, Relaxation relaxation, CouplingRows
        coupling, RestrictedMaster master,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.traced = traced
        self.elimination = elimination
        self.relaxation = relaxation
        self.coupling = coupling
        self.master = master
        self.c = space.c

    cdef void take_prices(self, int stage) noexcept nogil:
        """The program's prices in integers, and the units' costs under them."""
        cdef int t, u, i, rows = self.master.rows_counting()
        cdef i64 total = 1, most, cap, unit
        cdef double price
        self.stage = stage
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
            price = self.master.price_of_stage(t) * unit
            self.level_price[t] = <i64>price if price < most else most
        self.row_price.assign(self.coupling.row_count, 0)
        for t in range(self.coupling.row_count):
            if not self.master.row_counts(t) or self.coupling.row_state[t] == IN:
                continue
            most = MOST_PRICE // rows // (1 + self.coupling.row_load[t])
            if self.coupling.row_state[t] == OPEN:
                cap = 0
                for i in range(self.coupling.over_first[t], self.coupling.over_first[t + 1]):
                    cap += self.level_price[self.coupling.over_stage[i]] * self.coupling.over[i]
                most = min(most, cap // self.coupling.row_divide[t])
            price = self.master.price_of_row(t) * unit
            self.row_price[t] = <i64>(price + 0.5) if price < most else most
        for u in range(self.space.V):
            total = 0
            for i in range(self.coupling.owes_first[u], self.coupling.owes_first[u + 1]):
                total += self.level_price[self.coupling.owes_stage[i]] * self.coupling.owes[i]
            if u < self.space.U:
                for i in range(self.coupling.uses_first[u], self.coupling.uses_first[u + 1]):
                    total += self.row_price[self.coupling.uses_row[i]] * self.coupling.uses_pods[i]
            self.relations.set_price(u, total)

    cdef StageBound ask(self, const vector[i64]* floor) noexcept nogil:
        """The relaxation at these prices, and ``paid``; stages before this one at their floor."""
        cdef int u, g, t
        cdef StageBound found
        self.effort.count_branch()
        self.paid.assign(self.coupling.parts, 0)
        for u in range(self.space.U):
            if self.space.status[u] == IN and not self.space.is_free[u]:
                self.paid[self.coupling.unit_part[u]] += self.relations.eff[u]
        for g in range(self.space.G):
            if self.space.status[self.space.U + g] == IN:
                self.paid[self.coupling.unit_part[self.space.U + g]] += self.relations.break_eff[g]
        found.bound = 0
        for u in range(self.coupling.parts):
            found.bound += self.paid[u]
        for t in range(self.coupling.row_count):
            found.bound -= self.row_price[t] * self.coupling.row_allowed[t]
        for t in range(self.stage + 1):
            found.bound += self.level_price[t] * self.coupling.fixed[t]
            if t < self.stage:
                found.bound -= self.level_price[t] * floor[0][t]
        self.relaxation.count_demand()
        self.elimination.start_knapsack(0)
        if self.frontiers.demand <= 0:
            self.elimination.forget_groups()
            found.status = EXACT
            return found
        self.relaxation.mark_too_short()
        if not self.elimination.eliminate():
            found.status = LATE
            return found
        found.status = self.elimination.solve_knapsack(NULL)
        if found.status != IMPOSSIBLE:
            found.bound += self.elimination.pick.bound[0]
        return found

    cdef int gather(self) noexcept nogil:
        """Add what every part would take at these prices where the program lacks it; how many
        columns that makes."""
        cdef int g, k, best
        cdef i64 value, least, seat_price
        cdef vector[i64] total = self.paid
        cdef vector[int] part_of_group, picks
        cdef double price = self.master.price_of_seat() * (<i64>1 << self.fraction)
        seat_price = <i64>price if price < 1e17 else <i64>1e17
        self.parts_of_groups(&part_of_group)
        picks.assign(self.elimination.pick.most.size(), 0)
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
            picks[g] = best
            total[part_of_group[g]] += least
        self.elimination.set_picks(&picks)
        return self.make_paying_columns(&total, seat_price)

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

    cdef int make_columns(self) noexcept nogil:
        """Columns for the rows that are picked; how many are new."""
        cdef int p, found = 0
        cdef vector[vector[int]] units
        self.units_of_parts(&units)
        for p in range(self.coupling.parts):
            if units[p].size() and self.master.grow(p, &units[p], self.stage):
                found += 1
        return found

    cdef int make_paying_columns(self, const vector[i64]* total, i64 seat_price) noexcept nogil:
        """As ``make_columns``, for parts where the program's choice is dearer.

        ``total``: what each part's new choice costs, its new seats' worth taken off.
        """
        cdef int n, p, found = 0
        cdef double unit = <double>(<i64>1 << self.fraction)
        cdef vector[i64] here
        cdef vector[vector[int]] units
        here.assign(self.coupling.parts, 0)
        for n in range(self.space.N):
            if self.relations.active[n]:
                p = self.coupling.part_of[n]
                here[p] += self.relations.base_slots[n] - self.coupling.root_slots[n]
        self.units_of_parts(&units)
        for p in range(self.coupling.parts):
            if (
                units[p].size()
                and <double>total[0][p] - <double>seat_price * here[p]
                <= self.master.price_of_part(p) * unit - 16
                and self.master.grow(p, &units[p], self.stage)
            ):
                found += 1
        return found

    cdef void units_of_parts(self, vector[vector[int]]* into) noexcept nogil:
        """Per part the units that the picked rows and the decisions take, ascending."""
        cdef int u
        self.elimination.trace()
        into.resize(self.coupling.parts)
        for u in range(self.space.U):
            if self.coupling.unit_part[u] >= 0 and (self.traced.chosen[u] or self.space.status[u] == IN):
                into[0][self.coupling.unit_part[u]].push_back(u)
        self.effort.count(self.space.U + self.space.N)

    cdef void seed(self, const vector[i64]* floor) noexcept nogil:
        """Columns for one seat of every part, for two, for four, and so on."""
        cdef int g, k = 1, most = 0
        cdef vector[int] picks
        cdef StageBound asked = self.ask(floor)
        if asked.status == IMPOSSIBLE or asked.status == LATE:
            return
        for g in range(<int>self.elimination.pick.most.size()):
            most = max(most, self.elimination.pick.most[g])
        while k <= most and not self.effort.late():
            picks.resize(self.elimination.pick.most.size())
            for g in range(<int>picks.size()):
                picks[g] = min(k, self.elimination.pick.most[g])
                while is_never(self.elimination.pick.rows[g] + picks[g]):
                    picks[g] -= 1
            self.elimination.set_picks(&picks)
            self.make_columns()
            k = k + 1 if k < 4 else 2 * k
