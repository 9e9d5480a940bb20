# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# distutils: language = c++
"""The exact search for gangs of one class, compiled, without the GIL.

One Region object holds one set of nodes (the cluster, or a topology domain).

1. Units that never cost anything are taken; if the gang fits, that is it.
2. Cost levels above the one that must be paid are dropped with their units.
3. Nodes are linked by what spans them: whole gangs, and gangs that break as soon
   as one pod goes. These are the couplers, variables with two values. Between
   them every node is on its own: for each value of its couplers it has a frontier,
   the least cost of 0, 1, 2, ... more seats (cover.pyx).
4. Couplers are eliminated one by one (bucket elimination): the frontiers of the
   nodes they touch are added up and the cheaper value kept. Where a table would
   become too wide the bucket is split, which gives a lower bound instead.
5. The frontiers that remain are independent: a multiple-choice knapsack (choice.pyx).
6. When the result is not a true answer (a split bucket, a budget or a gang's
   surplus exceeded, which steps 4 and 5 ignore), branch on what went wrong.
   Groups of nodes that the root bound decides are fixed first.
"""

from libc.stdint cimport int64_t
from libc.time cimport time_t
from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from extender.search.core.choice cimport (
    CUT, EXACT, GAP, IMPOSSIBLE, Choice, Outcome, choose, settle,
)
from extender.search.core.cover cimport Cover, cover_lay, cover_solve, cover_space
from extender.search.core.limbs cimport (
    MOST_LIMBS, i64, is_never, minus, never, order, order_of_sum, plus, put, wide, zero,
)

cdef extern from "<time.h>" nogil:
    cdef struct timespec:
        time_t tv_sec
        long tv_nsec
    int clock_gettime(int clock, timespec* now)
    int CLOCK_MONOTONIC

cdef enum:
    OPEN = 0
    IN = 1
    OUT = 2
    WIDEST = 7                # couplers in one table
    COVER_PATIENCE = 3000     # branches per node frontier entry
    TABLE_WORDS = 4000000     # int64 words in one table
    STEP_WORK = 20000         # elementary steps that count as one branch
    TUNING_STEPS = 40         # relaxations spent on the prices of budgets
    WEIGHT_BITS = 20          # a unit's price is shared out in parts of 1 / 2**20
    ROOT_SHARES = 120         # relaxations spent on sharing prices out, at the root
    LATER_SHARES = 3          # and on every later branch
    FEW_COUPLERS = 20         # so many undecided couplers are worth an exact elimination

cdef i64 CHOICE_PATIENCE = 60000000
cdef double LARGEST_SUM = 2.0e18  # well below an int64; validate.py draws its line higher


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


class Doubtful(Exception):
    """A unit is malformed or too large for this core; validate.check_units says which."""


cdef class Columns:
    """A problem of one class as flat arrays; shared by all regions."""

    cdef int nodes, resources, units, gangs, budgets, levels
    cdef i64 need, count
    cdef vector[i64] request, free, releases, cost_amount, broken_amount
    cdef vector[int] limit
    cdef vector[int] unit_first, entry_node, cost_first, cost_level, unit_gang
    cdef vector[int] use_first, use_budget, use_pods
    cdef vector[int] lift_first, lift_node
    cdef vector[int] surplus, broken_first, broken_level
    cdef vector[int] allowed_pods, hard, budget_level
    cdef vector[int] waiting
    cdef list kept

    def __init__(self, problem):
        """Copy the columns. The frame is valid (check_frame), there is one class, no wide cap.

        Raises Doubtful where check_units would complain, or a number leaves int64.
        """
        cls = problem.classes[0]
        request = cls.request
        kept = [r for r in range(len(request)) if request[r] > 0]
        self.kept = kept
        self.nodes = len(problem.nodes)
        self.resources = len(kept)
        self.levels = len(problem.levels)
        self.need = max(problem.need, cls.least)
        self.count = cls.count
        cdef int r, n, k, entry
        cdef i64 amount
        for r in kept:
            self.request.push_back(request[r])
        self.free.resize(self.nodes * self.resources)
        cdef const int64_t[::1] column
        k = 0
        for r in kept:
            column = problem.free[r]
            for n in range(self.nodes):
                self.free[n * self.resources + k] = column[n]
            k += 1
        cdef const unsigned char[::1] allowed = cls.allowed
        cdef int most = min(cls.count, 1 << 30)
        self.limit.resize(self.nodes)
        for n in range(self.nodes):
            self.limit[n] = 0
            if allowed[n]:
                self.limit[n] = most
        for cap in problem.caps:
            if 0 in cap.classes:
                most = min(cap.limit, 1 << 30)
                for n in range(self.nodes):
                    if cap.domain[n] >= 0 and self.limit[n] > most:
                        self.limit[n] = most
        try:
            self._take_units(problem, kept)
        except (TypeError, ValueError, OverflowError) as error:
            raise Doubtful(str(error)) from error
        self._take_rules(problem)

    cdef _take_units(self, problem, list kept):
        """Copy and check the units; the checks are those of validate.check_units."""
        cdef int level, r, k, node, budget, pods, gang, u = 0, width = self.levels
        cdef int resources = len(problem.resources), gangs = len(problem.gangs)
        cdef int budgets = len(problem.budgets)
        cdef i64 amount
        cdef double most
        cdef tuple releases, amounts, cost, uses
        cdef vector[int] kept_at, seen_on, seen_budget
        cdef vector[double] paid, freed
        kept_at.assign(resources, -1)
        for k in range(len(kept)):
            kept_at[kept[k]] = k
        seen_on.assign(self.nodes, -1)
        seen_budget.assign(budgets, -1)
        paid.assign(width, 0.0)
        freed.assign(resources, 0.0)
        self.units = len(problem.units)
        self.unit_first.reserve(self.units + 1)
        self.cost_first.reserve(self.units + 1)
        self.use_first.reserve(self.units + 1)
        self.unit_gang.reserve(self.units)
        self.entry_node.reserve(self.units + self.units // 4)
        self.releases.reserve((self.units + self.units // 4) * self.resources)
        for unit in problem.units:
            self.unit_first.push_back(<int>self.entry_node.size())
            self.cost_first.push_back(<int>self.cost_level.size())
            self.use_first.push_back(<int>self.use_budget.size())
            releases = unit.releases
            for node, amounts in releases:
                if node < 0 or node >= self.nodes or seen_on[node] == u:
                    raise ValueError("releases")
                if len(amounts) != resources:
                    raise ValueError("releases")
                seen_on[node] = u
                self.entry_node.push_back(node)
                for r in range(resources):
                    amount = amounts[r]
                    if amount < 0:
                        raise ValueError("releases")
                    freed[r] += amount
                    if kept_at[r] >= 0:
                        self.releases.push_back(amount)
            cost = unit.cost
            if len(cost) != width:
                raise ValueError("cost")
            for level in range(width):
                amount = cost[level]
                if amount:
                    if amount < 0:
                        raise ValueError("cost")
                    paid[level] += amount
                    self.cost_level.push_back(level)
                    self.cost_amount.push_back(amount)
            gang = unit.gang
            if gang < -1 or gang >= gangs:
                raise ValueError("gang")
            self.unit_gang.push_back(gang)
            uses = unit.budgets
            for budget, pods in uses:
                if budget < 0 or budget >= budgets or pods < 1 or seen_budget[budget] == u:
                    raise ValueError("budgets")
                seen_budget[budget] = u
                self.use_budget.push_back(budget)
                self.use_pods.push_back(pods)
            u += 1
        self.unit_first.push_back(<int>self.entry_node.size())
        self.cost_first.push_back(<int>self.cost_level.size())
        self.use_first.push_back(<int>self.use_budget.size())
        if len({unit.uid for unit in problem.units}) != self.units:
            raise ValueError("uid")
        for level in range(width):
            if paid[level] > LARGEST_SUM:
                raise ValueError("cost")
        for r in range(resources):
            most = freed[r]
            for k in range(self.nodes):
                if kept_at[r] >= 0:
                    amount = self.free[k * self.resources + kept_at[r]]
                    if abs(<double>amount) + freed[r] > most:
                        most = abs(<double>amount) + freed[r]
            if most > LARGEST_SUM:
                raise ValueError("releases")
        cls = problem.classes[0]
        if any(amount * max(1, cls.count) > LARGEST_SUM for amount in cls.request):
            raise ValueError("request")

    cdef _take_rules(self, problem):
        cdef int level, number
        self.gangs = len(problem.gangs)
        for gang in problem.gangs:
            number = min(gang.surplus, 1 << 30)
            self.surplus.push_back(number)
            self.broken_first.push_back(<int>self.broken_level.size())
            for level in range(self.levels):
                if gang.break_cost[level]:
                    self.broken_level.push_back(level)
                    self.broken_amount.push_back(gang.break_cost[level])
        self.broken_first.push_back(<int>self.broken_level.size())
        self.budgets = len(problem.budgets)
        for budget in problem.budgets:
            number = min(budget.allowed, 1 << 30)
            self.allowed_pods.push_back(number)
            number = 0
            if budget.hard:
                number = 1
            self.hard.push_back(number)
            self.budget_level.push_back(budget.level)
        self.waiting.assign(self.nodes, 0)
        blocked = {}
        for blocker in problem.blockers:
            blocked.setdefault(blocker.node, set()).update(blocker.units)
        lifts = {}
        for node, units in blocked.items():
            self.waiting[node] = len(units)
            for unit in units:
                lifts.setdefault(unit, []).append(node)
        for unit in range(self.units):
            self.lift_first.push_back(<int>self.lift_node.size())
            for node in lifts.get(unit, ()):
                self.lift_node.push_back(node)
        self.lift_first.push_back(<int>self.lift_node.size())


cdef class Region:
    """The search inside one set of nodes. See the module's docstring for the steps."""

    cdef Columns c
    cdef int W, R, N, U, G, V, first_level
    cdef i64 need, demand
    cdef readonly bint possible, settled_free
    # limb layout
    cdef vector[int] level_limb, level_shift
    cdef vector[i64] level_most, extra
    # units
    cdef vector[i64] price, eff, broken          # U*W, U*W, G*W
    cdef vector[char] status                     # V: units, then gangs
    cdef vector[char] budget_state
    cdef vector[i64] fine, tuned                 # budgets*W: price of a pod now; when not IN
    cdef vector[char] gated, loose               # G: variable; surplus counted outside
    cdef vector[char] unbreakable, firm          # G; budgets
    cdef vector[char] is_free, spans
    cdef vector[int] touch_first, touch_node     # relevant nodes per unit
    cdef vector[i64] weight                      # per touch: its part of the unit's price
    cdef vector[char] taken                      # per touch: chosen there (sharing only)
    cdef bint sharing, was_split
    cdef vector[int] home                        # the one relevant node, -1
    cdef vector[int] budget_first, budget_unit
    cdef vector[int] gang_first, gang_unit
    cdef vector[int] surplus, allowed_pods       # what is left of them
    # nodes
    cdef vector[i64] room0                       # N*R with the gone units' room
    cdef vector[int] waiting0
    cdef vector[i64] avail                       # N*R under IN units
    cdef vector[int] limit, waiting, base_slots
    cdef vector[char] relevant, active, dirty
    cdef vector[int] node_first, node_entry, entry_unit
    cdef vector[int] lifted_first, lifted_unit
    # factors of nodes
    cdef vector[vector[int]] scope
    cdef vector[vector[i64]] table
    cdef vector[int] most
    cdef vector[char] rough                      # relaxed (too many couplers) or inexact
    cdef vector[int] relaxed_uses                # V
    cdef vector[vector[int]] relaxed_vars
    # elimination
    cdef vector[vector[int]] f_scope
    cdef vector[vector[i64]] f_table
    cdef vector[int] f_most, f_leaf, f_want, f_bits
    cdef vector[char] f_dead
    cdef vector[vector[int]] r_inputs
    cdef vector[int] r_var, r_output
    cdef vector[vector[i64]] r_cost
    cdef vector[int] group_factor, group_node
    cdef vector[int] comp_of_var, comp_of_node
    cdef vector[vector[int]] v_factors
    cdef Choice pick
    # answers
    cdef vector[i64] raw, base, frozen_cost, best_cost, open_bound, scratch
    cdef vector[char] chosen, best, frozen
    cdef vector[char] seen_one, seen_zero
    cdef bint have_best, halted, unproved
    cdef i64 widest_demand
    cdef i64 frozen_seats, work, branches, branch_limit
    cdef double deadline
    cdef const signed char* cancel
    cdef object _cancel_owner
    cdef vector[i64] space, asked, node_room, item_amounts, item_costs
    cdef vector[int] item_unit

    def __init__(self, Columns columns, bytes inside, int extra_level=-1, gone=(), kept=()):
        """Prepare the region: ``inside`` (N,) is 1 for its nodes.

        ``extra_level`` >= 0 adds 1 at that level to every answer (seats outside
        the preferred domain). ``gone`` units are chosen already: their room is
        free, and answers cost what comes on top of them. ``kept`` units stay.
        """
        self.c = columns
        self.R = columns.resources
        self.N = columns.nodes
        self.U = columns.units
        self.G = columns.gangs
        self.V = self.U + self.G
        self.need = columns.need
        cdef const unsigned char[::1] mask = inside
        cdef int n
        self._start(gone, kept)
        self.limit.resize(self.N)
        for n in range(self.N):
            if mask[n]:
                self.limit[n] = columns.limit[n]
        with nogil:
            self._open_room()
            if self.possible and not self.settled_free:
                self._drop_dear_levels()
        if self.possible and not self.settled_free:
            self._pack_levels(extra_level)
            with nogil:
                self._relate()

    def _start(self, gone, kept):
        """Room, surpluses and budgets once the decided units are settled."""
        cdef int u, i, b, g
        cdef vector[int] of_gang
        self.room0 = self.c.free
        self.waiting0 = self.c.waiting
        self.surplus = self.c.surplus
        self.allowed_pods = self.c.allowed_pods
        self.status.assign(self.V, OPEN)
        of_gang.assign(self.G, 0)
        for u in kept:
            self.status[u] = OUT
        for u in gone:
            self.status[u] = OUT
            self.move(u, 1, &self.room0, &self.waiting0)
            if self.c.unit_gang[u] >= 0:
                of_gang[self.c.unit_gang[u]] += 1
            for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                b = self.c.use_budget[i]
                self.allowed_pods[b] -= self.c.use_pods[i]
                if self.allowed_pods[b] < 0:
                    self.allowed_pods[b] = 0
        for g in range(self.G):
            if of_gang[g] > self.surplus[g]:
                self.surplus[g] = self.U + 1
            else:
                self.surplus[g] -= of_gang[g]

    # -- room ---------------------------------------------------------------

    cdef i64 slots(self, int n, const i64* room, int waiting) noexcept nogil:
        """Members that fit on node n with these amounts."""
        cdef i64 most, fit
        cdef int r
        if waiting > 0:
            return 0
        most = self.limit[n]
        for r in range(self.R):
            if most <= 0:
                return 0
            if room[r] <= 0:
                return 0
            if room[r] < most * self.c.request[r]:
                fit = room[r] // self.c.request[r]
                if fit < most:
                    most = fit
        return most

    cdef void move(self, int unit, int sign, vector[i64]* room, vector[int]* waiting) noexcept nogil:
        """Release (sign 1) or put back (-1) one unit's amounts."""
        cdef int e, r, n
        for e in range(self.c.unit_first[unit], self.c.unit_first[unit + 1]):
            n = self.c.entry_node[e]
            for r in range(self.R):
                room[0][n * self.R + r] += sign * self.c.releases[e * self.R + r]
        for e in range(self.c.lift_first[unit], self.c.lift_first[unit + 1]):
            waiting[0][self.c.lift_node[e]] -= sign

    cdef i64 total(self, vector[i64]* room, vector[int]* waiting) noexcept nogil:
        cdef int n
        cdef i64 found = 0
        for n in range(self.N):
            if self.limit[n]:
                found += self.slots(n, &room[0][n * self.R] if self.R else NULL, waiting[0][n])
        return found

    cdef void _open_room(self) noexcept nogil:
        """Steps 1: free units in; does the gang fit now, or at all?"""
        cdef int u, n
        cdef vector[i64] room
        cdef vector[int] waiting
        self.avail = self.room0
        self.waiting = self.waiting0
        self.is_free.assign(self.U, 0)
        self.budget_state.assign(self.c.budgets, OPEN)
        for u in range(self.U):
            if (
                self.status[u] == OPEN
                and self.c.cost_first[u] == self.c.cost_first[u + 1]
                and self.c.unit_gang[u] < 0
                and self.c.use_first[u] == self.c.use_first[u + 1]
            ):
                self.is_free[u] = 1
                self.status[u] = IN
                self.move(u, 1, &self.avail, &self.waiting)
        self.settled_free = self.total(&self.avail, &self.waiting) >= self.need
        self.possible = True
        if not self.settled_free:
            room = self.avail
            waiting = self.waiting
            for u in range(self.U):
                if self.status[u] == OPEN:
                    self.move(u, 1, &room, &waiting)
            self.possible = self.total(&room, &waiting) >= self.need

    cdef int _top(self, int u) noexcept nogil:
        """The most important level at which taking the unit surely costs."""
        cdef int top = self.c.levels, g = self.c.unit_gang[u], i, b, level
        if self.c.cost_first[u] < self.c.cost_first[u + 1]:
            top = self.c.cost_level[self.c.cost_first[u]]
        if g >= 0 and self.surplus[g] == 0 and self.c.broken_first[g] < self.c.broken_first[g + 1]:
            level = self.c.broken_level[self.c.broken_first[g]]
            top = min(top, level)
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            b = self.c.use_budget[i]
            if not self.c.hard[b] and self.allowed_pods[b] == 0:
                level = self.c.budget_level[b]
                top = min(top, level)
        return top

    cdef void _drop_dear_levels(self) noexcept nogil:
        """Step 2: the least important levels whose units suffice; dearer units are OUT.

        All those units together are an answer, so nothing that pays at a more
        important level than they do can be the best one.
        """
        cdef int u, level, g, b, i
        cdef vector[vector[int]] by_top
        cdef vector[int] gone, used
        cdef vector[i64] room = self.avail
        cdef vector[int] waiting = self.waiting
        by_top.resize(self.c.levels + 1)
        for u in range(self.U):
            if self.status[u] == OPEN:
                by_top[self._top(u)].push_back(u)
        gone.assign(self.G, 0)
        used.assign(self.c.budgets, 0)
        level = self.c.levels + 1
        while level > 0:
            level -= 1
            for i in range(<int>by_top[level].size()):
                u = by_top[level][i]
                self.move(u, 1, &room, &waiting)
                if self.c.unit_gang[u] >= 0:
                    gone[self.c.unit_gang[u]] += 1
                for b in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    used[self.c.use_budget[b]] += self.c.use_pods[b]
            if by_top[level].size() and self.total(&room, &waiting) >= self.need:
                break
        for g in range(self.G):
            if gone[g] > self.surplus[g] and self.c.broken_first[g] < self.c.broken_first[g + 1]:
                i = self.c.broken_level[self.c.broken_first[g]]
                level = min(level, i)
        for b in range(self.c.budgets):
            if used[b] > self.allowed_pods[b]:
                i = self.c.budget_level[b]
                if self.c.hard[b]:
                    i = 0
                level = min(level, i)
        self.first_level = level
        for u in range(self.U):
            if self.status[u] == OPEN and self._top(u) < level:
                self.status[u] = OUT
        # What could only be paid at a dropped level is forbidden instead.
        self.unbreakable.assign(self.G, 0)
        for g in range(self.G):
            if (
                self.c.broken_first[g] < self.c.broken_first[g + 1]
                and self.c.broken_level[self.c.broken_first[g]] < level
            ):
                self.unbreakable[g] = 1
        self.firm.assign(self.c.budgets, 0)
        for b in range(self.c.budgets):
            if self.c.hard[b] != 0 or self.c.budget_level[b] < level:
                self.firm[b] = 1

    # -- limbs --------------------------------------------------------------

    def _pack_levels(self, int extra_level):
        """Give every level that can be paid a field in a limb."""
        cdef int u, i, level, limb = -1, room = 0, bits
        cdef vector[i64] totals
        totals.assign(self.c.levels, 0)
        for u in range(self.U):
            if self.status[u] != OUT:
                for i in range(self.c.cost_first[u], self.c.cost_first[u + 1]):
                    totals[self.c.cost_level[i]] += self.c.cost_amount[i]
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    if not self.firm[self.c.use_budget[i]]:
                        totals[self.c.budget_level[self.c.use_budget[i]]] += self.c.use_pods[i]
        for i in range(<int>self.c.broken_level.size()):
            totals[self.c.broken_level[i]] += self.c.broken_amount[i]
        if extra_level >= 0:
            totals[extra_level] += 1
        self.level_limb.assign(self.c.levels, -1)
        self.level_shift.assign(self.c.levels, 0)
        self.level_most.assign(self.c.levels, 0)
        # From the least level of each limb upwards: collect first, then shift.
        limbs = []
        for level in range(self.c.levels):
            if totals[level] and (level >= self.first_level or level == extra_level):
                bits = int(totals[level]).bit_length() + 1
                if bits > 60:
                    raise Doubtful("a cost level is too wide")
                if not limbs or room + bits > 60:
                    fields = []
                    limbs.append(fields)
                    room = 0
                fields.append((level, bits))
                room += bits
                self.level_most[level] = totals[level]
        if len(limbs) > MOST_LIMBS:
            raise Doubtful("too many cost levels")
        for limb, fields in enumerate(limbs):
            shift = 0
            for level, bits in reversed(fields):
                self.level_limb[level] = limb
                self.level_shift[level] = shift
                shift += bits
        self.W = max(1, len(limbs))
        self.extra.assign(self.W, 0)
        if extra_level >= 0:
            self.pay(&self.extra[0], extra_level, 1)

    cdef void pay(self, i64* into, int level, i64 amount) noexcept nogil:
        if self.level_limb[level] >= 0:
            into[self.level_limb[level]] += amount << self.level_shift[level]

    cdef list unpack(self, const i64* value):
        """The (L,) levels of a packed, non-negative cost."""
        levels = [0] * self.c.levels
        rest = [value[i] for i in range(self.W)]
        for level in range(self.c.levels):
            if self.level_limb[level] >= 0:
                limb = self.level_limb[level]
                levels[level] = max(0, rest[limb]) >> self.level_shift[level]
                rest[limb] -= levels[level] << self.level_shift[level]
        return levels

    def _pack(self, levels):
        """A cost of other origin as limbs, or None when every answer here lies below it.

        A level that costs nothing here, or less than asked, decides the order:
        the next packed level is then put just beyond its field.
        """
        cdef int level, last = -1
        cdef vector[i64] into
        cdef bint beyond = False
        into.assign(self.W, 0)
        for level in range(self.c.levels):
            if self.level_limb[level] < 0:
                beyond = beyond or levels[level] > 0
            elif beyond or levels[level] > self.level_most[level]:
                self.pay(&into[0], level, self.level_most[level] + 1)
                return [into[i] for i in range(self.W)]
            else:
                self.pay(&into[0], level, levels[level])
                last = level
        if beyond:
            if last < 0:
                return None
            self.pay(&into[0], last, 1)
        return [into[i] for i in range(self.W)]

    cdef void raise_fields(self, i64* value) noexcept nogil:
        """Round a lower bound up to what whole fields can show.

        Fractions of an important level spill into less important fields; where
        these hold more than can ever be paid there, the important one must be
        at least one higher.
        """
        cdef int level, limb, last = -1
        cdef i64 low, most_low = 0, unit
        cdef bint beyond
        for limb in range(self.W):
            if value[limb] < 0:
                value[limb] = 0
                self.clear_after(value, limb)
                break
        for limb in range(self.W - 1, -1, -1):
            most_low = 0
            for level in range(self.c.levels - 1, -1, -1):
                if self.level_limb[level] != limb:
                    continue
                unit = <i64>1 << self.level_shift[level]
                low = value[limb] & (unit - 1)
                if low > most_low:
                    value[limb] += unit - low
                    self.clear_after(value, limb)
                most_low += self.level_most[level] << self.level_shift[level]
            if value[limb] > most_low and limb > 0:
                value[limb] = 0
                self.clear_after(value, limb)
                value[limb - 1] += 1

    cdef void clear_after(self, i64* value, int limb) noexcept nogil:
        cdef int i
        for i in range(limb + 1, self.W):
            value[i] = 0

    # -- relations ----------------------------------------------------------

    cdef void _relate(self) noexcept nogil:
        """Step 3: which nodes can gain seats, which units touch them, what couples them."""
        cdef int u, n, e, g, i, b, W = self.W, members
        cdef vector[i64] room = self.avail
        cdef vector[int] waiting = self.waiting, last
        self.price.assign(self.U * W, 0)
        self.broken.assign(self.G * W, 0)
        for g in range(self.G):
            for i in range(self.c.broken_first[g], self.c.broken_first[g + 1]):
                self.pay(&self.broken[g * W], self.c.broken_level[i], self.c.broken_amount[i])
        for u in range(self.U):
            for i in range(self.c.cost_first[u], self.c.cost_first[u + 1]):
                self.pay(&self.price[u * W], self.c.cost_level[i], self.c.cost_amount[i])
            if self.status[u] == OPEN:
                self.move(u, 1, &room, &waiting)
        self.relevant.assign(self.N, 0)
        self.active.assign(self.N, 0)
        self.base_slots.assign(self.N, 0)
        self.most.assign(self.N, 0)
        for n in range(self.N):
            if self.limit[n]:
                self.base_slots[n] = <int>self.slots(
                    n, &self.avail[n * self.R] if self.R else NULL, self.waiting[n]
                )
                if self.slots(
                    n, &room[n * self.R] if self.R else NULL, waiting[n]
                ) > self.base_slots[n]:
                    self.relevant[n] = 1
                    self.active[n] = 1
        self._touches()
        # Gangs: those that break with the first pod are variables, others are checked.
        self.gated.assign(self.G, 0)
        self.loose.assign(self.G, 0)
        self.gang_first.assign(self.G + 1, 0)
        for u in range(self.U):
            if self.status[u] == OPEN and self.c.unit_gang[u] >= 0:
                self.gang_first[self.c.unit_gang[u] + 1] += 1
        for g in range(self.G):
            members = self.gang_first[g + 1]
            self.gang_first[g + 1] += self.gang_first[g]
            if members > self.surplus[g] and (
                self.unbreakable[g] or not self.nothing(&self.broken[g * W])
            ):
                if self.unbreakable[g]:
                    self.status[self.U + g] = OUT
                if self.surplus[g] == 0:
                    self.gated[g] = 1
                self.loose[g] = 1
        self.gang_unit.resize(self.gang_first[self.G])
        last = self.gang_first
        for u in range(self.U):
            if self.status[u] == OPEN and self.c.unit_gang[u] >= 0:
                self.gang_unit[last[self.c.unit_gang[u]]] = u
                last[self.c.unit_gang[u]] += 1
        self._budget_units()
        self.eff = self.price
        self.fine.assign(self.c.budgets * W, 0)
        self.tuned.assign(self.c.budgets * W, 0)
        self.sharing = False
        self.weight.resize(self.touch_node.size())
        for u in range(self.U):
            for i in range(self.touch_first[u], self.touch_first[u + 1]):
                self.weight[i] = (<i64>1 << WEIGHT_BITS) // (
                    self.touch_first[u + 1] - self.touch_first[u]
                )
        self.scope.resize(self.N)
        self.table.resize(self.N)
        self.relaxed_vars.resize(self.N)
        self.rough.assign(self.N, 0)
        self.dirty.assign(self.N, 1)
        self.relaxed_uses.assign(self.V, 0)
        self.frozen.assign(self.U, 0)
        self.frozen_cost.assign(W, 0)
        self.frozen_seats = 0
        self.have_best = False
        self.v_factors.resize(self.V)
        for b in range(self.c.budgets):
            if self.firm[b]:
                self.budget_state[b] = OUT
            elif self.allowed_pods[b] == 0:
                self.set_budget(b, IN)

    cdef bint nothing(self, const i64* value) noexcept nogil:
        cdef int i
        for i in range(self.W):
            if value[i]:
                return False
        return True

    cdef void _touches(self) noexcept nogil:
        """Relevant nodes per unit, units per relevant node, blockers per node."""
        cdef int u, e, n, i, r, here
        cdef bint some
        cdef vector[int] mark, fill
        mark.assign(self.N, -1)
        self.touch_first.assign(1, 0)
        self.touch_node.clear()
        self.home.assign(self.U, -1)
        self.spans.assign(self.U, 0)
        self.node_first.assign(self.N + 1, 0)
        self.lifted_first.assign(self.N + 1, 0)
        self.entry_unit.resize(self.c.entry_node.size())
        for u in range(self.U):
            here = 0
            for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                self.entry_unit[e] = u
                n = self.c.entry_node[e]
                some = False
                for r in range(self.R):
                    some = some or self.c.releases[e * self.R + r] > 0
                if self.relevant[n] and self.status[u] == OPEN and some:
                    self.touch_node.push_back(n)
                    mark[n] = u
                    here += 1
                    self.node_first[n + 1] += 1
            for e in range(self.c.lift_first[u], self.c.lift_first[u + 1]):
                n = self.c.lift_node[e]
                if self.relevant[n] and self.status[u] == OPEN:
                    self.lifted_first[n + 1] += 1
                    if mark[n] != u:
                        self.touch_node.push_back(n)
                        here += 1
            self.touch_first.push_back(<int>self.touch_node.size())
            if here == 1:
                self.home[u] = self.touch_node.back()
            elif here > 1:
                self.spans[u] = 1
            elif self.status[u] == OPEN:
                self.status[u] = OUT
        for n in range(self.N):
            self.node_first[n + 1] += self.node_first[n]
            self.lifted_first[n + 1] += self.lifted_first[n]
        self.node_entry.resize(self.node_first[self.N])
        self.lifted_unit.resize(self.lifted_first[self.N])
        fill = self.node_first
        for u in range(self.U):
            for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                n = self.c.entry_node[e]
                some = False
                for r in range(self.R):
                    some = some or self.c.releases[e * self.R + r] > 0
                if self.relevant[n] and self.status[u] == OPEN and some:
                    self.node_entry[fill[n]] = e
                    fill[n] += 1
        fill = self.lifted_first
        for u in range(self.U):
            for e in range(self.c.lift_first[u], self.c.lift_first[u + 1]):
                n = self.c.lift_node[e]
                if self.relevant[n] and self.status[u] == OPEN:
                    self.lifted_unit[fill[n]] = u
                    fill[n] += 1

    cdef void _budget_units(self) noexcept nogil:
        cdef int u, i, b
        cdef vector[int] fill
        self.budget_first.assign(self.c.budgets + 1, 0)
        for u in range(self.U):
            if self.status[u] == OPEN:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    self.budget_first[self.c.use_budget[i] + 1] += 1
        for b in range(self.c.budgets):
            self.budget_first[b + 1] += self.budget_first[b]
        self.budget_unit.resize(self.budget_first[self.c.budgets])
        fill = self.budget_first
        for u in range(self.U):
            if self.status[u] == OPEN:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    b = self.c.use_budget[i]
                    self.budget_unit[fill[b]] = u
                    fill[b] += 1

    # -- decisions ----------------------------------------------------------

    cdef void set_budget(self, int b, int state) noexcept nogil:
        """OPEN: counted afterwards. IN: every pod above costs. OUT: must not be exceeded."""
        cdef i64 price[6]
        self.budget_state[b] = <char>state
        if state == IN:
            zero(price, self.W)
            self.pay(price, self.c.budget_level[b], 1)
            self.set_fine(b, price)
        else:
            self.set_fine(b, &self.tuned[b * self.W])

    cdef void set_fine(self, int b, const i64* price) noexcept nogil:
        """Let every pod of the budget cost this much (and every allowed pod refund it).

        A lower bound holds for any price from nothing to what an excess pod
        really costs, or to any price where the budget must not be exceeded
        (Lagrangian relaxation of the budget).
        """
        cdef int i, u, k, w, W = self.W
        if order(price, &self.fine[b * W], W) == 0:
            return
        for i in range(self.budget_first[b], self.budget_first[b + 1]):
            u = self.budget_unit[i]
            for k in range(self.c.use_first[u], self.c.use_first[u + 1]):
                if self.c.use_budget[k] == b:
                    for w in range(W):
                        self.eff[u * W + w] += self.c.use_pods[k] * (
                            price[w] - self.fine[b * W + w]
                        )
            self.soil(u)
        put(&self.fine[b * W], price, W)

    cdef void soil(self, int u) noexcept nogil:
        cdef int i
        for i in range(self.touch_first[u], self.touch_first[u + 1]):
            self.dirty[self.touch_node[i]] = 1

    cdef void set_unit(self, int u, int state) noexcept nogil:
        cdef int i, n
        if self.status[u] == IN:
            self.move(u, -1, &self.avail, &self.waiting)
        if state == IN:
            self.move(u, 1, &self.avail, &self.waiting)
        if self.status[u] == IN or state == IN:
            for i in range(self.touch_first[u], self.touch_first[u + 1]):
                n = self.touch_node[i]
                self.base_slots[n] = <int>self.slots(
                    n, &self.avail[n * self.R] if self.R else NULL, self.waiting[n]
                )
        self.status[u] = <char>state
        self.soil(u)

    cdef void set_gang(self, int g, int state) noexcept nogil:
        cdef int i
        self.status[self.U + g] = <char>state
        for i in range(self.gang_first[g], self.gang_first[g + 1]):
            self.soil(self.gang_unit[i])

    # -- node factors -------------------------------------------------------

    cdef bint usable(self, int u, int n) noexcept nogil:
        """An undecided unit, not of a gang that stays whole."""
        cdef int g
        if self.status[u] != OPEN or self.frozen[u]:
            return False
        g = self.c.unit_gang[u]
        return not (g >= 0 and self.gated[g] and self.status[self.U + g] == OUT)

    cdef int gate_of(self, int u) noexcept nogil:
        """The undecided gang variable that a unit on one node waits for, -1."""
        cdef int g = self.c.unit_gang[u]
        if g >= 0 and self.gated[g] and self.status[self.U + g] == OPEN and not self.spans[u]:
            return self.U + g
        return -1

    cdef void build(self, int n) noexcept nogil:
        """The factor of node n: for each value of its couplers, its frontier."""
        cdef int i, j, u, v, s, bits, k, W = self.W, R = self.R, kmax, kfree, musts
        cdef i64 words
        cdef vector[int]* scope = &self.scope[n]
        cdef vector[i64]* table = &self.table[n]
        cdef const i64* row
        for i in range(<int>self.relaxed_vars[n].size()):
            self.relaxed_uses[self.relaxed_vars[n][i]] -= 1
        self.relaxed_vars[n].clear()
        scope.clear()
        self.rough[n] = 0
        self.dirty[n] = 0
        for i in range(self.node_first[n], self.node_first[n + 1]):
            u = self.entry_unit[self.node_entry[i]]
            if self.usable(u, n):
                self.add_to_scope(scope, self.coupler_of(u))
        for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
            u = self.lifted_unit[i]
            if self.usable(u, n):
                self.add_to_scope(scope, self.coupler_of(u))
        sort(scope.begin(), scope.end())
        if self.sharing and scope.size():
            scope.clear()
            self.rough[n] = 1
        while <int>scope.size() > WIDEST:
            # Too many couplers on one node: the last ones become local, at a share of their cost.
            v = scope.back()
            scope.pop_back()
            self.relaxed_vars[n].push_back(v)
            self.relaxed_uses[v] += 1
            self.rough[n] = 1
        s = <int>scope.size()
        self.node_room.resize(R + 1)
        self.asked.resize(R + 1)
        self.fill_room(n, (1 << s) - 1, True)
        kmax = <int>(self.slots(n, &self.node_room[0], self.must_wait(n, (1 << s) - 1, True))
                     - self.base_slots[n])
        if kmax < 0:
            kmax = 0
        if kmax > self.demand:
            kmax = <int>self.demand
        self.most[n] = kmax
        words = (<i64>1 << s) * (kmax + 1) * W
        table.resize(words)
        for bits in range(1 << s):
            self.frontier(n, bits, kmax, &table[0][<i64>bits * (kmax + 1) * W])

    cdef int coupler_of(self, int u) noexcept nogil:
        if self.spans[u]:
            return u
        return self.gate_of(u)

    cdef void add_to_scope(self, vector[int]* scope, int v) noexcept nogil:
        cdef int i
        if v < 0:
            return
        for i in range(<int>scope.size()):
            if scope[0][i] == v:
                return
        scope.push_back(v)

    cdef int value_of(self, int n, int v, int bits) noexcept nogil:
        """1 or 0 for a coupler in the node's scope, -1 when it is local here."""
        cdef int i
        for i in range(<int>self.scope[n].size()):
            if self.scope[n][i] == v:
                return (bits >> i) & 1
        return -1

    cdef int item_state(self, int n, int u, int bits) noexcept nogil:
        """0: not to be had; 1: gone already through its coupler; 2: may be chosen here."""
        cdef int value, gate
        if not self.usable(u, n):
            return 0
        if self.spans[u]:
            value = self.value_of(n, u, bits)
            return 2 if value < 0 else value
        gate = self.gate_of(u)
        if gate >= 0 and self.value_of(n, gate, bits) == 0:
            return 0
        return 2

    cdef void fill_room(self, int n, int bits, bint everything) noexcept nogil:
        """node_room: amounts on n with the couplers' units (or everything usable) gone."""
        cdef int i, r, e, u, state
        for r in range(self.R):
            self.node_room[r] = self.avail[n * self.R + r]
        for i in range(self.node_first[n], self.node_first[n + 1]):
            e = self.node_entry[i]
            u = self.entry_unit[e]
            state = self.item_state(n, u, bits)
            if state == 1 or (everything and state == 2):
                for r in range(self.R):
                    self.node_room[r] += self.c.releases[e * self.R + r]

    cdef int must_wait(self, int n, int bits, bint everything) noexcept nogil:
        """Blockers of node n that stand in the way even so."""
        cdef int i, state, waiting = self.waiting[n]
        for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
            state = self.item_state(n, self.lifted_unit[i], bits)
            if state == 1 or (everything and state == 2):
                waiting -= 1
        return waiting

    cdef void collect(self, int n, int bits) noexcept nogil:
        """item_*: the units that may be chosen on n under these bits, cost ascending.

        Blockers come first in item_unit's tail (see ``frontier``): they are not
        a choice once a seat is wanted.
        """
        cdef int i, j, e, u, r, W = self.W, R = self.R, count
        cdef vector[int] entries
        self.item_unit.clear()
        for i in range(self.node_first[n], self.node_first[n + 1]):
            e = self.node_entry[i]
            u = self.entry_unit[e]
            if self.item_state(n, u, bits) == 2 and not self.blocks(n, u):
                entries.push_back(e)
        count = <int>entries.size()
        self.item_costs.resize(count * W + W)
        self.item_amounts.resize(count * R + R)
        self.item_unit.resize(count)
        for i in range(count):
            self.local_price(n, self.entry_unit[entries[i]], &self.scratch[0])
            j = i
            while j > 0 and order(&self.item_costs[(j - 1) * W], &self.scratch[0], W) > 0:
                put(&self.item_costs[j * W], &self.item_costs[(j - 1) * W], W)
                self.item_unit[j] = self.item_unit[j - 1]
                j -= 1
            put(&self.item_costs[j * W], &self.scratch[0], W)
            self.item_unit[j] = entries[i]
        for i in range(count):
            e = self.item_unit[i]
            for r in range(R):
                self.item_amounts[i * R + r] = self.c.releases[e * R + r]
            self.item_unit[i] = self.entry_unit[e]

    cdef bint blocks(self, int n, int u) noexcept nogil:
        cdef int i
        for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
            if self.lifted_unit[i] == u:
                return True
        return False

    cdef void local_price(self, int n, int u, i64* into) noexcept nogil:
        """What choosing u on node n costs there: a share when it spans other nodes too."""
        cdef int i, e, g
        cdef i64 parts = self.touch_first[u + 1] - self.touch_first[u]
        put(into, &self.eff[u * self.W], self.W)
        if self.spans[u]:
            if self.sharing:
                e = self.touch_first[u]
                while self.touch_node[e] != n:
                    e += 1
                for i in range(self.W):
                    into[i] = <i64>((<wide>into[i] * <wide>self.weight[e]) >> WEIGHT_BITS)
            else:
                for i in range(self.W):
                    into[i] = into[i] // parts
        elif self.sharing and self.gate_of(u) >= 0:
            g = self.c.unit_gang[u]
            parts = self.gang_first[g + 1] - self.gang_first[g]
            for i in range(self.W):
                into[i] += self.broken[g * self.W + i] // parts

    cdef void frontier(self, int n, int bits, int kmax, i64* rows) noexcept nogil:
        """rows[k] = least cost of k more seats on n under these couplers' values."""
        cdef int k, r, kfree, W = self.W, R = self.R, i, u, e, count
        cdef Cover cover
        cdef i64 forced[6]
        cdef i64 bound[6]
        cdef vector[i64] room
        zero(rows, W)
        for k in range(1, kmax + 1):
            never(rows + k * W, W)
        self.fill_room(n, bits, False)
        kfree = <int>(
            self.slots(n, &self.node_room[0], self.must_wait(n, bits, False))
            - self.base_slots[n]
        )
        for k in range(1, min(kfree, kmax) + 1):
            zero(rows + k * W, W)
        if kfree >= kmax or self.must_wait(n, bits, True) > 0:
            return
        if kfree < 0:
            kfree = 0
        self.collect(n, bits)
        count = <int>self.item_unit.size()
        self.force(n, bits, forced)
        cover.items = count
        cover.resources = R
        cover.w = W
        cover.amounts = &self.item_amounts[0]
        cover.costs = &self.item_costs[0]
        self.space.resize(cover_space(count, R, W))
        cover_lay(&cover, &self.space[0])
        cover.need = &self.asked[0]
        cover.work = 0
        for k in range(kfree + 1, kmax + 1):
            for r in range(R):
                self.asked[r] = (
                    self.c.request[r] * (self.base_slots[n] + k) - self.node_room[r]
                )
            cover.patience = COVER_PATIENCE
            cover_solve(&cover, bound)
            if is_never(cover.best):
                break
            if not cover.exact:
                self.rough[n] = 1
                put(rows + k * W, bound, W)
            else:
                put(rows + k * W, cover.best, W)
            plus(rows + k * W, forced, W)
        self.work += cover.work * 4 + count * R
        for k in range(kmax - 1, 0, -1):
            if order(rows + (k + 1) * W, rows + k * W, W) < 0:
                put(rows + k * W, rows + (k + 1) * W, W)

    cdef void force(self, int n, int bits, i64* paid) noexcept nogil:
        """Blockers of n that may be chosen must be: their cost, and their room into node_room."""
        cdef int i, e, u, r
        zero(paid, self.W)
        for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
            u = self.lifted_unit[i]
            if self.item_state(n, u, bits) == 2:
                self.local_price(n, u, &self.scratch[0])
                plus(paid, &self.scratch[0], self.W)
                for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                    if self.c.entry_node[e] == n:
                        for r in range(self.R):
                            self.node_room[r] += self.c.releases[e * self.R + r]

    cdef void take_on_node(self, int n, int bits, int k) noexcept nogil:
        """Mark in ``chosen`` what row k of the node's frontier stands for."""
        cdef int i, r, u, count, kfree, row, R = self.R, W = self.W
        cdef Cover cover
        cdef i64 forced[6]
        cdef i64 bound[6]
        for i in range(<int>self.scope[n].size()):
            if (bits >> i) & 1:
                self.seen_one[self.scope[n][i]] = 1
                if self.scope[n][i] < self.U:
                    self.chosen[self.scope[n][i]] = 1
            else:
                self.seen_zero[self.scope[n][i]] = 1
        self.fill_room(n, bits, False)
        kfree = <int>(
            self.slots(n, &self.node_room[0], self.must_wait(n, bits, False))
            - self.base_slots[n]
        )
        if k <= kfree or k == 0:
            return
        self.collect(n, bits)
        count = <int>self.item_unit.size()
        self.force(n, bits, forced)
        for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
            u = self.lifted_unit[i]
            if self.item_state(n, u, bits) == 2:
                self.mark(n, u)
        cover.items = count
        cover.resources = R
        cover.w = W
        cover.amounts = &self.item_amounts[0]
        cover.costs = &self.item_costs[0]
        self.space.resize(cover_space(count, R, W))
        cover_lay(&cover, &self.space[0])
        cover.need = &self.asked[0]
        cover.work = 0
        # A later row may be cheaper than this one: its units serve as well.
        row = k
        while row < self.most[n] and order(
            &self.table[n][(<i64>bits * (self.most[n] + 1) + k) * W],
            &self.table[n][(<i64>bits * (self.most[n] + 1) + row + 1) * W], W
        ) == 0:
            row += 1
        for r in range(R):
            self.asked[r] = self.c.request[r] * (self.base_slots[n] + row) - self.node_room[r]
        cover.patience = COVER_PATIENCE
        cover_solve(&cover, bound)
        for i in range(cover.taken_count):
            self.mark(n, self.item_unit[cover.taken[i]])

    cdef void mark(self, int n, int u) noexcept nogil:
        """Node n's row takes the unit."""
        cdef int e
        self.chosen[u] = 1
        self.seen_one[u] = 1
        if self.sharing and self.spans[u]:
            e = self.touch_first[u]
            while self.touch_node[e] != n:
                e += 1
            self.taken[e] = 1

    # -- couplers -----------------------------------------------------------

    cdef void eliminate(self) noexcept nogil:
        """Step 4: fill pick's groups; records allow ``trace`` to go back."""
        cdef int n, i, j, f, v, best, width, best_width, W = self.W
        cdef vector[int] todo
        cdef vector[char] inside
        self.f_scope.clear()
        self.f_table.clear()
        self.f_most.clear()
        self.f_leaf.clear()
        self.f_dead.clear()
        self.r_inputs.clear()
        self.r_var.clear()
        self.r_output.clear()
        self.r_cost.clear()
        self.group_factor.clear()
        self.group_node.clear()
        self.pick.most.clear()
        self.pick.rows.clear()
        self.was_split = False
        inside.assign(self.V, 0)
        for n in range(self.N):
            if not self.active[n]:
                continue
            if self.dirty[n]:
                self.build(n)
            if self.scope[n].size() == 0:
                if self.most[n] > 0:
                    self.group_factor.push_back(-1)
                    self.group_node.push_back(n)
                    self.pick.most.push_back(self.most[n])
                    self.pick.rows.push_back(&self.table[n][0])
                continue
            f = <int>self.f_scope.size()
            self.f_scope.push_back(self.scope[n])
            self.f_table.push_back(self.table[n])
            self.f_most.push_back(self.most[n])
            self.f_leaf.push_back(n)
            self.f_dead.push_back(0)
            for i in range(<int>self.scope[n].size()):
                v = self.scope[n][i]
                if not inside[v]:
                    inside[v] = 1
                    todo.push_back(v)
                    self.v_factors[v].clear()
                self.v_factors[v].push_back(f)
        while todo.size():
            best = 0
            best_width = 1 << 20
            for i in range(<int>todo.size()):
                width = self.width_of(todo[i])
                if width < best_width:
                    best = i
                    best_width = width
                    if width <= 1:
                        break
            v = todo[best]
            todo[best] = todo.back()
            todo.pop_back()
            self.eliminate_one(v)
        for f in range(<int>self.f_scope.size()):
            if not self.f_dead[f] and self.f_scope[f].size() == 0 and self.f_most[f] > 0:
                self.group_factor.push_back(f)
                self.group_node.push_back(-1)
                self.pick.most.push_back(self.f_most[f])
                self.pick.rows.push_back(&self.f_table[f][0])

    cdef int width_of(self, int v) noexcept nogil:
        """How many couplers would share a table if v were eliminated now."""
        cdef int i, j, f, width = 0
        cdef vector[int] found
        for i in range(<int>self.v_factors[v].size()):
            f = self.v_factors[v][i]
            if not self.f_dead[f]:
                for j in range(<int>self.f_scope[f].size()):
                    found.push_back(self.f_scope[f][j])
        sort(found.begin(), found.end())
        for i in range(<int>found.size()):
            if i == 0 or found[i] != found[i - 1]:
                width += 1
        return width

    cdef void eliminate_one(self, int v) noexcept nogil:
        """Split the factors with v into buckets that are narrow enough; minimise each over v."""
        cdef int i, j, f, b, k, parts, W = self.W
        cdef vector[vector[int]] buckets, scopes
        cdef vector[int] mine, joined
        cdef vector[i64] most
        cdef vector[i64] cost, share
        cdef i64 reach
        for i in range(<int>self.v_factors[v].size()):
            f = self.v_factors[v][i]
            if not self.f_dead[f]:
                mine.push_back(f)
        # Widest first, so that narrow factors fill up what is there.
        for i in range(1, <int>mine.size()):
            f = mine[i]
            j = i
            while j > 0 and self.f_scope[mine[j - 1]].size() < self.f_scope[f].size():
                mine[j] = mine[j - 1]
                j -= 1
            mine[j] = f
        for i in range(<int>mine.size()):
            f = mine[i]
            for b in range(<int>buckets.size() + 1):
                if b == <int>buckets.size():
                    buckets.push_back(vector[int]())
                    scopes.push_back(vector[int]())
                    most.push_back(0)
                self.join_scope(&scopes[b], &self.f_scope[f], &joined)
                reach = most[b] + self.f_most[f]
                if reach > self.demand:
                    reach = self.demand
                if buckets[b].size() == 0 or (
                    <int>joined.size() <= WIDEST
                    and (<i64>1 << <int>joined.size()) * (reach + 1) * W < TABLE_WORDS
                ):
                    buckets[b].push_back(f)
                    scopes[b] = joined
                    most[b] = reach
                    break
        cost.assign(W, 0)
        if v < self.U:
            put(&cost[0], &self.eff[v * W], W)
            parts = self.touch_first[v + 1] - self.touch_first[v]
            for i in range(W):
                cost[i] -= (cost[i] // parts) * self.relaxed_uses[v]
        else:
            put(&cost[0], &self.broken[(v - self.U) * W], W)
        share = cost
        parts = <int>buckets.size()
        if parts > 1:
            self.was_split = True
        for i in range(W):
            share[i] = cost[i] // parts
        for b in range(parts):
            if b == 0:
                for i in range(W):
                    cost[i] -= share[i] * (parts - 1)
                self.minimise(v, &buckets[b], &scopes[b], <int>most[b], &cost)
            else:
                self.minimise(v, &buckets[b], &scopes[b], <int>most[b], &share)

    cdef void join_scope(
        self, vector[int]* a, vector[int]* b, vector[int]* into
    ) noexcept nogil:
        """The ordered union of two ordered scopes."""
        cdef int i = 0, j = 0
        into.clear()
        while i < <int>a.size() or j < <int>b.size():
            if j >= <int>b.size() or (i < <int>a.size() and a[0][i] < b[0][j]):
                into.push_back(a[0][i])
                i += 1
            else:
                if i < <int>a.size() and a[0][i] == b[0][j]:
                    i += 1
                into.push_back(b[0][j])
                j += 1

    cdef int project(self, vector[int]* scope, int bits, vector[int]* onto) noexcept nogil:
        """Bits over ``scope`` read as bits over the smaller scope ``onto``."""
        cdef int i = 0, j, found = 0
        for j in range(<int>onto.size()):
            while scope[0][i] != onto[0][j]:
                i += 1
            found |= ((bits >> i) & 1) << j
        return found

    cdef void minimise(
        self, int v, vector[int]* bucket, vector[int]* joined, int most, vector[i64]* cost
    ) noexcept nogil:
        """New factor: sum of the bucket's factors, the cheaper value of v for each row."""
        cdef int W = self.W, i, at, bits, full, value, f, k, out
        cdef vector[int] scope
        cdef vector[i64] table, sum_
        cdef vector[int] fwidth
        cdef i64* row
        for i in range(<int>joined.size()):
            if joined[0][i] == v:
                at = i
            else:
                scope.push_back(joined[0][i])
        table.resize((<i64>1 << <int>scope.size()) * (most + 1) * W)
        for bits in range(1 << <int>scope.size()):
            row = &table[<i64>bits * (most + 1) * W]
            for k in range(most + 1):
                never(row + k * W, W)
            for value in range(2):
                full = (bits & ((1 << at) - 1)) | (value << at) | ((bits >> at) << (at + 1))
                self.add_up(bucket, joined, full, <int>bucket.size(), most, &sum_)
                for k in range(<int>(sum_.size() // W)):
                    if is_never(&sum_[k * W]):
                        continue
                    if value:
                        plus(&sum_[k * W], &cost[0][0], W)
                    if order(&sum_[k * W], row + k * W, W) < 0:
                        put(row + k * W, &sum_[k * W], W)
        out = <int>self.f_scope.size()
        for i in range(<int>bucket.size()):
            self.f_dead[bucket[0][i]] = 1
        for i in range(<int>scope.size()):
            self.v_factors[scope[i]].push_back(out)
        self.f_scope.push_back(scope)
        self.f_table.push_back(table)
        self.f_most.push_back(most)
        self.f_leaf.push_back(-1)
        self.f_dead.push_back(0)
        self.r_var.push_back(v)
        self.r_output.push_back(out)
        self.r_inputs.push_back(bucket[0])
        self.r_cost.push_back(cost[0])

    cdef void add_up(
        self, vector[int]* bucket, vector[int]* joined, int full, int parts, int most,
        vector[i64]* into
    ) noexcept nogil:
        """Frontier of the first ``parts`` factors together, couplers set to ``full``."""
        cdef int W = self.W, i, f, a, b, size, width, target
        cdef const i64* rows
        cdef vector[i64] next_
        into.assign(W, 0)
        size = 0
        for i in range(parts):
            f = bucket[0][i]
            rows = &self.f_table[f][
                <i64>self.project(joined, full, &self.f_scope[f]) * (self.f_most[f] + 1) * W
            ]
            width = size + self.f_most[f]
            if width > most:
                width = most
            next_.resize((width + 1) * W)
            for a in range(width + 1):
                never(&next_[a * W], W)
            for a in range(size + 1):
                if is_never(&into[0][a * W]):
                    break
                for b in range(self.f_most[f] + 1):
                    if is_never(rows + b * W):
                        break
                    target = a + b if a + b < width else width
                    if order_of_sum(&into[0][a * W], rows + b * W, &next_[target * W], W) < 0:
                        put(&next_[target * W], &into[0][a * W], W)
                        plus(&next_[target * W], rows + b * W, W)
            self.work += (size + 1) * (self.f_most[f] + 1)
            for a in range(width - 1, -1, -1):
                if order(&next_[(a + 1) * W], &next_[a * W], W) < 0:
                    put(&next_[a * W], &next_[(a + 1) * W], W)
            into.swap(next_)
            size = width

    cdef void trace(self) noexcept nogil:
        """From picks back to couplers and units: fills chosen, seen_one, seen_zero."""
        cdef int g, f, r, k, factors = <int>self.f_scope.size()
        self.chosen.assign(self.U, 0)
        self.seen_one.assign(self.V, 0)
        self.seen_zero.assign(self.V, 0)
        self.taken.assign(self.touch_node.size(), 0)
        self.f_want.assign(factors, 0)
        self.f_bits.assign(factors, 0)
        for g in range(<int>self.pick.picks.size()):
            k = self.pick.picks[g]
            if self.group_node[g] >= 0:
                self.take_on_node(self.group_node[g], 0, k)
            else:
                self.f_want[self.group_factor[g]] = k
        for r in range(<int>self.r_var.size() - 1, -1, -1):
            self.trace_record(r)
        for f in range(factors):
            if self.f_leaf[f] >= 0:
                self.take_on_node(self.f_leaf[f], self.f_bits[f], self.f_want[f])

    cdef void trace_record(self, int r) noexcept nogil:
        """Which value of the record's coupler, and how many seats from each input."""
        cdef int W = self.W, out = self.r_output[r], i, at = 0, value, full, f, k, a, b, j
        cdef int bits = self.f_bits[out], want = self.f_want[out], most = self.f_most[out]
        cdef int parts = <int>self.r_inputs[r].size()
        cdef vector[int] joined, one
        cdef vector[vector[i64]] sums
        cdef const i64* goal = &self.f_table[out][(<i64>bits * (most + 1) + want) * W]
        cdef const i64* rows
        cdef bint found
        one.push_back(self.r_var[r])
        self.join_scope(&self.f_scope[out], &one, &joined)
        for i in range(<int>joined.size()):
            if joined[i] == self.r_var[r]:
                at = i
        sums.resize(parts + 1)
        for value in range(2):
            full = (bits & ((1 << at) - 1)) | (value << at) | ((bits >> at) << (at + 1))
            for i in range(parts + 1):
                self.add_up(&self.r_inputs[r], &joined, full, i, most, &sums[i])
            if want * W >= <int>sums[parts].size() or is_never(&sums[parts][want * W]):
                continue
            put(&self.scratch[0], &sums[parts][want * W], W)
            if value:
                plus(&self.scratch[0], &self.r_cost[r][0], W)
            if order(&self.scratch[0], goal, W) == 0:
                break
        k = want
        for i in range(parts - 1, -1, -1):
            f = self.r_inputs[r][i]
            j = self.project(&joined, full, &self.f_scope[f])
            self.f_bits[f] = j
            rows = &self.f_table[f][<i64>j * (self.f_most[f] + 1) * W]
            found = False
            for a in range(<int>(sums[i].size() // W)):
                if is_never(&sums[i][a * W]):
                    break
                for b in range(self.f_most[f] + 1):
                    if is_never(rows + b * W):
                        break
                    if a + b >= k and order_of_sum(
                        &sums[i][a * W], rows + b * W, &sums[i + 1][k * W], W
                    ) == 0:
                        found = True
                        break
                if found:
                    self.f_want[f] = b
                    k = a
                    break

    # -- answers ------------------------------------------------------------

    cdef void true_cost(self, vector[char]* chosen, i64* into, bint* allowed) noexcept nogil:
        """Cost of the set by definition; allowed False when a hard budget is exceeded."""
        cdef int u, g, b, i, W = self.W
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
        cdef int u, i, j, n, e, W = self.W
        cdef i64 seats, less
        for u in range(self.U):
            if chosen[0][u]:
                self.move(u, 1, &room, &waiting)
                order_.push_back(u)
        now.assign(self.N, 0)
        seats = 0
        for n in range(self.N):
            if self.limit[n]:
                now[n] = <int>self.slots(n, &room[n * self.R] if self.R else NULL, waiting[n])
                seats += now[n]
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
            for j in range(<int>nodes.size()):
                n = nodes[j]
                if self.limit[n] and (j == 0 or nodes[j - 1] != n):
                    less += self.slots(
                        n, &room[n * self.R] if self.R else NULL, waiting[n]
                    ) - now[n]
            if less >= self.need:
                chosen[0][u] = 0
                seats = less
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
        cdef int n = <int>units.size(), width = 1, lo, mid, hi, i, j, k, W = self.W
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
        cdef bint allowed
        cdef vector[char] mine = self.chosen
        for u in range(self.U):
            if self.status[u] == IN or self.frozen[u] == 2:
                mine[u] = 1
        if not self.reduce(&mine):
            return
        self.true_cost(&mine, &self.scratch[0], &allowed)
        if allowed and (
            not self.have_best or order(&self.scratch[0], &self.best_cost[0], self.W) < 0
        ):
            self.best_cost.assign(self.W, 0)
            put(&self.best_cost[0], &self.scratch[0], self.W)
            self.best = mine
            self.have_best = True

    # -- branch and bound ---------------------------------------------------

    cdef bint out_of_time(self) noexcept nogil:
        cdef timespec now
        if self.branches >= self.branch_limit:
            return True
        if self.work // STEP_WORK >= self.branch_limit:
            return True
        if self.cancel != NULL and self.cancel[0]:
            return True
        if self.deadline > 0:
            clock_gettime(CLOCK_MONOTONIC, &now)
            if now.tv_sec + now.tv_nsec * 1e-9 >= self.deadline:
                return True
        return False

    cdef void leave_open(self, const i64* bound) noexcept nogil:
        """Remember that answers at or above this bound were not looked at."""
        if not self.unproved or order(bound, &self.open_bound[0], self.W) < 0:
            put(&self.open_bound[0], bound, self.W)
        self.unproved = True

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
                plus(&self.base[0], &self.broken[g * W], W)
        for b in range(self.c.budgets):
            for w in range(W):
                self.base[w] -= self.fine[b * W + w] * self.allowed_pods[b]

    cdef i64 missing(self) noexcept nogil:
        cdef int n
        cdef i64 seats = self.frozen_seats
        for n in range(self.N):
            if self.limit[n] and (self.active[n] or not self.relevant[n]):
                seats += self.base_slots[n]
        return self.need - seats

    cdef Outcome relax(self, i64* value, i64* bound) noexcept nogil:
        """Steps 3 to 5 under the decisions so far: cost of the relaxed answer, its bound.

        ``pick`` and the factors then describe the answer for ``trace``. Nothing is
        set when the outcome is IMPOSSIBLE or CUT (not below the best answer).
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
            self.eliminate()
            if self.have_best:
                put(value, &self.best_cost[0], W)
                minus(value, &self.base[0], W)
                limit = value
            outcome = choose(&self.pick, limit)
            self.work += self.pick.work
            if outcome == IMPOSSIBLE or outcome == CUT:
                return outcome
            put(bound, &self.pick.bound[0], W)
            put(value, &self.pick.value[0], W)
        else:
            self.pick.picks.clear()
            self.group_node.clear()
            self.r_var.clear()
            self.f_scope.clear()
        plus(bound, &self.base[0], W)
        plus(value, &self.base[0], W)
        put(&self.raw[0], bound, W)
        self.raise_fields(bound)
        return outcome

    cdef void explore(self, const i64* inherited, bint root) noexcept nogil:
        """Solve what the decisions so far leave open, or note that it was left open."""
        cdef int W = self.W
        cdef Outcome outcome
        cdef i64 value[6]
        cdef i64 bound[6]
        cdef i64 real[6]
        cdef bint allowed
        if self.halted or self.out_of_time():
            self.halted = True
            self.leave_open(inherited)
            return
        put(bound, inherited, W)
        if self.sharing:
            if self.few_couplers():
                if self.settle_exactly(bound):
                    return
            elif self.improve_shares(bound, LATER_SHARES, False):
                return
        put(real, bound, W)
        outcome = self.relax(value, bound)
        if outcome == IMPOSSIBLE or outcome == CUT:
            return
        if order(bound, real, W) < 0:
            put(bound, real, W)
        if self.have_best and order(bound, &self.best_cost[0], W) >= 0:
            return
        self.trace()
        self.offer()
        if self.have_best and order(bound, &self.best_cost[0], W) >= 0:
            return
        self.all_chosen()
        self.true_cost(&self.chosen, real, &allowed)
        if allowed and outcome == EXACT and order(real, value, W) <= 0:
            return
        if root:
            if self.tune(bound):
                return
            if self.was_split and self.share_out(bound):
                return
            outcome = self.relax(value, real)
            if outcome == IMPOSSIBLE or outcome == CUT:
                return
            if self.demand > 0 and self.have_best and self.freeze():
                return
            self.explore(bound, False)
            return
        self.split(bound)

    cdef bint tune(self, i64* bound) noexcept nogil:
        """Find prices for the budgets' pods; raise ``bound``; True when it is met.

        Each price is halved in between a value at which the budget is exceeded
        and one at which it is not, all at once. Every step gives a bound, and an
        answer that tends to keep within the budgets.
        """
        cdef int b, i, k, u, step, W = self.W, budgets = self.c.budgets
        cdef i64 takes = 1, most
        cdef i64 value[6]
        cdef i64 now[6]
        cdef vector[i64] low, high, best, price
        cdef vector[int] used
        cdef vector[char] open_
        cdef bint some = False, moved
        cdef Outcome outcome
        open_.assign(budgets, 0)
        self.count_budgets(&used)
        for b in range(budgets):
            if self.budget_state[b] != IN and self.budget_first[b] < self.budget_first[b + 1]:
                open_[b] = 1
                some = some or used[b] > self.allowed_pods[b]
            for i in range(self.budget_first[b], self.budget_first[b + 1]):
                u = self.budget_unit[i]
                for k in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    if self.c.use_budget[k] == b:
                        takes += self.c.use_pods[k] + self.allowed_pods[b]
        if not some:
            return False
        most = (<i64>1 << 60) // takes
        low.assign(budgets, 0)
        high.assign(budgets, most)
        for b in range(budgets):
            if not self.firm[b]:
                zero(now, W)
                self.pay(now, self.c.budget_level[b], 1)
                if now[0] < most:
                    high[b] = now[0]
        best = self.tuned
        price.assign(W, 0)
        for step in range(TUNING_STEPS):
            if self.out_of_time():
                break
            for b in range(budgets):
                if open_[b]:
                    price[0] = between(low[b], high[b])
                    put(&self.tuned[b * W], &price[0], W)
                    self.set_fine(b, &price[0])
            outcome = self.relax(value, now)
            if outcome == IMPOSSIBLE or outcome == CUT:
                return True
            if order(now, bound, W) > 0:
                put(bound, now, W)
                best = self.tuned
            self.trace()
            self.offer()
            if order(bound, &self.best_cost[0], W) >= 0 and self.have_best:
                return True
            self.count_budgets(&used)
            moved = False
            for b in range(budgets):
                if open_[b]:
                    i = 0
                    if used[b] > self.allowed_pods[b]:
                        i = 1
                    if i and low[b] < self.tuned[b * W]:
                        low[b] = self.tuned[b * W]
                        moved = True
                    elif not i and high[b] > self.tuned[b * W]:
                        high[b] = self.tuned[b * W]
                        moved = True
            if not moved:
                break
        self.tuned = best
        for b in range(budgets):
            if open_[b]:
                self.set_fine(b, &self.tuned[b * W])
        return False

    # -- prices of couplers shared out over their nodes ----------------------

    cdef bint share_out(self, i64* bound) noexcept nogil:
        """Where elimination had to split: is the bound better with every node on its own?

        Raises ``bound``; True when that meets the best answer. ``sharing`` stays on
        for the branches below when it gave the better bound.
        """
        cdef i64 shared[6]
        zero(shared, self.W)
        self.set_sharing(True)
        if self.improve_shares(shared, ROOT_SHARES, True):
            return True
        if order(shared, bound, self.W) > 0:
            put(bound, shared, self.W)
        else:
            self.set_sharing(False)
        return False

    cdef void set_sharing(self, bint on) noexcept nogil:
        cdef int n, i
        self.sharing = on
        for n in range(self.N):
            if self.active[n] and (self.rough[n] or self.scope[n].size()):
                self.dirty[n] = 1

    cdef bint improve_shares(self, i64* bound, int steps, bint root) noexcept nogil:
        """Subgradient steps: move a unit's price to the nodes that take it.

        A unit taken on some of its nodes only is too cheap there and too dear
        elsewhere. Any division is a valid bound; the best one found is kept.
        """
        cdef int u, e, step, W = self.W, taken, others
        cdef i64 moved, part, pace
        cdef i64 value[6]
        cdef i64 now[6]
        cdef i64 top[6]
        cdef vector[i64] best = self.weight
        cdef bint found = False, some
        cdef Outcome outcome
        for step in range(steps):
            if self.out_of_time():
                break
            outcome = self.relax(value, now)
            if outcome == IMPOSSIBLE or outcome == CUT:
                return True
            if not found or order(&self.raw[0], top, W) > 0:
                found = True
                put(top, &self.raw[0], W)
                best = self.weight
            if order(now, bound, W) > 0:
                put(bound, now, W)
            self.trace()
            self.offer()
            if self.have_best and order(bound, &self.best_cost[0], W) >= 0:
                return True
            pace = (<i64>1 << WEIGHT_BITS) // (4 + step)
            if not root:
                pace = (<i64>1 << WEIGHT_BITS) // 32
            some = False
            for u in range(self.U):
                if self.status[u] != OPEN or not self.spans[u] or not self.seen_one[u]:
                    continue
                taken = 0
                others = 0
                for e in range(self.touch_first[u], self.touch_first[u + 1]):
                    if self.taken[e]:
                        taken += 1
                    else:
                        others += 1
                if others == 0:
                    continue
                some = True
                moved = 0
                for e in range(self.touch_first[u], self.touch_first[u + 1]):
                    if not self.taken[e]:
                        part = pace // others
                        if part > self.weight[e]:
                            part = self.weight[e]
                        self.weight[e] -= part
                        moved += part
                for e in range(self.touch_first[u], self.touch_first[u + 1]):
                    if self.taken[e]:
                        self.weight[e] += moved // taken
                self.soil(u)
            if not some:
                break
        if root:
            self.weight = best
            self.set_sharing(True)
        return False

    cdef bint few_couplers(self) noexcept nogil:
        cdef int u, g, count = 0
        for u in range(self.U):
            if self.status[u] == OPEN and self.spans[u]:
                count += 1
        for g in range(self.G):
            if self.gated[g] and self.status[self.U + g] == OPEN:
                count += 1
        return count <= FEW_COUPLERS

    cdef bint settle_exactly(self, i64* bound) noexcept nogil:
        """Try elimination where few couplers are left; True when that closes the branch."""
        cdef i64 value[6]
        cdef i64 now[6]
        cdef i64 real[6]
        cdef bint allowed, closed = False
        cdef Outcome outcome
        self.set_sharing(False)
        outcome = self.relax(value, now)
        if outcome == IMPOSSIBLE or outcome == CUT:
            closed = True
        else:
            if order(now, bound, self.W) > 0:
                put(bound, now, self.W)
            self.trace()
            self.offer()
            self.all_chosen()
            self.true_cost(&self.chosen, real, &allowed)
            if self.have_best and order(bound, &self.best_cost[0], self.W) >= 0:
                closed = True
            elif allowed and outcome == EXACT and order(real, value, self.W) <= 0:
                closed = True
        self.set_sharing(True)
        return closed

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

    cdef void mark_too_short(self) noexcept nogil:
        """A frontier cut at an earlier, smaller demand is rebuilt when more is missing."""
        cdef int n
        if self.demand > self.widest_demand:
            self.widest_demand = self.demand
            for n in range(self.N):
                if self.active[n]:
                    self.dirty[n] = 1

    cdef void all_chosen(self) noexcept nogil:
        cdef int u
        for u in range(self.U):
            if self.status[u] == IN or self.frozen[u] == 2:
                self.chosen[u] = 1

    cdef bint freeze(self) noexcept nogil:
        """Fix the nodes whose row the root bound decides; True when nothing can be better.

        Only nodes without couplers, and without units whose cost depends on
        others (surplus, budgets): their row then says which units go.
        """
        cdef int g, n, u, i, k, W = self.W
        cdef i64 cutoff[6]
        cdef vector[int] settled
        cdef bint apart
        put(cutoff, &self.best_cost[0], W)
        minus(cutoff, &self.base[0], W)
        settle(&self.pick, cutoff, &settled)
        for g in range(<int>settled.size()):
            if settled[g] == -2:
                return True
        for g in range(<int>settled.size()):
            n = self.group_node[g]
            if n < 0 or settled[g] < 0 or self.rough[n]:
                continue
            apart = True
            for i in range(self.node_first[n], self.node_first[n + 1]):
                apart = apart and self.alone(self.entry_unit[self.node_entry[i]])
            for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
                apart = apart and self.alone(self.lifted_unit[i])
            if not apart:
                continue
            self.chosen.assign(self.U, 0)
            k = settled[g]
            self.take_on_node(n, 0, k)
            plus(&self.frozen_cost[0], &self.table[n][k * W], W)
            self.frozen_seats += self.base_slots[n] + k
            self.active[n] = 0
            for i in range(self.node_first[n], self.node_first[n + 1]):
                u = self.entry_unit[self.node_entry[i]]
                if not self.is_free[u] and self.status[u] == OPEN:
                    self.frozen[u] = 1
                    if self.chosen[u]:
                        self.frozen[u] = 2
            for i in range(self.lifted_first[n], self.lifted_first[n + 1]):
                u = self.lifted_unit[i]
                if not self.is_free[u] and self.status[u] == OPEN:
                    self.frozen[u] = 1
                    if self.chosen[u]:
                        self.frozen[u] = 2
        self.demand = self.missing()
        return False

    cdef bint alone(self, int u) noexcept nogil:
        """Whether the unit's cost and effect are its node's matter only."""
        cdef int i, g = self.c.unit_gang[u], b
        if self.status[u] == OUT:
            return True
        if self.status[u] == IN:
            return self.is_free[u] != 0
        if self.spans[u] or (g >= 0 and self.loose[g]):
            return False
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            b = self.c.use_budget[i]
            if self.budget_state[b] != IN or self.allowed_pods[b]:
                return False
        return True

    cdef void split(self, const i64* bound) noexcept nogil:
        """Branch on what keeps the relaxed answer from being true."""
        cdef int kind = 0, index, first = OUT, second = IN
        cdef i64 mine[6]
        cdef i64 price[6]
        cdef i64 old[6]
        put(mine, bound, self.W)
        index = self.choose_branch(&kind, &first)
        if index == -2:
            return
        if index == -1:
            self.leave_open(mine)
            return
        if first == IN:
            second = OUT
        if kind == 3:
            # All its units are decided: its price only blurs the bound.
            zero(price, self.W)
            put(old, &self.tuned[index * self.W], self.W)
            put(&self.tuned[index * self.W], price, self.W)
            self.set_fine(index, price)
            self.explore(mine, False)
            put(&self.tuned[index * self.W], old, self.W)
            self.set_fine(index, old)
            return
        self.decide(kind, index, first)
        self.explore(mine, False)
        self.decide(kind, index, second)
        self.explore(mine, False)
        self.decide(kind, index, OPEN)

    cdef void decide(self, int kind, int index, int state) noexcept nogil:
        if kind == 0:
            self.set_unit(index, state)
        elif kind == 1:
            self.set_gang(index, state)
        else:
            self.set_budget(index, state)

    cdef int choose_branch(self, int* kind, int* first) noexcept nogil:
        """What to decide next: kind 0 unit, 1 gang, 2 budget.

        -1 when nothing can be decided; -2 when what is decided already exceeds
        what is allowed on this branch.
        """
        cdef int g, b, u, i, count, best, score, best_score
        cdef vector[int] used
        # A gang's surplus exceeded without paying for the break.
        for g in range(self.G):
            if self.loose[g] and self.status[self.U + g] != IN:
                count = 0
                for i in range(self.gang_first[g], self.gang_first[g + 1]):
                    count += self.chosen[self.gang_unit[i]] != 0
                if count > self.surplus[g] and not (
                    self.gated[g] and self.seen_one[self.U + g] and not self.seen_zero[self.U + g]
                    and not self.spanning_member(g)
                ):
                    if self.status[self.U + g] == OPEN:
                        kind[0] = 1
                        first[0] = OUT
                        return g
                    u = self.dearest(&self.gang_unit, self.gang_first[g], self.gang_first[g + 1])
                    kind[0] = 0
                    first[0] = OUT
                    return u if u >= 0 else -2
        self.count_budgets(&used)
        for b in range(self.c.budgets):
            if self.budget_state[b] != IN and used[b] > self.allowed_pods[b]:
                if self.budget_state[b] == OPEN:
                    kind[0] = 2
                    first[0] = OUT
                    return b
                u = self.dearest(&self.budget_unit, self.budget_first[b], self.budget_first[b + 1])
                kind[0] = 0
                first[0] = OUT
                return u if u >= 0 else -2
        # A budget with a price that is not used up: the branch wants more of its units gone.
        for b in range(self.c.budgets):
            if used[b] < self.allowed_pods[b] and not self.nothing(&self.fine[b * self.W]):
                u = self.cheapest(b)
                if u >= 0:
                    kind[0] = 0
                    first[0] = IN
                    return u
                if self.budget_state[b] == IN:
                    return -2
                kind[0] = 3
                return b
        # A coupler that was both chosen and kept, or chosen at a share of its cost.
        best = -1
        best_score = 0
        for u in range(self.U):
            if self.status[u] == OPEN and self.spans[u] and self.seen_one[u]:
                score = self.touch_first[u + 1] - self.touch_first[u]
                if self.sharing:
                    for i in range(self.touch_first[u], self.touch_first[u + 1]):
                        score += 2 * self.taken[i]
                if self.seen_zero[u]:
                    score *= 1000
                if score > best_score:
                    best = u
                    best_score = score
        for g in range(self.G):
            if self.gated[g] and self.status[self.U + g] == OPEN and self.seen_one[self.U + g]:
                score = self.gang_first[g + 1] - self.gang_first[g]
                if self.seen_zero[self.U + g]:
                    score *= 1000
                if score > best_score:
                    best = self.U + g
                    best_score = score
        if best >= self.U:
            kind[0] = 1
            first[0] = IN
            return best - self.U
        if best >= 0:
            kind[0] = 0
            first[0] = IN
            return best
        # A node whose frontier was cut short: decide one of its chosen units.
        for u in range(self.U):
            if (
                self.chosen[u] and self.status[u] == OPEN and not self.frozen[u]
                and self.home[u] >= 0 and self.rough[self.home[u]]
            ):
                kind[0] = 0
                first[0] = IN
                return u
        return -1

    cdef bint spanning_member(self, int g) noexcept nogil:
        cdef int i
        for i in range(self.gang_first[g], self.gang_first[g + 1]):
            if self.spans[self.gang_unit[i]] and self.chosen[self.gang_unit[i]]:
                return True
        return False

    cdef int cheapest(self, int b) noexcept nogil:
        """The undecided unit of the budget that costs least."""
        cdef int i, u, best = -1, W = self.W
        for i in range(self.budget_first[b], self.budget_first[b + 1]):
            u = self.budget_unit[i]
            if self.status[u] == OPEN and not self.frozen[u]:
                if best < 0 or order(&self.eff[u * W], &self.eff[best * W], W) < 0:
                    best = u
        return best

    cdef int dearest(self, vector[int]* units, int start, int end) noexcept nogil:
        """The chosen, undecided unit of the list that costs most."""
        cdef int i, u, best = -1, W = self.W
        for i in range(start, end):
            u = units[0][i]
            if self.chosen[u] and self.status[u] == OPEN and not self.frozen[u]:
                if best < 0 or order(&self.eff[u * W], &self.eff[best * W], W) > 0:
                    best = u
        return best

    # -- entry --------------------------------------------------------------

    def search(self, cutoff, i64 branch_limit, double deadline, cancel):
        """(chosen or None, bound levels or None, closed, branches).

        ``cutoff`` is the (L,) cost to undercut, or None. chosen is None when
        nothing cheaper was found; bound is None when the region is closed.
        """
        cdef int u
        cdef i64 start[6]
        cdef const signed char[::1] flag
        self.branch_limit = branch_limit
        self.deadline = deadline
        self.branches = 0
        self.work = 0
        self.halted = False
        self.unproved = False
        self.widest_demand = 0
        self.cancel = NULL
        if cancel is not None:
            flag = cancel
            self._cancel_owner = cancel
            self.cancel = &flag[0]
        self.base.assign(self.W, 0)
        self.raw.assign(self.W, 0)
        self.scratch.assign(MOST_LIMBS, 0)
        self.open_bound.assign(self.W, 0)
        self.best_cost.assign(self.W, 0)
        packed = None if cutoff is None else self._pack(cutoff)
        if packed is not None:
            for u in range(self.W):
                self.best_cost[u] = packed[u]
            self.have_best = True
        self.best.clear()
        with nogil:
            zero(start, self.W)
            put(start, &self.extra[0], self.W)
            self.explore(start, True)
        chosen = None
        if self.best.size():
            chosen = [u for u in range(self.U) if self.best[u]]
        bound = None
        if self.unproved:
            bound = tuple(self.unpack(&self.open_bound[0]))
        return chosen, bound, not self.unproved, self.branches

    def free_answer(self):
        """The units of step 1 that are needed, when they suffice."""
        cdef int u
        cdef vector[char] chosen
        cdef bint fits
        chosen.assign(self.U, 0)
        for u in range(self.U):
            chosen[u] = self.is_free[u]
        with nogil:
            fits = self.reduce(&chosen)
        return [u for u in range(self.U) if chosen[u]] if fits else None

    def least(self, units):
        """These units without any that can be put back here; None where they do not do."""
        cdef int u
        cdef vector[char] chosen
        cdef bint fits
        chosen.assign(self.U, 0)
        for u in units:
            chosen[u] = 1
        with nogil:
            fits = self.reduce(&chosen)
        return [u for u in range(self.U) if chosen[u]] if fits else None

    def shortage(self):
        """(seats, allowed nodes, seats by resources alone, [(resource, nodes, least lack)]).

        With every unit chosen. A node counts for the resource that one more
        member there lacks first (the first in the request's order at a tie).
        """
        cdef int u, n, r, tightest
        cdef i64 seated, room = 0, fits, here, lack
        cdef int allowed = 0
        cdef vector[i64] free = self.room0
        cdef vector[int] waiting = self.waiting0
        cdef vector[i64] nodes, least
        nodes.assign(self.R, 0)
        least.assign(self.R, 0)
        with nogil:
            for u in range(self.U):
                self.move(u, 1, &free, &waiting)
            seated = self.total(&free, &waiting)
            for n in range(self.N):
                if not self.limit[n]:
                    continue
                allowed += 1
                here = self.c.count
                tightest = -1
                for r in range(self.R):
                    fits = 0
                    if free[n * self.R + r] > 0:
                        fits = free[n * self.R + r] // self.c.request[r]
                    if tightest < 0 or fits < here:
                        here = fits
                        tightest = r
                room += here
                if tightest >= 0:
                    lack = self.c.request[tightest] * (here + 1) - free[n * self.R + tightest]
                    nodes[tightest] += 1
                    if nodes[tightest] == 1 or lack < least[tightest]:
                        least[tightest] = lack
        lacking = [
            (self.c.kept[r], nodes[r], least[r]) for r in range(self.R) if nodes[r]
        ]
        return min(seated, self.c.count), allowed, room, lacking

    def seats(self, units, bint fill):
        """[(node, members)]: nodes the units leave first, then roomier ones, then by index."""
        cdef int u, n, e
        cdef vector[i64] room = self.room0
        cdef vector[int] waiting = self.waiting0
        freed = set()
        for u in units:
            self.move(u, 1, &room, &waiting)
            for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                freed.add(self.c.entry_node[e])
            for e in range(self.c.lift_first[u], self.c.lift_first[u + 1]):
                freed.add(self.c.lift_node[e])
        rows = []
        for n in range(self.N):
            if self.limit[n]:
                members = self.slots(n, &room[n * self.R] if self.R else NULL, waiting[n])
                if members > 0:
                    rows.append((n not in freed, -members, n))
        rows.sort()
        left = self.c.count if fill else self.need
        placed = []
        for _, members, n in rows:
            if left <= 0:
                break
            members = min(left, -members)
            placed.append((n, members))
            left -= members
        placed.sort()
        return placed
