# distutils: language = c++
"""Prices that make the relaxation see what it ignores: budgets, and split couplers.

Both are Lagrangian: any price gives a valid bound, and good prices lead to answers
that keep the rules by themselves.
"""

from libcpp.vector cimport vector

from extender.search.core.mckp cimport CUT, IMPOSSIBLE, LATE, MckpStatus
from extender.search.core.packed_cost cimport PackedCost, i64, order, put, zero
from extender.search.core.states cimport OPEN, IN, WEIGHT_BITS

cdef enum:
    TUNING_STEPS = 40         # relaxations spent on the prices of budgets
    ROOT_SHARES = 120         # relaxations spent on sharing prices out, at the root
    FEW_COUPLERS = 20         # so many undecided couplers are worth an exact elimination


cdef inline i64 between(i64 low, i64 high) noexcept nogil:
    """A value between the two, by size first: prices range over many magnitudes."""
    cdef int a = 0, b = 0
    while (low >> a) > 0:
        a += 1
    while (high >> b) > 0:
        b += 1
    if b - a > 2:
        return <i64>1 << ((a + b) // 2)
    return low + (high - low) // 2


cdef class Pricing:
    """Finds prices for what the relaxation ignores."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Frontiers
        frontiers, Traced traced, Elimination elimination, Incumbent incumbent, Relaxation
        relaxation,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.traced = traced
        self.elimination = elimination
        self.incumbent = incumbent
        self.relaxation = relaxation
        self.c = space.c

    cdef bint tune(self, i64* bound) noexcept nogil:
        """Find prices for the budgets' pods; raise ``bound``; True when it is met.

        Each price is halved in between a value at which the budget is exceeded
        and one at which it is not, all at once. Every step gives a bound, and an
        answer that tends to keep within the budgets.
        """
        cdef int b, step, W = self.relations.W
        cdef PackedCost value
        cdef PackedCost now
        cdef Brackets brackets
        cdef vector[i64] best
        cdef MckpStatus status
        if not self.open_brackets(&brackets):
            return False
        best = self.relations.tuned
        for step in range(TUNING_STEPS):
            if self.effort.out_of_time():
                break
            self.price_between(&brackets)
            status = self.relaxation.relax(value, now)
            if status == LATE:
                break
            if status == IMPOSSIBLE or status == CUT:
                return True
            if order(now, bound, W) > 0:
                put(bound, now, W)
                best = self.relations.tuned
            self.elimination.trace()
            self.relaxation.offer()
            if self.incumbent.cuts_off(bound):
                return True
            if not self.narrow(&brackets):
                break
        for b in range(self.c.budgets):
            if brackets.open_[b]:
                self.relations.tune(b, &best[b * W])
        return False

    cdef bint open_brackets(self, Brackets* brackets) noexcept nogil:
        """From nothing to the highest price there may be; False: no budget is exceeded."""
        cdef int b, i, k, u, W = self.relations.W, budgets = self.c.budgets
        cdef i64 takes = 1, most
        cdef PackedCost excess
        cdef vector[int] used
        cdef bint some = False
        brackets.open_.assign(budgets, 0)
        self.relaxation.count_budgets(&used)
        for b in range(budgets):
            if (
                self.relations.budget_state[b] != IN
                and self.relations.budget_first[b] < self.relations.budget_first[b + 1]
            ):
                brackets.open_[b] = 1
                some = some or used[b] > self.space.allowed_pods[b]
            for i in range(self.relations.budget_first[b], self.relations.budget_first[b + 1]):
                u = self.relations.budget_unit[i]
                for k in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    if self.c.use_budget[k] == b:
                        takes += self.c.use_pods[k] + self.space.allowed_pods[b]
        if not some:
            return False
        most = (<i64>1 << 58) // takes  # with the costs still below what is_never knows
        brackets.low.assign(budgets, 0)
        brackets.high.assign(budgets, most)
        for b in range(budgets):
            if not self.space.firm[b]:
                zero(excess, W)
                self.levels.pay(excess, self.c.budget_level[b], 1)
                if excess[0] < most:
                    brackets.high[b] = excess[0]
        return True

    cdef void price_between(self, const Brackets* brackets) noexcept nogil:
        """A price for each budget's pods between its low and its high one."""
        cdef int b
        cdef PackedCost price
        zero(price, self.relations.W)
        for b in range(self.c.budgets):
            if brackets.open_[b]:
                price[0] = between(brackets.low[b], brackets.high[b])
                self.relations.tune(b, price)

    cdef bint narrow(self, Brackets* brackets) noexcept nogil:
        """The prices tried are bounds of their brackets now; False: no bracket is narrower."""
        cdef int b
        cdef i64 price
        cdef vector[int] used
        cdef bint moved = False
        self.relaxation.count_budgets(&used)
        for b in range(self.c.budgets):
            if brackets.open_[b]:
                price = self.relations.tuned[b * self.relations.W]
                if used[b] > self.space.allowed_pods[b]:
                    if brackets.low[b] < price:
                        brackets.low[b] = price
                        moved = True
                elif brackets.high[b] > price:
                    brackets.high[b] = price
                    moved = True
        return moved

    cdef bint share_out(self, i64* bound) noexcept nogil:
        """Where elimination had to split: is the bound better with every node on its own?

        Raises ``bound``; True when that meets the best answer. ``sharing`` stays on
        for the branches below when it gave the better bound.
        """
        cdef PackedCost shared
        zero(shared, self.relations.W)
        self.frontiers.start_sharing()
        if self.improve_shares(shared, ROOT_SHARES, AT_ROOT):
            return True
        if order(shared, bound, self.relations.W) > 0:
            put(bound, shared, self.relations.W)
        else:
            self.frontiers.stop_sharing()
        return False

    cdef bint improve_shares(self, i64* bound, int steps, Depth depth) noexcept nogil:
        """Subgradient steps: move a unit's price to the nodes that take it.

        A unit taken on some of its nodes only is too cheap there and too dear
        elsewhere. Any division is a valid bound; the best one found is kept.
        """
        cdef int u, step, W = self.relations.W
        cdef i64 step_size
        cdef PackedCost value
        cdef PackedCost now
        cdef PackedCost top
        cdef vector[i64] best = self.relations.weight
        cdef bint found = False, some
        cdef MckpStatus status
        for step in range(steps):
            if self.effort.out_of_time():
                break
            status = self.relaxation.relax(value, now)
            if status == LATE:
                break
            if status == IMPOSSIBLE or status == CUT:
                return True
            if not found or order(&self.relaxation.raw[0], top, W) > 0:
                found = True
                put(top, &self.relaxation.raw[0], W)
                best = self.relations.weight
            if order(now, bound, W) > 0:
                put(bound, now, W)
            self.elimination.trace()
            self.relaxation.offer()
            if self.incumbent.cuts_off(bound):
                return True
            step_size = (<i64>1 << WEIGHT_BITS) // (4 + step if depth == AT_ROOT else 32)
            some = False
            for u in range(self.space.U):
                if self.space.status[u] == OPEN and self.relations.spans[u] and self.traced.seen_one[u]:
                    if self.relations.shift_weight(u, &self.traced.taken, step_size):
                        some = True
            if not some:
                break
        if depth == AT_ROOT:
            self.relations.set_weight(&best)
            self.frontiers.start_sharing()
        return False

    cdef bint few_couplers(self) noexcept nogil:
        """Whether so few couplers are undecided that elimination may settle the branch."""
        cdef int u, g, count = 0
        for u in range(self.space.U):
            if self.space.status[u] == OPEN and self.relations.spans[u]:
                count += 1
        for g in range(self.space.G):
            if self.relations.gated[g] and self.space.status[self.space.U + g] == OPEN:
                count += 1
        return count <= FEW_COUPLERS

    cdef bint settle_exactly(self, i64* bound) noexcept nogil:
        """Try elimination where few couplers are left; True when that closes the branch."""
        cdef PackedCost value
        cdef PackedCost now
        cdef bint closed = False
        cdef MckpStatus status
        self.frontiers.stop_sharing()
        status = self.relaxation.relax(value, now)
        if status == IMPOSSIBLE or status == CUT:
            closed = True
        elif status != LATE:
            if order(now, bound, self.relations.W) > 0:
                put(bound, now, self.relations.W)
            self.elimination.trace()
            self.relaxation.offer()
            if self.incumbent.cuts_off(bound):
                closed = True
            elif not self.effort.clock.over and self.relaxation.attained(status, value):
                closed = True
        self.frontiers.start_sharing()
        return closed
