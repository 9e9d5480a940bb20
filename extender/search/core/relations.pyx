# distutils: language = c++
"""Step 3: which nodes can gain seats, which units touch them, what couples them.

Also the decisions of a branch, and what they change: the status of units and
gangs, the state and the price of budgets.
"""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport PackedCost, i64, order, put, zero
from extender.search.core.states cimport OPEN, IN, OUT, WEIGHT_BITS


cdef class Relations:
    """Which units touch which nodes, and what they cost under the decisions of a branch."""

    def __init__(self, Space space, Levels levels):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.c = space.c

    cdef void relate(self, vector[char]* gaining) noexcept nogil:
        """Step 3: which nodes can gain seats, which units touch them, what couples them.

        ``gaining`` (N,): the nodes, where the caller knows better; NULL where not.
        """
        cdef int u, g, i, b, W = self.levels.full, members
        cdef vector[int] last
        self.W = W
        self.price.assign(self.space.U * W, 0)
        self.break_price.assign(self.space.G * W, 0)
        for g in range(self.space.G):
            for i in range(self.c.broken_first[g], self.c.broken_first[g + 1]):
                self.levels.pay(
                    &self.break_price[g * W], self.c.broken_level[i], self.c.broken_amount[i]
                )
        for u in range(self.space.U):
            for i in range(self.c.cost_first[u], self.c.cost_first[u + 1]):
                self.levels.pay(&self.price[u * W], self.c.cost_level[i], self.c.cost_amount[i])
        self.relevant.assign(self.space.N, 0)
        self.active.assign(self.space.N, 0)
        self.base_slots.assign(self.space.N, 0)
        if gaining == NULL:
            self.find_relevant()
        else:
            self.relevant = gaining[0]
            self.active = gaining[0]
        self.lay_touches()
        # Gangs: those that break with the first pod are variables, others are checked.
        self.gated.assign(self.space.G, 0)
        self.loose.assign(self.space.G, 0)
        self.gang_first.assign(self.space.G + 1, 0)
        for u in range(self.space.U):
            if self.space.status[u] == OPEN and self.c.unit_gang[u] >= 0:
                self.gang_first[self.c.unit_gang[u] + 1] += 1
        for g in range(self.space.G):
            members = self.gang_first[g + 1]
            self.gang_first[g + 1] += self.gang_first[g]
            if members > self.space.surplus[g] and (
                self.space.unbreakable[g] or not self.levels.nothing(&self.break_price[g * W])
            ):
                if self.space.unbreakable[g]:
                    self.space.decide(self.space.U + g, OUT)
                if self.space.surplus[g] == 0:
                    self.gated[g] = 1
                self.loose[g] = 1
        self.gang_unit.resize(self.gang_first[self.space.G])
        last = self.gang_first
        for u in range(self.space.U):
            if self.space.status[u] == OPEN and self.c.unit_gang[u] >= 0:
                self.gang_unit[last[self.c.unit_gang[u]]] = u
                last[self.c.unit_gang[u]] += 1
        self.lay_budgets()
        self.eff = self.price
        self.break_eff = self.break_price
        self.budget_state.assign(self.c.budgets, OPEN)
        self.budget_price.assign(self.c.budgets * W, 0)
        self.tuned.assign(self.c.budgets * W, 0)
        self.weight.resize(self.touch_node.size())
        for u in range(self.space.U):
            for i in range(self.touch_first[u], self.touch_first[u + 1]):
                self.weight[i] = (<i64>1 << WEIGHT_BITS) // (
                    self.touch_first[u + 1] - self.touch_first[u]
                )
        self.dirty.assign(self.space.N, 1)
        for b in range(self.c.budgets):
            if self.space.firm[b]:
                self.budget_state[b] = OUT
            elif self.space.allowed_pods[b] == 0:
                self.set_budget(b, IN)

    cdef void find_relevant(self) noexcept nogil:
        """Which nodes seat more members once everybody is gone."""
        cdef int u, n
        cdef vector[i64] room = self.space.avail
        cdef vector[int] waiting = self.space.waiting
        for u in range(self.space.U):
            if self.space.status[u] == OPEN:
                self.space.move(u, 1, &room, &waiting)
        for n in range(self.space.N):
            if self.space.limit[n]:
                self.base_slots[n] = <int>self.space.seats_on(n, &self.space.avail, &self.space.waiting)
                if self.space.seats_on(n, &room, &waiting) > self.base_slots[n]:
                    self.relevant[n] = 1
                    self.active[n] = 1

    cdef void lay_touches(self) noexcept nogil:
        """Relevant nodes per unit, units per relevant node, blockers per node."""
        cdef int u, e, n, i, r, here
        cdef bint some
        cdef vector[int] mark, fill
        mark.assign(self.space.N, -1)
        self.touch_first.assign(1, 0)
        self.touch_node.clear()
        self.home.assign(self.space.U, -1)
        self.spans.assign(self.space.U, 0)
        self.node_first.assign(self.space.N + 1, 0)
        self.lifted_first.assign(self.space.N + 1, 0)
        self.entry_unit.resize(self.c.entry_node.size())
        for u in range(self.space.U):
            here = 0
            for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                self.entry_unit[e] = u
                n = self.c.entry_node[e]
                some = False
                for r in range(self.space.R):
                    some = some or self.c.releases[e * self.space.R + r] > 0
                if self.relevant[n] and self.space.status[u] == OPEN and some:
                    self.touch_node.push_back(n)
                    mark[n] = u
                    here += 1
                    self.node_first[n + 1] += 1
            for e in range(self.c.lift_first[u], self.c.lift_first[u + 1]):
                n = self.c.lift_node[e]
                if self.relevant[n] and self.space.status[u] == OPEN:
                    self.lifted_first[n + 1] += 1
                    if mark[n] != u:
                        self.touch_node.push_back(n)
                        here += 1
            self.touch_first.push_back(<int>self.touch_node.size())
            if here == 1:
                self.home[u] = self.touch_node.back()
            elif here > 1:
                self.spans[u] = 1
            elif self.space.status[u] == OPEN:
                self.space.decide(u, OUT)
        for n in range(self.space.N):
            self.node_first[n + 1] += self.node_first[n]
            self.lifted_first[n + 1] += self.lifted_first[n]
        self.node_entry.resize(self.node_first[self.space.N])
        self.lifted_unit.resize(self.lifted_first[self.space.N])
        fill = self.node_first
        for u in range(self.space.U):
            for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                n = self.c.entry_node[e]
                some = False
                for r in range(self.space.R):
                    some = some or self.c.releases[e * self.space.R + r] > 0
                if self.relevant[n] and self.space.status[u] == OPEN and some:
                    self.node_entry[fill[n]] = e
                    fill[n] += 1
        fill = self.lifted_first
        for u in range(self.space.U):
            for e in range(self.c.lift_first[u], self.c.lift_first[u + 1]):
                n = self.c.lift_node[e]
                if self.relevant[n] and self.space.status[u] == OPEN:
                    self.lifted_unit[fill[n]] = u
                    fill[n] += 1

    cdef void lay_budgets(self) noexcept nogil:
        cdef int u, i, b
        cdef vector[int] fill
        self.budget_first.assign(self.c.budgets + 1, 0)
        for u in range(self.space.U):
            if self.space.status[u] == OPEN:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    self.budget_first[self.c.use_budget[i] + 1] += 1
        for b in range(self.c.budgets):
            self.budget_first[b + 1] += self.budget_first[b]
        self.budget_unit.resize(self.budget_first[self.c.budgets])
        fill = self.budget_first
        for u in range(self.space.U):
            if self.space.status[u] == OPEN:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    b = self.c.use_budget[i]
                    self.budget_unit[fill[b]] = u
                    fill[b] += 1

    cdef void set_budget(self, int b, int state) noexcept nogil:
        """OPEN: counted afterwards. IN: every pod above costs. OUT: must not be exceeded."""
        cdef PackedCost price
        self.budget_state[b] = <char>state
        if state == IN:
            zero(price, self.W)
            self.levels.pay(price, self.c.budget_level[b], 1)
            self.set_budget_price(b, price)
        else:
            self.set_budget_price(b, &self.tuned[b * self.W])

    cdef void set_budget_price(self, int b, const i64* price) noexcept nogil:
        """Let every pod of the budget cost this much (and every allowed pod refund it).

        A lower bound holds for any price from nothing to what an excess pod
        really costs, or to any price where the budget must not be exceeded
        (Lagrangian relaxation of the budget).
        """
        cdef int i, u, k, w, W = self.W
        if order(price, &self.budget_price[b * W], W) == 0:
            return
        for i in range(self.budget_first[b], self.budget_first[b + 1]):
            u = self.budget_unit[i]
            for k in range(self.c.use_first[u], self.c.use_first[u + 1]):
                if self.c.use_budget[k] == b:
                    for w in range(W):
                        self.eff[u * W + w] += self.c.use_pods[k] * (
                            price[w] - self.budget_price[b * W + w]
                        )
            self.mark_dirty(u)
        put(&self.budget_price[b * W], price, W)

    cdef void tune(self, int b, const i64* price) noexcept nogil:
        """A price of the budget's pods, now and wherever a branch does not pay for more."""
        put(&self.tuned[b * self.W], price, self.W)
        self.set_budget_price(b, price)

    cdef void mark_dirty(self, int u) noexcept nogil:
        """The frontiers of the unit's nodes are to be built anew."""
        cdef int i
        for i in range(self.touch_first[u], self.touch_first[u + 1]):
            self.dirty[self.touch_node[i]] = 1

    cdef void mark_node_dirty(self, int n) noexcept nogil:
        """The node's frontier is to be built anew."""
        self.dirty[n] = 1

    cdef void mark_active_dirty(self) noexcept nogil:
        """All frontiers are to be built anew."""
        cdef int n
        for n in range(self.space.N):
            if self.active[n]:
                self.dirty[n] = 1

    cdef void mark_built(self, int n) noexcept nogil:
        """The node's frontier is built."""
        self.dirty[n] = 0

    cdef void close(self, int n) noexcept nogil:
        """Nothing on the node is to be decided any more."""
        self.active[n] = 0

    cdef void set_unit(self, int u, int state) noexcept nogil:
        """Decide a unit, or undo it: room, seats, and what has to be built anew."""
        cdef int i, n
        cdef bint moves = self.space.status[u] == IN or state == IN
        self.space.decide_unit(u, state)
        if moves:
            for i in range(self.touch_first[u], self.touch_first[u + 1]):
                n = self.touch_node[i]
                self.base_slots[n] = <int>self.space.seats_on(n, &self.space.avail, &self.space.waiting)
        self.mark_dirty(u)

    cdef void set_gang(self, int g, int state) noexcept nogil:
        """Decide whether a gang breaks, or undo it."""
        cdef int i
        self.space.decide(self.space.U + g, state)
        for i in range(self.gang_first[g], self.gang_first[g + 1]):
            self.mark_dirty(self.gang_unit[i])

    cdef void enter_stages(self) noexcept nogil:
        """Costs are plain numbers from now on, at first nothing: one cost level at a time."""
        self.packed_eff = self.eff
        self.packed_break_eff = self.break_eff
        self.W = 1
        self.eff.assign(self.space.U, 0)
        self.break_eff.assign(self.space.G, 0)
        self.mark_active_dirty()

    cdef void leave_stages(self) noexcept nogil:
        """Costs are packed ones again, as before."""
        self.W = self.levels.full
        self.eff = self.packed_eff
        self.break_eff = self.packed_break_eff
        self.mark_active_dirty()

    cdef void set_price(self, int v, i64 price) noexcept nogil:
        """Within the stages: what a unit, or the break of a gang, costs now."""
        if v >= self.space.U:
            self.break_eff[v - self.space.U] = price
        elif price != self.eff[v]:
            self.eff[v] = price
            self.mark_dirty(v)

    cdef bint shift_weight(self, int u, const vector[char]* taken, i64 step_size) noexcept nogil:
        """Move parts of the unit's price from nodes that leave it to those that take it.

        ``taken``: per touch. False where all of its nodes take it.
        """
        cdef int e, takers = 0, others = 0
        cdef i64 moved = 0, part
        for e in range(self.touch_first[u], self.touch_first[u + 1]):
            if taken[0][e]:
                takers += 1
            else:
                others += 1
        if others == 0:
            return False
        for e in range(self.touch_first[u], self.touch_first[u + 1]):
            if not taken[0][e]:
                part = min(step_size // others, self.weight[e])
                self.weight[e] -= part
                moved += part
        for e in range(self.touch_first[u], self.touch_first[u + 1]):
            if taken[0][e]:
                self.weight[e] += moved // takers
        self.mark_dirty(u)
        return True

    cdef void set_weight(self, const vector[i64]* weight) noexcept nogil:
        """Each touch's part of its unit's price; ``mark_node_dirty`` has to follow."""
        self.weight = weight[0]
