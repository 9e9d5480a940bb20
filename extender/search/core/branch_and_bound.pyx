# distutils: language = c++
"""The exact search for gangs of one class, compiled, without the GIL.

One BranchAndBound object holds one set of nodes (the cluster, or a topology domain) and the
parts that search it. A part owns its data, is handed the parts that it works on and knows of
no other; ``compose`` shows who is handed what. A file each:

1. Units that never cost anything are taken; if the gang fits, that is it (space).
2. Cost levels above the one that must be paid are dropped with their units (space);
   the others are packed into words (levels).
3. Nodes are linked by what spans them: whole gangs, and gangs that break as soon
   as one pod goes. These are the couplers, variables with two values (relations).
   Between them every node is on its own: for each value of its couplers it has a
   frontier, the least cost of 0, 1, 2, ... more seats (frontiers, cover).
4. Couplers are eliminated one by one (elimination). Where a table would become too
   wide the bucket is split, which gives a lower bound instead.
5. The frontiers that remain are independent: a multiple-choice knapsack (mckp,
   relaxation); what comes out of it is tried, and kept where it is better (incumbent).
   Where domains take a limited number of members, the frontiers of a domain are added up
   to its limit first (domain_limits).
6. Budgets and surpluses, which steps 4 and 5 ignore, are rows of a linear program
   over what the nodes may do; its prices make the relaxation see them, level by
   level, and what it splits is branched on (coupling_rows, column_generation,
   lexicographic, lp).
7. Where a bucket was split, prices are shared out over the nodes (pricing), the best
   answer is taken apart and completed anew (local_search), and branching decides what is
   left. Groups of nodes that the root bound decides are fixed first.
"""

from libcpp.vector cimport vector

from extender.search.core.mckp cimport CUT, EXACT, IMPOSSIBLE, LATE, Outcome, mckp_settle
from extender.search.core.columns cimport Columns
from extender.search.core.packed_cost cimport i64, minus, order, plus, put, zero
from extender.search.core.states cimport OPEN, IN, OUT

cdef enum:
    LATER_SHARES = 3          # relaxations spent on sharing prices out on later branches


cdef class BranchAndBound:
    """The search inside one set of nodes. See the module's docstring."""

    def __init__(
        self, Columns columns, bytes inside, int extra_level=-1, gone=(), kept=(), i64 need=-1,
        domain=None, domain_limit=(),
    ):
        """Prepare the region: ``inside`` (N,) is 1 for its nodes.

        ``extra_level`` >= 0 adds 1 at that level to every answer (seats outside
        the preferred domain). ``gone`` units are chosen already: their room is
        free, and answers cost what comes on top of them. ``kept`` units stay.
        ``need`` >= 0 asks for so many seats instead of the problem's. ``domain`` (N,) and
        ``domain_limit``: domains (or -1) and the members that each takes.
        """
        self.c = columns
        self.space = Space(columns, inside, gone, kept, need, domain, domain_limit)
        self.effort = Effort()
        self.levels = Levels(self.space)
        self.relations = Relations(self.space, self.levels)
        self.incumbent = Incumbent(self.space, self.levels, self.relations)
        if self.space.possible and not self.space.settled_free:
            self.compose(extra_level)

    def compose(self, int extra_level):
        """The other parts, each handed those that it works on."""
        self.levels.pack_levels(extra_level)
        with nogil:
            self.relations.relate(NULL)
            self.incumbent.lay_incumbent()
        self.frontiers = Frontiers(self.space, self.relations, self.effort)
        self.elimination = Elimination(self.space, self.relations, self.effort, self.frontiers)
        self.domains = DomainLimits(
            self.space, self.relations, self.effort, self.frontiers, self.elimination,
        )
        self.relaxation = Relaxation(
            self.space, self.levels, self.relations, self.effort, self.frontiers,
            self.elimination, self.domains, self.incumbent,
        )
        self.pricing = Pricing(
            self.space, self.levels, self.relations, self.effort, self.frontiers,
            self.elimination, self.domains, self.incumbent, self.relaxation,
        )
        self.coupling = CouplingRows(self.space, self.levels, self.relations)
        self.program = ColumnGeneration(
            self.space, self.levels, self.relations, self.effort, self.frontiers,
            self.elimination, self.relaxation, self.coupling,
        )
        self.lexicographic = Lexicographic(
            self.space, self.levels, self.relations, self.effort, self.elimination,
            self.incumbent, self.relaxation, self.coupling, self.program,
        )
        self.local_search = LocalSearch(
            self.space, self.levels, self.relations, self.effort, self.incumbent,
        )
        with nogil:
            self.frontiers.lay_tables()
            self.relaxation.lay_relaxation()

    @property
    def possible(self):
        """Whether the gang fits with every unit gone."""
        return self.space.possible

    @property
    def settled_free(self):
        """Whether it fits with nobody gone but units that cost nothing."""
        return self.space.settled_free

    def shortage(self):
        """As Space.shortage."""
        return self.space.shortage()

    def seats(self, units, bint fill):
        """As Space.seats."""
        return self.space.seats(units, fill)

    cdef void explore(self, const i64* inherited, bint root) noexcept nogil:
        """Solve what the decisions so far leave open, or note that it was left open."""
        cdef int W = self.relations.W
        cdef Outcome outcome
        cdef i64 value[6]
        cdef i64 bound[6]
        cdef i64 real[6]
        cdef bint allowed, tied, untried
        if self.effort.halted or self.effort.out_of_time():
            self.effort.halted = True
            self.incumbent.leave_open(inherited)
            return
        put(bound, inherited, W)
        if self.frontiers.sharing:
            if self.pricing.few_couplers():
                if self.pricing.settle_exactly(bound):
                    return
            elif self.pricing.improve_shares(bound, LATER_SHARES, False):
                return
        put(real, bound, W)
        outcome = self.relaxation.relax(value, bound)
        if outcome == LATE:
            self.effort.halted = True
            self.incumbent.leave_open(real)
            return
        if outcome == IMPOSSIBLE or outcome == CUT:
            return
        if order(bound, real, W) < 0:
            put(bound, real, W)
        if self.incumbent.have_best and order(bound, &self.incumbent.best_cost[0], W) >= 0:
            return
        self.elimination.trace()
        self.relaxation.offer()
        if self.incumbent.have_best and order(bound, &self.incumbent.best_cost[0], W) >= 0:
            return
        if self.effort.clock.over:
            # The trace may have ended half way: what it found is no answer, and proves nothing.
            self.effort.halted = True
            self.incumbent.leave_open(bound)
            return
        self.relaxation.all_chosen()
        self.incumbent.true_cost(&self.frontiers.chosen, real, &allowed)
        if allowed and outcome == EXACT and order(real, value, W) <= 0 and (
            not self.space.domain_limit.size() or self.domains.in_domains(&self.frontiers.chosen)
        ):
            return
        if root:
            untried = self.offer_plainly()
            if self.incumbent.have_best and order(bound, &self.incumbent.best_cost[0], W) >= 0:
                return
            tied = (
                not self.elimination.was_split and not self.space.domain_limit.size()
                and self.relaxation.exceeded()
            )
            if not untried and self.pricing.tune(bound):
                return
            if tied and self.lexicographic.staged(bound):
                return
            if not self.first_tried:
                self.offer_first()
                if self.incumbent.have_best and order(bound, &self.incumbent.best_cost[0], W) >= 0:
                    return
            if untried and self.pricing.tune(bound):
                return
            if self.elimination.was_split and self.pricing.share_out(bound):
                return
            if (
                self.elimination.was_split and self.incumbent.best.size()
                and not self.space.domain_limit.size()
            ):
                self.local_search.retry()
                if order(bound, &self.incumbent.best_cost[0], W) >= 0:
                    return
            outcome = self.relaxation.relax(value, real)
            if outcome == LATE:
                self.effort.halted = True
                self.incumbent.leave_open(bound)
                return
            if outcome == IMPOSSIBLE or outcome == CUT:
                return
            if (
                self.frontiers.demand > 0 and self.incumbent.have_best
                and not self.space.domain_limit.size() and self.freeze()
            ):
                return
            self.explore(bound, False)
            return
        self.split(bound)

    cdef bint offer_plainly(self) noexcept nogil:
        """The first quick way to an answer; whether there is one now."""
        self.offer_alone(False)
        self.first_tried = self.first_found
        return self.incumbent.have_best

    cdef void offer_first(self) noexcept nogil:
        """The quick ways to an answer, which ask no clock: what a search without any time
        answers, so that one with some time is never worse. In each search that neither the
        first relaxation nor the program closes, or later where the end comes before that.
        The second way is taken where the first exceeds a firm budget."""
        self.offer_alone(False)
        if not self.first_found:
            self.offer_alone(True)
        self.first_tried = True

    cdef void offer_alone(self, bint within) noexcept nogil:
        """One quick way as if there were no answer yet; the better one of both is kept."""
        cdef bint had = self.incumbent.have_best
        cdef vector[char] best = self.incumbent.best
        cdef vector[i64] cost = self.incumbent.best_cost
        self.incumbent.have_best = False
        if within:
            self.local_search.offer_within()
        else:
            self.relaxation.offer_greedy()
        self.first_found = self.incumbent.have_best
        if had and not (
            self.incumbent.have_best
            and order(&self.incumbent.best_cost[0], &cost[0], self.levels.full) < 0
        ):
            self.incumbent.best = best
            self.incumbent.best_cost = cost
            self.incumbent.have_best = True

    @property
    def found_first(self):
        """Whether the last search's quick ways found an answer, better ones aside."""
        return self.first_found

    cdef bint freeze(self) noexcept nogil:
        """Fix the nodes whose row the root bound decides; True when nothing can be better.

        Only nodes without couplers, and without units whose cost depends on
        others (surplus, budgets): their row then says which units go.
        """
        cdef int g, n, u, i, k, W = self.relations.W
        cdef i64 cutoff[6]
        cdef vector[int] settled
        cdef bint apart
        put(cutoff, &self.incumbent.best_cost[0], W)
        minus(cutoff, &self.relaxation.base[0], W)
        mckp_settle(&self.elimination.pick, cutoff, &settled)
        for g in range(<int>settled.size()):
            if settled[g] == -2:
                return True
        for g in range(<int>settled.size()):
            n = self.elimination.group_node[g]
            if n < 0 or settled[g] < 0 or self.frontiers.rough[n]:
                continue
            apart = True
            for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
                apart = apart and self.alone(self.relations.entry_unit[self.relations.node_entry[i]])
            for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
                apart = apart and self.alone(self.relations.lifted_unit[i])
            if not apart:
                continue
            self.frontiers.chosen.assign(self.space.U, 0)
            k = settled[g]
            self.frontiers.take_on_node(n, 0, k)
            plus(&self.relaxation.frozen_cost[0], &self.frontiers.table[n][k * W], W)
            self.relaxation.frozen_seats += self.relations.base_slots[n] + k
            self.relations.active[n] = 0
            for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
                u = self.relations.entry_unit[self.relations.node_entry[i]]
                if not self.space.is_free[u] and self.space.status[u] == OPEN:
                    self.frontiers.frozen[u] = 1
                    if self.frontiers.chosen[u]:
                        self.frontiers.frozen[u] = 2
            for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
                u = self.relations.lifted_unit[i]
                if not self.space.is_free[u] and self.space.status[u] == OPEN:
                    self.frontiers.frozen[u] = 1
                    if self.frontiers.chosen[u]:
                        self.frontiers.frozen[u] = 2
        self.frontiers.demand = self.relaxation.missing()
        return False

    cdef bint alone(self, int u) noexcept nogil:
        """Whether the unit's cost and effect are its node's matter only."""
        cdef int i, g = self.c.unit_gang[u], b
        if self.space.status[u] == OUT:
            return True
        if self.space.status[u] == IN:
            return self.space.is_free[u] != 0
        if self.relations.spans[u] or (g >= 0 and self.relations.loose[g]):
            return False
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            b = self.c.use_budget[i]
            if self.relations.budget_state[b] != IN or self.space.allowed_pods[b]:
                return False
        return True

    cdef void split(self, const i64* bound) noexcept nogil:
        """Branch on what keeps the relaxed answer from being true."""
        cdef int kind = 0, index, first = OUT, second = IN
        cdef i64 mine[6]
        cdef i64 price[6]
        cdef i64 old[6]
        put(mine, bound, self.relations.W)
        index = self.choose_branch(&kind, &first)
        if index == -2:
            return
        if index == -1:
            self.incumbent.leave_open(mine)
            return
        if first == IN:
            second = OUT
        if kind == 3:
            # All its units are decided: its price only blurs the bound.
            zero(price, self.relations.W)
            put(old, &self.relations.tuned[index * self.relations.W], self.relations.W)
            put(&self.relations.tuned[index * self.relations.W], price, self.relations.W)
            self.relations.set_fine(index, price)
            self.explore(mine, False)
            put(&self.relations.tuned[index * self.relations.W], old, self.relations.W)
            self.relations.set_fine(index, old)
            return
        self.decide(kind, index, first)
        self.explore(mine, False)
        self.decide(kind, index, second)
        self.explore(mine, False)
        self.decide(kind, index, OPEN)

    cdef void decide(self, int kind, int index, int state) noexcept nogil:
        if kind == 0:
            self.relations.set_unit(index, state)
        elif kind == 1:
            self.relations.set_gang(index, state)
        else:
            self.relations.set_budget(index, state)

    cdef int choose_branch(self, int* kind, int* first) noexcept nogil:
        """What to decide next: kind 0 unit, 1 gang, 2 budget.

        -1 when nothing can be decided; -2 when what is decided already exceeds
        what is allowed on this branch.
        """
        cdef int g, b, u, i, count, best, score, best_score
        cdef vector[int] used
        # A gang's surplus exceeded without paying for the break.
        for g in range(self.space.G):
            if self.relations.loose[g] and self.space.status[self.space.U + g] != IN:
                count = 0
                for i in range(self.relations.gang_first[g], self.relations.gang_first[g + 1]):
                    count += self.frontiers.chosen[self.relations.gang_unit[i]] != 0
                if count > self.space.surplus[g] and not (
                    self.relations.gated[g] and self.frontiers.seen_one[self.space.U + g]
                    and not self.frontiers.seen_zero[self.space.U + g]
                    and not self.spanning_member(g)
                ):
                    if self.space.status[self.space.U + g] == OPEN:
                        kind[0] = 1
                        first[0] = OUT
                        return g
                    u = self.dearest(
                        &self.relations.gang_unit,
                        self.relations.gang_first[g], self.relations.gang_first[g + 1],
                    )
                    kind[0] = 0
                    first[0] = OUT
                    return u if u >= 0 else -2
        self.relaxation.count_budgets(&used)
        for b in range(self.c.budgets):
            if self.relations.budget_state[b] != IN and used[b] > self.space.allowed_pods[b]:
                if self.relations.budget_state[b] == OPEN:
                    kind[0] = 2
                    first[0] = OUT
                    return b
                u = self.dearest(
                    &self.relations.budget_unit,
                    self.relations.budget_first[b], self.relations.budget_first[b + 1],
                )
                kind[0] = 0
                first[0] = OUT
                return u if u >= 0 else -2
        # A budget with a price that is not used up: the branch wants more of its units gone.
        for b in range(self.c.budgets):
            if used[b] < self.space.allowed_pods[b] and not self.levels.nothing(
                &self.relations.fine[b * self.relations.W]
            ):
                u = self.cheapest(b)
                if u >= 0:
                    kind[0] = 0
                    first[0] = IN
                    return u
                if self.relations.budget_state[b] == IN:
                    return -2
                kind[0] = 3
                return b
        # A coupler that was both chosen and kept, or chosen at a share of its cost.
        best = -1
        best_score = 0
        for u in range(self.space.U):
            if self.space.status[u] == OPEN and self.relations.spans[u] and self.frontiers.seen_one[u]:
                score = self.relations.touch_first[u + 1] - self.relations.touch_first[u]
                if self.frontiers.sharing:
                    for i in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
                        score += 2 * self.frontiers.taken[i]
                if self.frontiers.seen_zero[u]:
                    score *= 1000
                if score > best_score:
                    best = u
                    best_score = score
        for g in range(self.space.G):
            if (
                self.relations.gated[g] and self.space.status[self.space.U + g] == OPEN
                and self.frontiers.seen_one[self.space.U + g]
            ):
                score = self.relations.gang_first[g + 1] - self.relations.gang_first[g]
                if self.frontiers.seen_zero[self.space.U + g]:
                    score *= 1000
                if score > best_score:
                    best = self.space.U + g
                    best_score = score
        if best >= self.space.U:
            kind[0] = 1
            first[0] = IN
            return best - self.space.U
        if best >= 0:
            kind[0] = 0
            first[0] = IN
            return best
        # A coupler between domains: what it joins counts beyond the domains' limits.
        if self.space.domain_limit.size():
            for u in range(self.space.V):
                if (u >= self.space.U and self.relations.gated[u - self.space.U]) or (
                    u < self.space.U and self.relations.spans[u]
                ):
                    if self.domains.between_domains(u):
                        kind[0] = 1 if u >= self.space.U else 0
                        first[0] = OUT
                        return u - self.space.U if u >= self.space.U else u
        # A node whose frontier was cut short: decide one of its chosen units.
        for u in range(self.space.U):
            if (
                self.frontiers.chosen[u] and self.space.status[u] == OPEN and not self.frontiers.frozen[u]
                and self.relations.home[u] >= 0 and self.frontiers.rough[self.relations.home[u]]
            ):
                kind[0] = 0
                first[0] = IN
                return u
        return -1

    cdef bint spanning_member(self, int g) noexcept nogil:
        cdef int i
        for i in range(self.relations.gang_first[g], self.relations.gang_first[g + 1]):
            if self.relations.spans[self.relations.gang_unit[i]] and self.frontiers.chosen[self.relations.gang_unit[i]]:
                return True
        return False

    cdef int cheapest(self, int b) noexcept nogil:
        """The undecided unit of the budget that costs least."""
        cdef int i, u, best = -1, W = self.relations.W
        for i in range(self.relations.budget_first[b], self.relations.budget_first[b + 1]):
            u = self.relations.budget_unit[i]
            if self.space.status[u] == OPEN and not self.frontiers.frozen[u]:
                if best < 0 or order(&self.relations.eff[u * W], &self.relations.eff[best * W], W) < 0:
                    best = u
        return best

    cdef int dearest(self, vector[int]* units, int start, int end) noexcept nogil:
        """The chosen, undecided unit of the list that costs most."""
        cdef int i, u, best = -1, W = self.relations.W
        for i in range(start, end):
            u = units[0][i]
            if self.frontiers.chosen[u] and self.space.status[u] == OPEN and not self.frontiers.frozen[u]:
                if best < 0 or order(&self.relations.eff[u * W], &self.relations.eff[best * W], W) > 0:
                    best = u
        return best

    def search(self, cutoff, i64 branch_limit, double deadline, cancel):
        """(chosen or None, bound levels or None, closed, branches).

        ``cutoff`` is the (L,) cost to undercut, or None. chosen is None when
        nothing cheaper was found; bound is None when the region is closed.
        """
        cdef int u
        cdef i64 start[6]
        self.effort.start(branch_limit, deadline, cancel)
        self.incumbent.unproved = False
        self.relaxation.widest_demand = 0
        packed = None if cutoff is None else self.levels.pack(cutoff)
        if packed is not None:
            for u in range(self.relations.W):
                self.incumbent.best_cost[u] = packed[u]
            self.incumbent.have_best = True
        self.incumbent.best.clear()
        self.first_tried = False
        self.first_found = False
        with nogil:
            zero(start, self.relations.W)
            put(start, &self.levels.extra[0], self.relations.W)
            self.explore(start, True)
            if self.incumbent.unproved and not self.first_tried:
                self.offer_first()
        chosen = None
        if self.incumbent.best.size():
            chosen = [u for u in range(self.space.U) if self.incumbent.best[u]]
        bound = None
        if self.incumbent.unproved:
            bound = tuple(self.levels.unpack(&self.incumbent.open_bound[0]))
        return chosen, bound, not self.incumbent.unproved, self.effort.branches

    def free_answer(self):
        """The units of step 1 that are needed, when they suffice."""
        cdef int u
        cdef vector[char] chosen
        cdef bint fits
        chosen.assign(self.space.U, 0)
        for u in range(self.space.U):
            chosen[u] = self.space.is_free[u]
        with nogil:
            fits = self.incumbent.reduce(&chosen)
        return [u for u in range(self.space.U) if chosen[u]] if fits else None

    def least(self, units):
        """These units without any that can be put back here; None where they do not do."""
        cdef int u
        cdef vector[char] chosen
        cdef bint fits
        chosen.assign(self.space.U, 0)
        for u in units:
            chosen[u] = 1
        with nogil:
            fits = self.incumbent.reduce(&chosen)
        return [u for u in range(self.space.U) if chosen[u]] if fits else None
