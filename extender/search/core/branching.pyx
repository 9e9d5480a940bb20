# distutils: language = c++
"""What to decide next where the relaxed answer is not a true one.

Each reason why it is not has its own kind of decision; the first reason that holds counts.
The traced units of the last relaxation tell.
"""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport order
from extender.search.core.states cimport IN, OPEN, OUT

cdef enum:
    TORN = 1000               # so much more counts a coupler that was both chosen and kept


cdef inline Choice chosen(Kind kind, int index, int first) noexcept nogil:
    cdef Choice found
    found.kind = kind
    found.index = index
    found.first = first
    return found


cdef inline Choice unit_or_contradiction(int u, int first) noexcept nogil:
    """The unit; where there is none left to decide (-1) the branch has no answer."""
    return chosen(UNIT, u, first) if u >= 0 else chosen(CONTRADICTION, -1, first)


cdef class Branching:
    """Chooses the variable to branch on."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Frontiers frontiers, Traced traced,
        DomainLimits domains, Relaxation relaxation,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.frontiers = frontiers
        self.traced = traced
        self.domains = domains
        self.relaxation = relaxation
        self.c = space.c

    cdef Choice choose(self) noexcept nogil:
        """What to decide next."""
        cdef vector[int] used
        cdef Choice found = self.exceeded_gang()
        if found.kind == NOTHING:
            self.relaxation.count_budgets(&used)
            found = self.exceeded_budget(&used)
        if found.kind == NOTHING:
            found = self.needless_price(&used)
        if found.kind == NOTHING:
            found = self.torn_coupler()
        if found.kind == NOTHING and self.space.domain_limit.size():
            found = self.coupler_between_domains()
        if found.kind == NOTHING:
            found = self.unit_of_rough_node()
        return found

    cdef Choice exceeded_gang(self) noexcept nogil:
        """A gang whose surplus is exceeded without paying for the break."""
        cdef int g, i, count
        for g in range(self.space.G):
            if not self.relations.loose[g] or self.space.status[self.space.U + g] == IN:
                continue
            count = 0
            for i in range(self.relations.gang_first[g], self.relations.gang_first[g + 1]):
                count += self.traced.chosen[self.relations.gang_unit[i]] != 0
            if count > self.space.surplus[g] and not (
                self.relations.gated[g] and self.traced.seen_one[self.space.U + g]
                and not self.traced.seen_zero[self.space.U + g]
                and not self.spanning_member(g)
            ):
                if self.space.status[self.space.U + g] == OPEN:
                    return chosen(GANG, g, OUT)
                return unit_or_contradiction(
                    self.dearest(
                        &self.relations.gang_unit,
                        self.relations.gang_first[g], self.relations.gang_first[g + 1],
                    ), OUT,
                )
        return chosen(NOTHING, -1, OUT)

    cdef Choice exceeded_budget(self, vector[int]* used) noexcept nogil:
        """A budget of which more is taken than is allowed or paid for."""
        cdef int b
        for b in range(self.c.budgets):
            if self.relations.budget_state[b] != IN and used[0][b] > self.space.allowed_pods[b]:
                if self.relations.budget_state[b] == OPEN:
                    return chosen(BUDGET, b, OUT)
                return unit_or_contradiction(
                    self.dearest(
                        &self.relations.budget_unit,
                        self.relations.budget_first[b], self.relations.budget_first[b + 1],
                    ), OUT,
                )
        return chosen(NOTHING, -1, OUT)

    cdef Choice needless_price(self, vector[int]* used) noexcept nogil:
        """A budget with a price that is not used up: the branch wants more of its units gone."""
        cdef int b, u
        for b in range(self.c.budgets):
            if used[0][b] < self.space.allowed_pods[b] and not self.levels.nothing(
                &self.relations.budget_price[b * self.relations.W]
            ):
                u = self.cheapest(b)
                if u >= 0:
                    return chosen(UNIT, u, IN)
                if self.relations.budget_state[b] == IN:
                    return chosen(CONTRADICTION, -1, OUT)
                return chosen(PRICE, b, OUT)
        return chosen(NOTHING, -1, OUT)

    cdef Choice torn_coupler(self) noexcept nogil:
        """A coupler that was both chosen and kept, or chosen at a share of its cost."""
        cdef int g, u, i, score, best = -1, best_score = 0
        for u in range(self.space.U):
            if self.space.status[u] == OPEN and self.relations.spans[u] and self.traced.seen_one[u]:
                score = self.relations.touch_first[u + 1] - self.relations.touch_first[u]
                if self.frontiers.sharing:
                    for i in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
                        score += 2 * self.traced.taken[i]
                if self.traced.seen_zero[u]:
                    score *= TORN
                if score > best_score:
                    best = u
                    best_score = score
        for g in range(self.space.G):
            if (
                self.relations.gated[g] and self.space.status[self.space.U + g] == OPEN
                and self.traced.seen_one[self.space.U + g]
            ):
                score = self.relations.gang_first[g + 1] - self.relations.gang_first[g]
                if self.traced.seen_zero[self.space.U + g]:
                    score *= TORN
                if score > best_score:
                    best = self.space.U + g
                    best_score = score
        if best < 0:
            return chosen(NOTHING, -1, OUT)
        if best >= self.space.U:
            return chosen(GANG, best - self.space.U, IN)
        return chosen(UNIT, best, IN)

    cdef Choice coupler_between_domains(self) noexcept nogil:
        """A coupler between domains: what it joins counts beyond the domains' limits."""
        cdef int v, U = self.space.U
        for v in range(self.space.V):
            if v < U:
                if self.relations.spans[v] and self.domains.between_domains(v):
                    return chosen(UNIT, v, OUT)
            elif self.relations.gated[v - U] and self.domains.between_domains(v):
                return chosen(GANG, v - U, OUT)
        return chosen(NOTHING, -1, OUT)

    cdef Choice unit_of_rough_node(self) noexcept nogil:
        """A chosen unit of a node whose frontier was cut short."""
        cdef int u
        for u in range(self.space.U):
            if (
                self.traced.chosen[u] and self.space.status[u] == OPEN and not self.traced.frozen[u]
                and self.relations.home[u] >= 0 and self.frontiers.rough[self.relations.home[u]]
            ):
                return chosen(UNIT, u, IN)
        return chosen(NOTHING, -1, OUT)

    cdef bint spanning_member(self, int g) noexcept nogil:
        """Whether a traced unit of the gang touches several nodes."""
        cdef int i, u
        for i in range(self.relations.gang_first[g], self.relations.gang_first[g + 1]):
            u = self.relations.gang_unit[i]
            if self.relations.spans[u] and self.traced.chosen[u]:
                return True
        return False

    cdef int cheapest(self, int b) noexcept nogil:
        """The undecided unit of the budget that costs least; -1 where there is none."""
        cdef int i, u, best = -1, W = self.relations.W
        for i in range(self.relations.budget_first[b], self.relations.budget_first[b + 1]):
            u = self.relations.budget_unit[i]
            if self.space.status[u] == OPEN and not self.traced.frozen[u]:
                if best < 0 or order(&self.relations.eff[u * W], &self.relations.eff[best * W], W) < 0:
                    best = u
        return best

    cdef int dearest(self, vector[int]* units, int start, int end) noexcept nogil:
        """The chosen, undecided unit of the list that costs most; -1 where there is none."""
        cdef int i, u, best = -1, W = self.relations.W
        for i in range(start, end):
            u = units[0][i]
            if self.traced.chosen[u] and self.space.status[u] == OPEN and not self.traced.frozen[u]:
                if best < 0 or order(&self.relations.eff[u * W], &self.relations.eff[best * W], W) > 0:
                    best = u
        return best
