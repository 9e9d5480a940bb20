# distutils: language = c++
"""Step 5, the relaxation of a branch, and the answers that come out of it."""

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from extender.search.core.mckp cimport CUT, EXACT, IMPOSSIBLE, LATE, Outcome, mckp_solve
from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport i64, minus, order, plus, put, zero
from extender.search.core.states cimport IN, OUT
from extender.search.core.domain_limits cimport DomainLimits

cdef enum:
    STEP_WORK = 20000         # elementary steps that count as one branch

cdef i64 CHOICE_PATIENCE = 60000000


cdef class Answers(DomainLimits):
    """A region that can relax a branch and keep the best answer."""

    cdef void lay_answers(self) noexcept nogil:
        """Nothing found and nothing frozen yet."""
        self.frozen_cost.assign(self.W, 0)
        self.best_cost.assign(self.W, 0)
        self.open_bound.assign(self.W, 0)
        self.base.assign(self.W, 0)
        self.raw.assign(self.W, 0)
        self.frozen_seats = 0
        self.pick.clock = &self.clock
        self.have_best = False

    cdef bint out_of_time(self) noexcept nogil:
        if self.branches >= self.branch_limit:
            return True
        if self.work // STEP_WORK >= self.branch_limit:
            return True
        return late(&self.clock)

    cdef void base_cost(self) noexcept nogil:
        """base: what the decisions made so far cost."""
        cdef int u, g, b, w, W = self.W
        put(&self.base[0], &self.extra[0], W)
        plus(&self.base[0], &self.frozen_cost[0], W)
        for u in range(self.U):
            if self.status[u] == IN and not self.is_free[u]:
                plus(&self.base[0], &self.eff[u * W], W)
        for g in range(self.G):
            if self.status[self.U + g] == IN:
                plus(&self.base[0], &self.crack[g * W], W)
        for b in range(self.c.budgets):
            for w in range(W):
                self.base[w] -= self.fine[b * W + w] * self.allowed_pods[b]

    cdef i64 missing(self) noexcept nogil:
        cdef int n, z
        cdef i64 seats = self.frozen_seats
        cdef vector[i64] inside
        inside.assign(self.domain_limit.size(), 0)
        for n in range(self.N):
            if self.limit[n] and (self.active[n] or not self.relevant[n]):
                if inside.size() and self.domain[n] >= 0:
                    inside[self.domain[n]] += self.base_slots[n]
                else:
                    seats += self.base_slots[n]
        for z in range(<int>inside.size()):
            seats += min(inside[z], <i64>self.domain_limit[z])
        return self.need - seats

    cdef void mark_too_short(self) noexcept nogil:
        """A frontier cut at an earlier, smaller demand is rebuilt when more is missing."""
        cdef int n
        if self.demand > self.widest_demand:
            self.widest_demand = self.demand
            for n in range(self.N):
                if self.active[n]:
                    self.dirty[n] = 1

    cdef Outcome relax(self, i64* value, i64* bound) noexcept nogil:
        """Steps 3 to 5 under the decisions so far: cost of the relaxed answer, its bound.

        ``pick`` and the factors then describe the answer for ``trace``. Nothing is
        set when the outcome is IMPOSSIBLE, CUT (not below the best answer) or LATE.
        """
        cdef int W = self.W
        cdef const i64* limit = NULL
        cdef Outcome outcome = EXACT
        self.branches += 1
        self.base_cost()
        self.demand = self.missing()
        self.pick.w = W
        self.pick.demand = self.demand
        self.pick.patience = CHOICE_PATIENCE
        self.pick.work = 0
        zero(bound, W)
        zero(value, W)
        if self.demand > 0:
            self.mark_too_short()
            if not self.eliminate():
                return LATE
            if self.domain_limit.size():
                self.merge_domains()
                if late(&self.clock):
                    return LATE
            if self.have_best:
                put(value, &self.best_cost[0], W)
                minus(value, &self.base[0], W)
                limit = value
            outcome = mckp_solve(&self.pick, limit)
            self.work += self.pick.work
            if outcome == IMPOSSIBLE or outcome == CUT:
                return outcome
            put(bound, &self.pick.bound[0], W)
            put(value, &self.pick.value[0], W)
            if self.domain_limit.size():
                self.part_domains()
        else:
            self.forget_groups()
        plus(bound, &self.base[0], W)
        plus(value, &self.base[0], W)
        put(&self.raw[0], bound, W)
        self.raise_fields(bound)
        return outcome

    cdef void true_cost(self, vector[char]* chosen, i64* into, bint* allowed) noexcept nogil:
        """Cost of the set by definition; allowed False when a hard budget is exceeded."""
        cdef int u, g, b, i, W = self.full
        cdef vector[int] gone, used
        gone.assign(self.G, 0)
        used.assign(self.c.budgets, 0)
        put(into, &self.extra[0], W)
        for u in range(self.U):
            if chosen[0][u]:
                plus(into, &self.price[u * W], W)
                if self.c.unit_gang[u] >= 0:
                    gone[self.c.unit_gang[u]] += 1
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    used[self.c.use_budget[i]] += self.c.use_pods[i]
        allowed[0] = True
        for g in range(self.G):
            if gone[g] > self.surplus[g]:
                plus(into, &self.broken[g * W], W)
                if self.unbreakable[g]:
                    allowed[0] = False
        for b in range(self.c.budgets):
            if used[b] > self.allowed_pods[b]:
                if self.firm[b]:
                    allowed[0] = False
                else:
                    self.pay(into, self.c.budget_level[b], used[b] - self.allowed_pods[b])

    cdef bint reduce(self, vector[char]* chosen) noexcept nogil:
        """Put back, dearest first, what is not needed; False when the gang does not fit."""
        cdef vector[i64] room = self.room0
        cdef vector[int] waiting = self.waiting0, order_, nodes
        cdef vector[int] now
        cdef vector[i64] inside, then
        cdef int u, i, j, n, e, z
        cdef i64 seats, less, change
        for u in range(self.U):
            if chosen[0][u]:
                self.move(u, 1, &room, &waiting)
                order_.push_back(u)
        now.assign(self.N, 0)
        inside.assign(self.domain_limit.size(), 0)
        seats = 0
        for n in range(self.N):
            if self.limit[n]:
                now[n] = <int>self.slots(n, &room[n * self.R] if self.R else NULL, waiting[n])
                if inside.size() and self.domain[n] >= 0:
                    inside[self.domain[n]] += now[n]
                else:
                    seats += now[n]
        for z in range(<int>inside.size()):
            seats += min(inside[z], <i64>self.domain_limit[z])
        if seats < self.need:
            return False
        if not self.settled_free:
            self.by_price(&order_)
        for i in range(<int>order_.size() - 1, -1, -1):
            u = order_[i]
            self.move(u, -1, &room, &waiting)
            nodes.clear()
            for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                nodes.push_back(self.c.entry_node[e])
            for e in range(self.c.lift_first[u], self.c.lift_first[u + 1]):
                nodes.push_back(self.c.lift_node[e])
            sort(nodes.begin(), nodes.end())
            less = seats
            then = inside
            for j in range(<int>nodes.size()):
                n = nodes[j]
                if self.limit[n] and (j == 0 or nodes[j - 1] != n):
                    change = self.slots(
                        n, &room[n * self.R] if self.R else NULL, waiting[n]
                    ) - now[n]
                    if then.size() and self.domain[n] >= 0:
                        z = self.domain[n]
                        less -= min(then[z], <i64>self.domain_limit[z])
                        then[z] += change
                        change = min(then[z], <i64>self.domain_limit[z])
                    less += change
            if less >= self.need:
                chosen[0][u] = 0
                seats = less
                inside = then
                for j in range(<int>nodes.size()):
                    n = nodes[j]
                    if self.limit[n]:
                        now[n] = <int>self.slots(
                            n, &room[n * self.R] if self.R else NULL, waiting[n]
                        )
            else:
                self.move(u, 1, &room, &waiting)
        return True

    cdef void by_price(self, vector[int]* units) noexcept nogil:
        """Merge sort by (price, index)."""
        cdef int n = <int>units.size(), width = 1, lo, mid, hi, i, j, k, W = self.full
        cdef vector[int] other
        other.resize(n)
        while width < n:
            lo = 0
            while lo < n:
                mid = min(lo + width, n)
                hi = min(lo + 2 * width, n)
                i = lo
                j = mid
                for k in range(lo, hi):
                    if i < mid and (
                        j >= hi
                        or order(
                            &self.price[units[0][i] * W], &self.price[units[0][j] * W], W
                        ) <= 0
                    ):
                        other[k] = units[0][i]
                        i += 1
                    else:
                        other[k] = units[0][j]
                        j += 1
                lo = hi
            units.swap(other)
            width *= 2

    cdef void offer(self) noexcept nogil:
        """The traced units, those decided and those frozen: an answer, if allowed."""
        cdef int u
        cdef vector[char] mine = self.chosen
        for u in range(self.U):
            if self.status[u] == IN or self.frozen[u] == 2:
                mine[u] = 1
        self.keep_if_better(&mine)

    cdef void offer_greedy(self) noexcept nogil:
        """Everything, less what can be put back, dearest first: the plain way to an answer."""
        cdef int u
        cdef vector[char] mine
        mine.assign(self.U, 0)
        for u in range(self.U):
            if self.status[u] != OUT:
                mine[u] = 1
        self.keep_if_better(&mine)

    cdef void keep_if_better(self, vector[char]* mine) noexcept nogil:
        cdef bint allowed
        if not self.reduce(mine):
            return
        self.true_cost(mine, &self.scratch[0], &allowed)
        if allowed and (
            not self.have_best or order(&self.scratch[0], &self.best_cost[0], self.full) < 0
        ):
            put(&self.best_cost[0], &self.scratch[0], self.full)
            self.best = mine[0]
            self.have_best = True

    cdef void all_chosen(self) noexcept nogil:
        cdef int u
        for u in range(self.U):
            if self.status[u] == IN or self.frozen[u] == 2:
                self.chosen[u] = 1

    cdef void count_budgets(self, vector[int]* used) noexcept nogil:
        """Pods that the decided, frozen and traced units take from each budget."""
        cdef int u, i
        used.assign(self.c.budgets, 0)
        if not self.c.budgets:
            return
        self.all_chosen()
        for u in range(self.U):
            if self.chosen[u]:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    used[0][self.c.use_budget[i]] += self.c.use_pods[i]

    cdef bint exceeded(self) noexcept nogil:
        """Whether the traced answer takes more than a budget or a gang's surplus has left."""
        cdef int b, g, u
        cdef vector[int] used, gone
        self.count_budgets(&used)
        for b in range(self.c.budgets):
            if self.budget_state[b] != IN and used[b] > self.allowed_pods[b]:
                return True
        self.all_chosen()
        gone.assign(self.G, 0)
        for u in range(self.U):
            if self.chosen[u] and self.c.unit_gang[u] >= 0:
                gone[self.c.unit_gang[u]] += 1
        for g in range(self.G):
            if self.loose[g] and not self.gated[g] and gone[g] > self.surplus[g]:
                return True
        return False
