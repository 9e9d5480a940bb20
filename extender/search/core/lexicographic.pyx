# distutils: language = c++
"""Level by level: the program is made as small as it can be at one, and held there.

The first stage's bound becomes the limit of a row of its own, then the next stage is
solved, and so on: together a lexicographic lower bound of the branch. An answer at the
bound of every stage is the best of the branch; where the program splits units, they
are decided one after the other (branch and price).
"""

from libcpp.vector cimport vector

from extender.search.core.column_generation cimport StageBound
from extender.search.core.mckp cimport IMPOSSIBLE, LATE
from extender.search.core.packed_cost cimport PackedCost, i64, order, put, zero
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
        RestrictedMaster master, ColumnGeneration generation,
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
        self.master = master
        self.generation = generation
        self.c = space.c

    cdef bint staged(self, const i64* bound) noexcept nogil:
        """Close the region or leave it open with its bound; False: nothing is tied, too much
        is, or a branch has an answer as good as its bound in the program only."""
        cdef vector[i64] floor
        cdef int t
        cdef PackedCost rest
        if not self.coupling.lay_stages():
            return False
        self.master.lay()
        put(rest, bound, self.levels.full)
        for t in range(self.coupling.stages):
            floor.push_back(self.field(rest, self.coupling.stage_level[t]))
        self.relations.enter_stages()
        self.stalled = False
        self.branch(&floor, ANEW)
        self.relations.leave_stages()
        if self.stalled:
            self.incumbent.forget_open()
        return not self.stalled

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
        cdef PackedCost rest
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
        cdef PackedCost packed
        zero(packed, self.levels.full)
        for t in range(self.coupling.stages):
            self.levels.pay(packed, self.coupling.stage_level[t], floor[0][t])
        self.incumbent.leave_open(packed)

    cdef StageStatus raise_floor(self, int stage, vector[i64]* floor) noexcept nogil:
        """Raise the floor of one stage until the program lies at it."""
        cdef int i
        cdef i64 bound
        cdef Measured found
        cdef StageBound asked
        cdef bint whole
        self.master.aim(stage)
        for i in range(ROUNDS):
            if self.effort.out_of_time():
                return STUCK
            whole = self.master.solve(PIVOTS)
            if whole and self.master.add_rows():
                if self.master.rows_counting() > MOST_ROWS:
                    self.stalled = True
                    return STUCK
                continue
            found = self.master.measure()
            if self.at_floor(found, stage, floor):
                return SOLVED
            self.generation.take_prices(stage)
            asked = self.generation.ask(floor)
            if asked.status == LATE:
                return STUCK
            if asked.status == IMPOSSIBLE:
                return BEATEN
            if asked.bound > 0:
                bound = asked.bound + (<i64>1 << self.generation.fraction) - 1
                bound = bound >> self.generation.fraction
                if bound > floor[0][stage]:
                    floor[0][stage] = bound
                    self.clear_floor(floor, stage)
            if floor[0][stage] > self.levels.level_most[self.coupling.stage_level[stage]]:
                return OVER
            if self.beaten(floor, stage):
                return BEATEN
            self.elimination.trace()
            self.relaxation.offer()
            if self.beaten(floor, stage):
                return BEATEN
            if self.at_floor(found, stage, floor):
                return SOLVED
            if self.generation.gather() == 0 and whole:
                return STUCK
        return STUCK

    cdef bint at_floor(self, Measured found, int stage, const vector[i64]* floor) noexcept nogil:
        """Whether the program's answer is allowed, and lies at the stage's floor."""
        return found.missing < NEAR and (
            found.cost + self.coupling.fixed[stage]
            < floor[0][stage] + NEAR * (1 + self.master.scale)
        )

    cdef StageStatus solve_stages(self, vector[i64]* floor, Start start) noexcept nogil:
        """The branch's floor; ANEW: no stage is held yet."""
        cdef int t = 0, last = self.coupling.stages - 1
        cdef vector[i64] before = floor[0]
        cdef StageStatus status
        if start == FROM_ABOVE:
            # Mostly the stages above the last one stay where they are.
            while t < last:
                self.master.hold(t, floor[0][t])
                t += 1
            status = self.raise_floor(last, floor)
            if status == BEATEN or (status != OVER and self.master.measure().missing < NEAR):
                return status
            floor[0] = before
            t = 0
        while t <= last:
            status = self.raise_floor(t, floor)
            if status == OVER:
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
            if status != SOLVED:
                return status
            if t < last:
                self.master.hold(t, floor[0][t])
            t += 1
        return SOLVED

    cdef void clear_floor(self, vector[i64]* floor, int stage) noexcept nogil:
        """What was known of later stages held only while this one was lower."""
        cdef int t
        for t in range(stage + 1, self.coupling.stages):
            floor[0][t] = 0

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
        """Decide a unit, or undo that (state OPEN)."""
        self.master.settle_unit(u, state, before)
        self.relations.set_unit(u, state)

    cdef void branch(self, vector[i64]* inherited, Start start) noexcept nogil:
        """Search below the decisions made; what is not looked at is left open."""
        cdef vector[i64] floor = inherited[0]
        cdef int u, g, t
        cdef StageStatus status
        cdef bint gang
        if self.stalled:
            return
        if self.effort.halted or self.effort.out_of_time():
            self.effort.halt()
            self.leave_stages(&floor)
            return
        if start == ANEW:
            for u in range(2):
                self.generation.take_prices((self.coupling.stages - 1) * u)
                self.generation.seed(&floor)
        status = self.solve_stages(&floor, start if self.complete else ANEW)
        if status == BEATEN or self.stalled:
            return
        if start == ANEW:
            self.complete = status == SOLVED
        self.master.shares(&self.share)
        self.offer_shares()
        if self.beaten(&floor, self.coupling.stages - 1):
            return
        u = self.divided_unit()
        if u < 0:
            t = self.broken_row()
            if t >= 0:
                self.master.settle_row(t, OUT)
                self.branch(&floor, FROM_ABOVE)
                self.master.settle_row(t, IN)
                self.branch(&floor, FROM_ABOVE)
                self.master.settle_row(t, OPEN)
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
        self.branch(&floor, FROM_ABOVE)
        self.settle_unit(u, OPEN, IN)
        if gang:
            self.relations.set_gang(g, OPEN)
        self.settle_unit(u, OUT, OPEN)
        self.branch(&floor, FROM_ABOVE)
        self.settle_unit(u, OPEN, OUT)
