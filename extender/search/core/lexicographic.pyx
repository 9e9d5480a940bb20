# distutils: language = c++
"""Level by level: the program is made as small as it can be at one, and held there.

The first stage's bound becomes the limit of a row of its own, then the next stage is
solved, and so on: together a lexicographic lower bound of the branch. An answer at the
bound of every stage is the best of the branch; where the program splits units, they
are decided one after the other (branch and price).
"""

from libcpp.vector cimport vector

from extender.search.core.mckp cimport IMPOSSIBLE, LATE, Outcome
from extender.search.core.packed_cost cimport i64, order, put, zero
from extender.search.core.states cimport OPEN, IN, OUT

cdef enum:
    ROUNDS = 200              # programs solved in one stage of one branch
    MOST_ROWS = 1500          # rows that count: the inverse is dense
    PIVOTS = 400              # pivots before the frontiers are asked again

cdef double NEAR = 1e-6       # of a column, and of the largest cost: rounding
cdef double WHOLE = 1e-2      # so near to none or all of a unit is none or all


cdef class Lexicographic:
    """Settles the coupling rows of a region, one cost level after the other."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Elimination
        elimination, Incumbent incumbent, Relaxation relaxation, CouplingRows coupling,
        ColumnGeneration program,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.elimination = elimination
        self.incumbent = incumbent
        self.relaxation = relaxation
        self.coupling = coupling
        self.program = program
        self.c = space.c

    cdef bint staged(self, const i64* bound) noexcept nogil:
        """Close the region or leave it open with its bound; False: nothing is tied, too much
        is, or a branch has an answer as good as its bound in the program only."""
        cdef vector[i64] eff, crack, floor
        cdef int n, t, W = self.relations.W
        cdef i64 rest[6]
        if not self.coupling.lay_stages():
            return False
        self.program.lay_program()
        eff = self.relations.eff
        crack = self.relations.crack
        put(rest, bound, W)
        for t in range(self.coupling.stages):
            floor.push_back(self.field(rest, self.coupling.stage_level[t]))
        self.relations.W = 1
        self.relations.eff.assign(self.space.U, 0)
        self.relations.crack.assign(self.space.G, 0)
        self.soil_all()
        self.stalled = False
        self.tree(&floor, True)
        self.relations.W = W
        self.relations.eff = eff
        self.relations.crack = crack
        self.soil_all()
        if self.stalled:
            self.incumbent.unproved = False
        return not self.stalled

    cdef void soil_all(self) noexcept nogil:
        cdef int n
        for n in range(self.space.N):
            if self.relations.active[n]:
                self.relations.dirty[n] = 1

    cdef i64 field(self, i64* rest, int level) noexcept nogil:
        """Take a level's amount off a packed cost; levels in their order."""
        cdef int limb = self.levels.level_limb[level]
        cdef i64 amount = rest[limb] >> self.levels.level_shift[level]
        if amount < 0:
            amount = 0
        rest[limb] -= amount << self.levels.level_shift[level]
        return amount

    cdef bint beaten(self, vector[i64]* floor, int stage) noexcept nogil:
        """Whether nothing at or above the floor, up to this stage, can be better."""
        cdef int t
        cdef i64 rest[6]
        cdef i64 amount, least
        if not self.incumbent.have_best:
            return False
        put(rest, &self.incumbent.best_cost[0], self.levels.full)
        for t in range(self.coupling.stages):
            amount = self.field(rest, self.coupling.stage_level[t])
            least = floor[0][t] if t <= stage else 0
            if least != amount:
                return least > amount
        return True

    cdef void leave_stages(self, vector[i64]* floor) noexcept nogil:
        """Remember that answers at or above the floor were not looked at."""
        cdef int t
        cdef i64 packed[6]
        zero(packed, self.levels.full)
        for t in range(self.coupling.stages):
            self.levels.pay(packed, self.coupling.stage_level[t], floor[0][t])
        self.incumbent.leave_open(packed)

    cdef Verdict climb(self, int stage, vector[i64]* floor) noexcept nogil:
        """Raise the floor of one stage until the program lies at it."""
        cdef int i
        cdef i64 bound, one, seat_price
        cdef double value, missing, price
        cdef vector[i64] paid
        cdef Outcome outcome
        cdef bint whole
        self.program.stage_now = stage
        self.program.aim(stage)
        for i in range(ROUNDS):
            if self.effort.out_of_time():
                return STUCK
            whole = self.program.lp.solve(PIVOTS)
            self.effort.work += self.program.lp.work
            self.program.lp.work = 0
            if whole and self.program.add_rows():
                if self.program.lp.m > MOST_ROWS:
                    self.stalled = True
                    return STUCK
                continue
            value = self.program.measure(&missing) + self.coupling.fixed[stage]
            if missing < NEAR and value < floor[0][stage] + NEAR * (1 + self.program.scale):
                return SOLVED
            self.program.take_prices(stage)
            one = <i64>1 << self.program.fraction
            outcome = self.program.ask(floor, &bound, &paid)
            if outcome == LATE:
                return STUCK
            if outcome == IMPOSSIBLE:
                return BEATEN
            if bound > 0:
                bound = (bound + one - 1) >> self.program.fraction
                if bound > floor[0][stage]:
                    floor[0][stage] = bound
            if floor[0][stage] > self.levels.level_most[self.coupling.stage_level[stage]]:
                return OVER
            if self.beaten(floor, stage):
                return BEATEN
            self.elimination.trace()
            self.relaxation.offer()
            if self.beaten(floor, stage):
                return BEATEN
            if missing < NEAR and value < floor[0][stage] + NEAR * (1 + self.program.scale):
                return SOLVED
            price = self.program.lp.price_of(0) * self.program.scale * one
            seat_price = <i64>price if price < 1e17 else <i64>1e17
            if self.program.gather(&paid, seat_price) == 0 and whole:
                return STUCK
        return STUCK

    cdef Verdict solve_stages(self, vector[i64]* floor, bint fresh) noexcept nogil:
        """The branch's floor; ``fresh``: no stage is held yet."""
        cdef int t = 0, last = self.coupling.stages - 1
        cdef vector[i64] before = floor[0]
        cdef double missing
        cdef Verdict verdict
        if not fresh:
            # Mostly the stages above the last one stay where they are.
            while t < last:
                self.program.lp.set_limit(1 + t, self.held_at(t, floor[0][t]))
                t += 1
            verdict = self.climb(last, floor)
            self.program.measure(&missing)
            if verdict == BEATEN or (verdict != OVER and missing < NEAR):
                return verdict
            floor[0] = before
            t = 0
        while t <= last:
            verdict = self.climb(t, floor)
            if verdict == OVER:
                # Not with the earlier stages where they are held.
                if t == 0:
                    return BEATEN
                floor[0][t] = 0
                t -= 1
                floor[0][t] += 1
                self.clear_floor(floor, t)
                if self.beaten(floor, t):
                    return BEATEN
                continue
            if verdict != SOLVED:
                return verdict
            if floor[0][t] > before[t]:
                before[t] = floor[0][t]
                self.clear_floor(floor, t)
                self.clear_floor(&before, t)
            if t < last:
                if self.program.lp.at[1 + t] < 0:
                    self.program.lp.activate(1 + t, self.held_at(t, floor[0][t]))
                    self.program.lp.refactor()
                else:
                    self.program.lp.set_limit(1 + t, self.held_at(t, floor[0][t]))
            t += 1
        return SOLVED

    cdef void clear_floor(self, vector[i64]* floor, int stage) noexcept nogil:
        """What was known of later stages held only while this one was lower."""
        cdef int t
        for t in range(stage + 1, self.coupling.stages):
            floor[0][t] = 0

    cdef double held_at(self, int stage, i64 amount) noexcept nogil:
        """The limit of a stage's row: its floor, and a little for the rounding of doubles."""
        return <double>(amount - self.coupling.fixed[stage]) * (1 + 1e-9) + 1e-6

    cdef void shares(self) noexcept nogil:
        """share: how much of every unit the program takes."""
        cdef int p, j, i
        cdef double v
        self.share.assign(self.space.U, 0)
        for p in range(self.program.lp.m + self.coupling.parts):
            j = self.program.taken_at(p, &v)
            if j >= self.program.columns and v > NEAR:
                j -= self.program.columns
                for i in range(self.program.held_first[j], self.program.held_first[j + 1]):
                    self.share[self.program.held_unit[i]] += v

    cdef void offer_shares(self) noexcept nogil:
        """The units that the program takes for the most part, or at all: answers."""
        cdef int u, round_
        cdef double least
        cdef vector[char] mine
        for round_ in range(3):
            least = 0.5 if round_ == 0 else (0.2 if round_ == 1 else 0.001)
            mine.assign(self.space.U, 0)
            for u in range(self.space.U):
                if self.share[u] > least or self.space.status[u] == IN:
                    mine[u] = 1
            self.incumbent.keep_if_better(&mine)

    cdef int divided_unit(self) noexcept nogil:
        """The unit most of which, but not all, the program takes; -1 when it splits none."""
        cdef int u, best = -1
        for u in range(self.space.U):
            if (
                self.space.status[u] == OPEN and self.share[u] > WHOLE and self.share[u] < 1 - WHOLE
                and (best < 0 or self.share[u] > self.share[best] + 1e-9)
            ):
                best = u
        return best

    cdef int broken_row(self) noexcept nogil:
        """A gang that the program breaks at a part of the price; -1 when there is none."""
        cdef int t, i, g
        cdef double load
        for t in range(self.coupling.row_count):
            g = self.coupling.row_gang[t]
            if g >= 0 and self.coupling.row_state[t] == OPEN:
                load = 0
                for i in range(self.relations.gang_first[g], self.relations.gang_first[g + 1]):
                    load += self.share[self.relations.gang_unit[i]]
                if load > self.coupling.row_allowed[t] + 0.5:
                    return t
        return -1

    cdef void settle_unit(self, int u, int state, int before) noexcept nogil:
        """Decide a unit, or undo it (state OPEN): columns that say otherwise are barred."""
        cdef int i, j, k, part = self.coupling.unit_part[u], by = 1
        cdef bint has, asked = state == IN
        if state == OPEN:
            by = -1
            asked = before == IN
        for i in range(<int>self.program.columns_of[part].size()):
            j = self.program.columns_of[part][i] - self.program.columns
            has = False
            for k in range(self.program.held_first[j], self.program.held_first[j + 1]):
                if self.program.held_unit[k] == u:
                    has = True
            if has != asked:
                self.program.against[j] = self.program.against[j] + by
        self.relations.set_unit(u, state)

    cdef void tree(self, vector[i64]* inherited, bint fresh) noexcept nogil:
        """Search below the decisions made; what is not looked at is left open."""
        cdef vector[i64] floor = inherited[0]
        cdef int u, g, t
        cdef Verdict verdict
        cdef bint gang
        if self.stalled:
            return
        if self.effort.halted or self.effort.out_of_time():
            self.effort.halted = True
            self.leave_stages(&floor)
            return
        if fresh:
            for u in range(2):
                self.program.stage_now = (self.coupling.stages - 1) * u
                self.program.take_prices(self.program.stage_now)
                self.program.seed(&floor)
        verdict = self.solve_stages(&floor, fresh or not self.complete)
        if verdict == BEATEN or self.stalled:
            return
        if fresh:
            self.complete = verdict == SOLVED
        self.shares()
        self.offer_shares()
        if self.beaten(&floor, self.coupling.stages - 1):
            return
        u = self.divided_unit()
        if u < 0:
            t = self.broken_row()
            if t >= 0:
                self.program.settle_row(t, OUT)
                self.tree(&floor, False)
                self.program.settle_row(t, IN)
                self.tree(&floor, False)
                self.program.settle_row(t, OPEN)
            elif self.effort.out_of_time():
                self.leave_stages(&floor)
            else:
                self.stalled = True
            return
        g = self.c.unit_gang[u]
        gang = g >= 0 and self.relations.gated[g] and self.space.status[self.space.U + g] == OPEN
        if gang:
            self.relations.set_gang(g, IN)
        self.settle_unit(u, IN, OPEN)
        self.tree(&floor, False)
        self.settle_unit(u, OPEN, IN)
        if gang:
            self.relations.set_gang(g, OPEN)
        self.settle_unit(u, OUT, OPEN)
        self.tree(&floor, False)
        self.settle_unit(u, OPEN, OUT)
