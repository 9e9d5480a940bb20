# distutils: language = c++
"""The best answer so far, and the least bound of what was not looked at.

An answer is a set of units. Its cost is counted anew by definition, and no unit stays in
it that can be put back: what relaxations propose is tried here, never believed.
"""

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport PackedCost, i64, order, plus, put


cdef class Incumbent:
    """What a search has to show: an answer, and what bounds the others."""

    def __init__(self, Space space, Levels levels, Relations relations):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.c = space.c

    cdef void lay_incumbent(self) noexcept nogil:
        """Nothing found, nothing left open."""
        self.best_cost.assign(self.levels.full, 0)
        self.open_bound.assign(self.levels.full, 0)
        self.have_best = False

    def begin(self, cutoff):
        """A search begins; ``cutoff``: limbs of a cost to undercut, or None."""
        cdef int i
        self.unproved = False
        if cutoff is not None:
            for i in range(self.levels.full):
                self.best_cost[i] = cutoff[i]
            self.have_best = True
        self.best.clear()

    cdef bint true_cost(self, vector[char]* chosen, i64* into) noexcept nogil:
        """Cost of the set by definition; False when it is not allowed (a hard budget)."""
        cdef int u, g, b, i, W = self.levels.full
        cdef bint allowed = True
        cdef vector[int] gone, used
        gone.assign(self.space.G, 0)
        used.assign(self.c.budgets, 0)
        put(into, &self.levels.extra[0], W)
        for u in range(self.space.U):
            if chosen[0][u]:
                plus(into, &self.relations.price[u * W], W)
                if self.c.unit_gang[u] >= 0:
                    gone[self.c.unit_gang[u]] += 1
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    used[self.c.use_budget[i]] += self.c.use_pods[i]
        for g in range(self.space.G):
            if gone[g] > self.space.surplus[g]:
                plus(into, &self.relations.break_price[g * W], W)
                if self.space.unbreakable[g]:
                    allowed = False
        for b in range(self.c.budgets):
            if used[b] > self.space.allowed_pods[b]:
                if self.space.firm[b]:
                    allowed = False
                else:
                    self.levels.pay(into, self.c.budget_level[b], used[b] - self.space.allowed_pods[b])
        return allowed

    cdef bint reduce(self, vector[char]* chosen) noexcept nogil:
        """Put back, dearest first, what is not needed; False when the gang does not fit."""
        cdef vector[i64] room = self.space.room0
        cdef vector[int] waiting = self.space.waiting0, order_, nodes
        cdef vector[int] now
        cdef vector[i64] inside, then
        cdef int u, i, j, n, e, z
        cdef i64 seats, less, change
        for u in range(self.space.U):
            if chosen[0][u]:
                self.space.move(u, 1, &room, &waiting)
                order_.push_back(u)
        now.assign(self.space.N, 0)
        inside.assign(self.space.domain_limit.size(), 0)
        seats = 0
        for n in range(self.space.N):
            if self.space.limit[n]:
                now[n] = <int>self.space.seats_on(n, &room, &waiting)
                if inside.size() and self.space.domain[n] >= 0:
                    inside[self.space.domain[n]] += now[n]
                else:
                    seats += now[n]
        for z in range(<int>inside.size()):
            seats += min(inside[z], <i64>self.space.domain_limit[z])
        if seats < self.space.need:
            return False
        if not self.space.settled_free:
            self.by_price(&order_)
        for i in range(<int>order_.size() - 1, -1, -1):
            u = order_[i]
            self.space.move(u, -1, &room, &waiting)
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
                if self.space.limit[n] and (j == 0 or nodes[j - 1] != n):
                    change = self.space.seats_on(n, &room, &waiting) - now[n]
                    if then.size() and self.space.domain[n] >= 0:
                        z = self.space.domain[n]
                        less -= min(then[z], <i64>self.space.domain_limit[z])
                        then[z] += change
                        change = min(then[z], <i64>self.space.domain_limit[z])
                    less += change
            if less >= self.space.need:
                chosen[0][u] = 0
                seats = less
                inside = then
                for j in range(<int>nodes.size()):
                    n = nodes[j]
                    if self.space.limit[n]:
                        now[n] = <int>self.space.seats_on(n, &room, &waiting)
            else:
                self.space.move(u, 1, &room, &waiting)
        return True

    cdef void by_price(self, vector[int]* units) noexcept nogil:
        """Merge sort by (price, index)."""
        cdef int n = <int>units.size(), width = 1, lo, mid, hi, i, j, k, W = self.levels.full
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
                            &self.relations.price[units[0][i] * W], &self.relations.price[units[0][j] * W], W
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

    cdef void keep_if_better(self, vector[char]* mine) noexcept nogil:
        """Offer a set of units, which loses what is not needed."""
        cdef PackedCost cost
        if self.reduce(mine) and self.true_cost(mine, cost) and (
            not self.have_best or order(cost, &self.best_cost[0], self.levels.full) < 0
        ):
            self.keep(mine, cost)

    cdef void keep(self, vector[char]* units, const i64* cost) noexcept nogil:
        """A better answer, with nothing needless in it, and its true cost."""
        put(&self.best_cost[0], cost, self.levels.full)
        self.best = units[0]
        self.have_best = True

    cdef bint cuts_off(self, const i64* bound) noexcept nogil:
        """Whether nothing at or above this bound is better than what is known."""
        return self.have_best and order(bound, &self.best_cost[0], self.levels.full) >= 0

    cdef void set_aside(self) noexcept nogil:
        """Search as if nothing were known yet; ``take_better`` has to follow."""
        self.have_other = self.have_best
        self.other_best = self.best
        self.other_cost = self.best_cost
        self.have_best = False

    cdef void take_better(self) noexcept nogil:
        """Keep the better one of the answer set aside and the one found since."""
        if self.have_other and not (
            self.have_best
            and order(&self.best_cost[0], &self.other_cost[0], self.levels.full) < 0
        ):
            self.best = self.other_best
            self.best_cost = self.other_cost
            self.have_best = True

    cdef void leave_open(self, const i64* bound) noexcept nogil:
        """Remember that answers at or above this bound were not looked at."""
        if not self.unproved or order(bound, &self.open_bound[0], self.levels.full) < 0:
            put(&self.open_bound[0], bound, self.levels.full)
        self.unproved = True

    cdef void close_beaten(self) noexcept nogil:
        """What was left open counts no more where answers found since are no dearer: left as it
        is, its bound would be taken for that of all answers."""
        if self.unproved and self.cuts_off(&self.open_bound[0]):
            self.unproved = False

    cdef void forget_open(self) noexcept nogil:
        """What was left open is looked at after all."""
        self.unproved = False
