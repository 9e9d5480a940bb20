# distutils: language = c++
"""Step 5, the relaxation of a branch: its bound, and the answer that comes out of it."""

from libcpp.vector cimport vector

from extender.search.core.mckp cimport CUT, EXACT, IMPOSSIBLE, LATE, MckpStatus
from extender.search.core.packed_cost cimport PackedCost, i64, minus, order, plus, put, zero
from extender.search.core.states cimport IN, OUT

cdef i64 KNAPSACK_STATES = 60000000


cdef class Relaxation:
    """Elimination, limits of domains and the knapsack, one after the other."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Frontiers
        frontiers, Traced traced, Elimination elimination, DomainLimits domains, Incumbent
        incumbent,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.traced = traced
        self.elimination = elimination
        self.domains = domains
        self.incumbent = incumbent
        self.c = space.c

    cdef void lay_relaxation(self) noexcept nogil:
        """Nothing frozen yet."""
        self.frozen_cost.assign(self.relations.W, 0)
        self.base.assign(self.relations.W, 0)
        self.raw.assign(self.relations.W, 0)
        self.frozen_seats = 0

    cdef void begin(self) noexcept nogil:
        """A search begins: no frontier reaches far enough yet."""
        self.widest_demand = 0

    cdef void base_cost(self) noexcept nogil:
        """base: what the decisions made so far cost."""
        cdef int u, g, b, w, W = self.relations.W
        put(&self.base[0], &self.levels.extra[0], W)
        plus(&self.base[0], &self.frozen_cost[0], W)
        for u in range(self.space.U):
            if self.space.status[u] == IN and not self.space.is_free[u]:
                plus(&self.base[0], &self.relations.eff[u * W], W)
        for g in range(self.space.G):
            if self.space.status[self.space.U + g] == IN:
                plus(&self.base[0], &self.relations.break_eff[g * W], W)
        for b in range(self.c.budgets):
            for w in range(W):
                self.base[w] -= self.relations.budget_price[b * W + w] * self.space.allowed_pods[b]

    cdef i64 missing(self) noexcept nogil:
        """Seats wanted beyond those that the decisions give."""
        cdef int n, z
        cdef i64 seats = self.frozen_seats
        cdef vector[i64] inside
        inside.assign(self.space.domain_limit.size(), 0)
        for n in range(self.space.N):
            if self.space.limit[n] and (self.relations.active[n] or not self.relations.relevant[n]):
                if inside.size() and self.space.domain[n] >= 0:
                    inside[self.space.domain[n]] += self.relations.base_slots[n]
                else:
                    seats += self.relations.base_slots[n]
        for z in range(<int>inside.size()):
            seats += min(inside[z], <i64>self.space.domain_limit[z])
        return self.space.need - seats

    cdef void count_demand(self) noexcept nogil:
        """Ask the frontiers for what is missing now."""
        self.frontiers.ask_for(self.missing())

    cdef void mark_too_short(self) noexcept nogil:
        """A frontier cut at an earlier, smaller demand is rebuilt when more is missing."""
        if self.frontiers.demand > self.widest_demand:
            self.widest_demand = self.frontiers.demand
            self.relations.mark_active_dirty()

    cdef MckpStatus relax(self, i64* value, i64* bound) noexcept nogil:
        """Steps 3 to 5 under the decisions so far: cost of the relaxed answer, its bound.

        ``pick`` and the factors then describe the answer for ``trace``. Nothing is
        set when the status is IMPOSSIBLE, CUT (not below the best answer) or LATE.
        """
        cdef int W = self.relations.W
        cdef const i64* limit = NULL
        cdef MckpStatus status = EXACT
        self.effort.count_branch()
        self.base_cost()
        self.count_demand()
        self.elimination.start_knapsack(KNAPSACK_STATES)
        zero(bound, W)
        zero(value, W)
        if self.frontiers.demand > 0:
            self.mark_too_short()
            if not self.elimination.eliminate():
                return LATE
            if self.space.domain_limit.size():
                self.domains.merge_domains()
                if self.effort.late():
                    return LATE
            if self.incumbent.have_best:
                put(value, &self.incumbent.best_cost[0], W)
                minus(value, &self.base[0], W)
                limit = value
            status = self.elimination.solve_knapsack(limit)
            if status == IMPOSSIBLE or status == CUT:
                return status
            put(bound, &self.elimination.pick.bound[0], W)
            put(value, &self.elimination.pick.value[0], W)
            if self.space.domain_limit.size():
                self.domains.part_domains()
        else:
            self.elimination.forget_groups()
        plus(bound, &self.base[0], W)
        plus(value, &self.base[0], W)
        put(&self.raw[0], bound, W)
        self.levels.raise_fields(bound)
        return status

    cdef void offer(self) noexcept nogil:
        """The traced units, those decided and those frozen: an answer, if allowed."""
        cdef int u
        cdef vector[char] mine = self.traced.chosen
        for u in range(self.space.U):
            if self.space.status[u] == IN or self.traced.frozen[u] == IN:
                mine[u] = 1
        self.incumbent.keep_if_better(&mine)

    cdef void offer_greedy(self) noexcept nogil:
        """Everything, less what can be put back, dearest first: the plain way to an answer."""
        cdef int u
        cdef vector[char] mine
        mine.assign(self.space.U, 0)
        for u in range(self.space.U):
            if self.space.status[u] != OUT:
                mine[u] = 1
        self.incumbent.keep_if_better(&mine)

    cdef bint attained(self, MckpStatus status, const i64* value) noexcept nogil:
        """Whether the traced units are an answer at the relaxed cost: the branch is closed."""
        cdef PackedCost real
        self.traced.take_decided()
        return (
            self.incumbent.true_cost(&self.traced.chosen, real) and status == EXACT
            and order(real, value, self.relations.W) <= 0
            and (
                not self.space.domain_limit.size()
                or self.domains.in_domains(&self.traced.chosen)
            )
        )

    cdef void freeze(self, int n, int k) noexcept nogil:
        """Row k of the node is in every better answer: take it for good."""
        cdef int W = self.relations.W
        self.frontiers.freeze_row(n, k)
        plus(&self.frozen_cost[0], &self.frontiers.table[n][k * W], W)
        self.frozen_seats += self.relations.base_slots[n] + k
        self.relations.close(n)

    cdef void count_budgets(self, vector[int]* used) noexcept nogil:
        """Pods that the decided, frozen and traced units take from each budget."""
        cdef int u, i
        used.assign(self.c.budgets, 0)
        if not self.c.budgets:
            return
        self.traced.take_decided()
        for u in range(self.space.U):
            if self.traced.chosen[u]:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    used[0][self.c.use_budget[i]] += self.c.use_pods[i]

    cdef bint exceeded(self) noexcept nogil:
        """Whether the traced answer takes more than a budget or a gang's surplus has left."""
        cdef int b, g, u
        cdef vector[int] used, gone
        self.count_budgets(&used)
        for b in range(self.c.budgets):
            if self.relations.budget_state[b] != IN and used[b] > self.space.allowed_pods[b]:
                return True
        self.traced.take_decided()
        gone.assign(self.space.G, 0)
        for u in range(self.space.U):
            if self.traced.chosen[u] and self.c.unit_gang[u] >= 0:
                gone[self.c.unit_gang[u]] += 1
        for g in range(self.space.G):
            if self.relations.loose[g] and not self.relations.gated[g] and gone[g] > self.space.surplus[g]:
                return True
        return False
