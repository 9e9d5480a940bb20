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
   level, and what it splits is branched on (coupling_rows, restricted_master,
   column_generation, lexicographic, lp).
7. Where a bucket was split, prices are shared out over the nodes (pricing), the best
   answer is taken apart and completed anew (local_search), and branches decide what is
   left, one variable after the other (branching). Groups of nodes that the root bound
   decides are fixed first.
"""

from libcpp.vector cimport vector

from extender.search.core.branching cimport (
    CONTRADICTION, GANG, NOTHING, PRICE, UNIT, Choice,
)
from extender.search.core.columns cimport Columns
from extender.search.core.mckp cimport ANY_ROW, CUT, IMPOSSIBLE, LATE, NO_ROW, MckpStatus
from extender.search.core.packed_cost cimport PackedCost, i64, minus, order, put, zero
from extender.search.core.pricing cimport BELOW_ROOT
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
        self.traced = Traced(self.space, self.relations)
        self.frontiers = Frontiers(self.space, self.relations, self.effort, self.traced)
        self.elimination = Elimination(
            self.space, self.relations, self.effort, self.frontiers, self.traced,
        )
        self.domains = DomainLimits(
            self.space, self.relations, self.effort, self.frontiers, self.elimination,
        )
        self.relaxation = Relaxation(
            self.space, self.levels, self.relations, self.effort, self.frontiers, self.traced,
            self.elimination, self.domains, self.incumbent,
        )
        self.pricing = Pricing(
            self.space, self.levels, self.relations, self.effort, self.frontiers, self.traced,
            self.elimination, self.incumbent, self.relaxation,
        )
        self.branching = Branching(
            self.space, self.levels, self.relations, self.frontiers, self.traced, self.domains,
            self.relaxation,
        )
        self.coupling = CouplingRows(self.space, self.levels, self.relations)
        self.master = RestrictedMaster(
            self.space, self.levels, self.relations, self.effort, self.frontiers,
            self.relaxation, self.coupling,
        )
        self.generation = ColumnGeneration(
            self.space, self.levels, self.relations, self.effort, self.frontiers, self.traced,
            self.elimination, self.relaxation, self.coupling, self.master,
        )
        self.lexicographic = Lexicographic(
            self.space, self.levels, self.relations, self.effort, self.elimination,
            self.incumbent, self.relaxation, self.coupling, self.master, self.generation,
        )
        self.local_search = LocalSearch(
            self.space, self.levels, self.relations, self.effort, self.incumbent,
        )
        with nogil:
            self.traced.lay()
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

    cdef void explore_root(self) noexcept nogil:
        """Solve the region, or note that it was left open."""
        cdef PackedCost bound
        if not self.settle(&self.levels.extra[0], bound) and not self.close_root(bound):
            self.explore(bound)

    cdef void explore(self, const i64* inherited) noexcept nogil:
        """Solve what the decisions so far leave open, or note that it was left open."""
        cdef PackedCost bound
        if not self.settle(inherited, bound):
            self.split(bound)

    cdef bint settle(self, const i64* inherited, i64* bound) noexcept nogil:
        """Relax the branch: True where nothing is left to look at, or no time to do so.

        ``bound``: of the branch, at least ``inherited``.
        """
        cdef int W = self.relations.W
        cdef MckpStatus status
        cdef PackedCost value
        cdef PackedCost real
        if self.effort.halted or self.effort.out_of_time():
            self.halt(inherited)
            return True
        put(bound, inherited, W)
        if self.frontiers.sharing:
            if self.pricing.few_couplers():
                if self.pricing.settle_exactly(bound):
                    return True
            elif self.pricing.improve_shares(bound, LATER_SHARES, BELOW_ROOT):
                return True
        put(real, bound, W)
        status = self.relaxation.relax(value, bound)
        if status == LATE:
            self.halt(real)
            return True
        if status == IMPOSSIBLE or status == CUT:
            return True
        if order(bound, real, W) < 0:
            put(bound, real, W)
        if self.incumbent.cuts_off(bound):
            return True
        self.elimination.trace()
        self.relaxation.offer()
        if self.incumbent.cuts_off(bound):
            return True
        if self.effort.clock.over:
            # The trace may have ended half way: what it found is no answer, and proves nothing.
            self.halt(bound)
            return True
        return self.relaxation.attained(status, value)

    cdef void halt(self, const i64* bound) noexcept nogil:
        """Leave a branch of this bound for want of time, and all that follow."""
        self.effort.halt()
        self.incumbent.leave_open(bound)

    cdef bint close_root(self, i64* bound) noexcept nogil:
        """What is done once, after the first relaxation, before branches: better bounds, quick
        answers, nodes frozen. False where branches have to follow; ``bound`` may be higher."""
        cdef PackedCost value
        cdef PackedCost now
        cdef MckpStatus status
        cdef bint limited = self.space.domain_limit.size() != 0
        cdef bint untried = self.offer_plainly()
        cdef bint tied
        if self.incumbent.cuts_off(bound):
            return True
        tied = not self.elimination.was_split and not limited and self.relaxation.exceeded()
        if not untried and self.pricing.tune(bound):
            return True
        if tied and self.lexicographic.staged(bound):
            return True
        if not self.first_tried:
            self.offer_first()
            if self.incumbent.cuts_off(bound):
                return True
        if untried and self.pricing.tune(bound):
            return True
        if self.elimination.was_split and self.pricing.share_out(bound):
            return True
        if self.elimination.was_split and self.incumbent.best.size() and not limited:
            self.local_search.retry()
            if self.incumbent.cuts_off(bound):
                return True
        status = self.relaxation.relax(value, now)
        if status == LATE:
            self.halt(bound)
            return True
        if status == IMPOSSIBLE or status == CUT:
            return True
        return (
            self.frontiers.demand > 0 and self.incumbent.have_best and not limited
            and self.freeze()
        )

    cdef bint offer_plainly(self) noexcept nogil:
        """The first quick way to an answer; whether there is one now."""
        self.offer_alone(PUT_BACK)
        self.first_tried = self.first_found
        return self.incumbent.have_best

    cdef void offer_first(self) noexcept nogil:
        """The quick ways to an answer, which ask no clock: what a search without any time
        answers, so that one with some time is never worse. In each search that neither the
        first relaxation nor the program closes, or later where the end comes before that.
        The second way is taken where the first exceeds a firm budget."""
        self.offer_alone(PUT_BACK)
        if not self.first_found:
            self.offer_alone(FILLED_UP)
        self.first_tried = True

    cdef void offer_alone(self, QuickWay way) noexcept nogil:
        """One quick way as if there were no answer yet; the better one of both is kept."""
        self.incumbent.set_aside()
        if way == FILLED_UP:
            self.local_search.offer_within()
        else:
            self.relaxation.offer_greedy()
        self.first_found = self.incumbent.have_best
        self.incumbent.take_better()

    @property
    def found_first(self):
        """Whether the last search's quick ways found an answer, better ones aside."""
        return self.first_found

    cdef bint freeze(self) noexcept nogil:
        """Fix the nodes whose row the root bound decides; True when nothing can be better.

        Only nodes without couplers, and without units whose cost depends on
        others (surplus, budgets): their row then says which units go.
        """
        cdef int g, n, W = self.relations.W
        cdef PackedCost cutoff
        cdef vector[int] settled
        put(cutoff, &self.incumbent.best_cost[0], W)
        minus(cutoff, &self.relaxation.base[0], W)
        self.elimination.settle_knapsack(cutoff, &settled)
        for g in range(<int>settled.size()):
            if settled[g] == NO_ROW:
                return True
        for g in range(<int>settled.size()):
            n = self.elimination.group_node[g]
            if settled[g] != ANY_ROW and n >= 0 and not self.frontiers.rough[n] and self.apart(n):
                self.relaxation.freeze(n, settled[g])
        self.relaxation.count_demand()
        return False

    cdef bint apart(self, int n) noexcept nogil:
        """Whether the cost and the effect of all units on the node are its matter only."""
        cdef int i
        for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
            if not self.alone(self.relations.entry_unit[self.relations.node_entry[i]]):
                return False
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            if not self.alone(self.relations.lifted_unit[i]):
                return False
        return True

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
        cdef PackedCost mine
        cdef PackedCost price
        cdef PackedCost old
        cdef Choice choice
        put(mine, bound, self.relations.W)
        choice = self.branching.choose()
        if choice.kind == CONTRADICTION:
            return
        if choice.kind == NOTHING:
            self.incumbent.leave_open(mine)
        elif choice.kind == PRICE:
            zero(price, self.relations.W)
            put(old, &self.relations.tuned[choice.index * self.relations.W], self.relations.W)
            self.relations.tune(choice.index, price)
            self.explore(mine)
            self.relations.tune(choice.index, old)
        else:
            self.decide(choice, choice.first)
            self.explore(mine)
            self.decide(choice, OUT if choice.first == IN else IN)
            self.explore(mine)
            self.decide(choice, OPEN)

    cdef void decide(self, Choice choice, int state) noexcept nogil:
        """Settle what was chosen, or undo it (OPEN)."""
        if choice.kind == UNIT:
            self.relations.set_unit(choice.index, state)
        elif choice.kind == GANG:
            self.relations.set_gang(choice.index, state)
        else:
            self.relations.set_budget(choice.index, state)

    def search(self, cutoff, i64 branch_limit, double deadline, cancel):
        """(chosen or None, bound levels or None, closed, branches).

        ``cutoff`` is the (L,) cost to undercut, or None. chosen is None when
        nothing cheaper was found; bound is None when the region is closed.
        """
        cdef int u
        self.effort.start(branch_limit, deadline, cancel)
        self.incumbent.begin(None if cutoff is None else self.levels.pack(cutoff))
        self.relaxation.begin()
        self.first_tried = False
        self.first_found = False
        with nogil:
            self.explore_root()
            if self.incumbent.unproved and not self.first_tried:
                self.offer_first()
            self.incumbent.close_beaten()
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
