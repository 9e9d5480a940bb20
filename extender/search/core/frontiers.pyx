# distutils: language = c++
"""The frontier of a node: the least cost of 0, 1, 2, ... more seats there.

One frontier for every value of the node's couplers (units that span nodes, gangs
that break with their first pod); the node's own units are covered by cover.pyx.
"""

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from extender.search.core.cover cimport Cover, cover_lay, cover_solve, cover_space
from extender.search.core.packed_cost cimport (
    MOST_LIMBS, PackedCost, i64, is_never, never, order, plus, put, wide, zero,
)
from extender.search.core.states cimport COVER_BRANCHES, OPEN, OUT, WEIGHT_BITS, WIDEST


cdef class Frontiers:
    """The frontiers of a region's nodes, and the units that their rows stand for."""

    def __init__(self, Space space, Relations relations, Effort effort, Traced traced):
        """The parts it works on."""
        self.space = space
        self.relations = relations
        self.effort = effort
        self.traced = traced
        self.c = space.c

    cdef void lay_tables(self) noexcept nogil:
        """Empty tables for every node."""
        self.sharing = False
        self.scope.resize(self.space.N)
        self.table.resize(self.space.N)
        self.relaxed_vars.resize(self.space.N)
        self.rough.assign(self.space.N, 0)
        self.most.assign(self.space.N, 0)
        self.relaxed_uses.assign(self.space.V, 0)
        self.scratch.assign(MOST_LIMBS, 0)

    cdef void ask_for(self, i64 seats) noexcept nogil:
        """Seats missing under the decisions of a branch: frontiers reach no further."""
        self.demand = seats

    cdef void start_sharing(self) noexcept nogil:
        """Couplers are local from now on, at parts of their price."""
        self.sharing = True
        self.mark_shared()

    cdef void stop_sharing(self) noexcept nogil:
        """Couplers are the tables' again, at their whole price."""
        self.sharing = False
        self.mark_shared()

    cdef void mark_shared(self) noexcept nogil:
        """The frontiers of nodes with couplers are to be built anew."""
        cdef int n
        for n in range(self.space.N):
            if self.relations.active[n] and (self.rough[n] or self.scope[n].size()):
                self.relations.mark_node_dirty(n)

    cdef bint usable(self, int u, int n) noexcept nogil:
        """An undecided unit, not of a gang that stays whole."""
        cdef int g
        if self.space.status[u] != OPEN or self.traced.frozen[u]:
            return False
        g = self.c.unit_gang[u]
        return not (g >= 0 and self.relations.gated[g] and self.space.status[self.space.U + g] == OUT)

    cdef int gate_of(self, int u) noexcept nogil:
        """The undecided gang variable that a unit on one node waits for, -1."""
        cdef int g = self.c.unit_gang[u]
        if (
            g >= 0 and self.relations.gated[g] and self.space.status[self.space.U + g] == OPEN
            and not self.relations.spans[u]
        ):
            return self.space.U + g
        return -1

    cdef int coupler_of(self, int u) noexcept nogil:
        if self.relations.spans[u]:
            return u
        return self.gate_of(u)

    cdef void build(self, int n) noexcept nogil:
        """The factor of node n: for each value of its couplers, its frontier."""
        cdef int i, j, u, v, s, bits, k, W = self.relations.W, R = self.space.R, kmax, kfree, musts
        cdef i64 words
        cdef vector[int]* scope = &self.scope[n]
        cdef vector[i64]* table = &self.table[n]
        cdef const i64* row
        for i in range(<int>self.relaxed_vars[n].size()):
            self.relaxed_uses[self.relaxed_vars[n][i]] -= 1
        self.relaxed_vars[n].clear()
        scope.clear()
        self.rough[n] = 0
        self.relations.mark_built(n)
        for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
            u = self.relations.entry_unit[self.relations.node_entry[i]]
            if self.usable(u, n):
                self.add_to_scope(scope, self.coupler_of(u))
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            u = self.relations.lifted_unit[i]
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
        self.fill_room(n, (1 << s) - 1, ALL_USABLE)
        musts = self.must_wait(n, (1 << s) - 1, ALL_USABLE)
        kmax = <int>(self.space.slots(n, &self.node_room[0], musts) - self.relations.base_slots[n])
        if kmax < 0:
            kmax = 0
        if kmax > self.demand:
            kmax = <int>self.demand
        self.most[n] = kmax
        words = (<i64>1 << s) * (kmax + 1) * W
        table.resize(words)
        for bits in range(1 << s):
            self.frontier(n, bits, kmax, &table[0][<i64>bits * (kmax + 1) * W])

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

    cdef UnitState item_state(self, int n, int u, int bits) noexcept nogil:
        """What the couplers' values leave of the unit on node n."""
        cdef int value, gate
        if not self.usable(u, n):
            return KEPT
        if self.relations.spans[u]:
            value = self.value_of(n, u, bits)
            if value < 0:
                return SELECTABLE
            return GONE if value else KEPT
        gate = self.gate_of(u)
        if gate >= 0 and self.value_of(n, gate, bits) == 0:
            return KEPT
        return SELECTABLE

    cdef void fill_room(self, int n, int bits, GoneUnits gone) noexcept nogil:
        """node_room: amounts on n with the couplers' units (or everything usable) gone."""
        cdef int i, r, e, u
        cdef UnitState state
        for r in range(self.space.R):
            self.node_room[r] = self.space.avail[n * self.space.R + r]
        for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
            e = self.relations.node_entry[i]
            u = self.relations.entry_unit[e]
            state = self.item_state(n, u, bits)
            if state == GONE or (gone == ALL_USABLE and state == SELECTABLE):
                for r in range(self.space.R):
                    self.node_room[r] += self.c.releases[e * self.space.R + r]

    cdef int must_wait(self, int n, int bits, GoneUnits gone) noexcept nogil:
        """Blockers of node n that stand in the way even so."""
        cdef int i, waiting = self.space.waiting[n]
        cdef UnitState state
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            state = self.item_state(n, self.relations.lifted_unit[i], bits)
            if state == GONE or (gone == ALL_USABLE and state == SELECTABLE):
                waiting -= 1
        return waiting

    cdef void collect(self, int n, int bits) noexcept nogil:
        """item_*: the units that may be chosen on n under these bits, cost ascending.

        Blockers are not among them: once a seat is wanted they must go (``force``).
        """
        cdef int i, j, e, u, r, W = self.relations.W, R = self.space.R, count
        cdef vector[int] entries
        self.item_unit.clear()
        for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
            e = self.relations.node_entry[i]
            u = self.relations.entry_unit[e]
            if self.item_state(n, u, bits) == SELECTABLE and not self.blocks(n, u):
                entries.push_back(e)
        count = <int>entries.size()
        self.item_costs.resize(count * W + 1)
        self.item_amounts.resize(count * R + 1)
        self.item_unit.resize(count)
        for i in range(count):
            self.local_price(n, self.relations.entry_unit[entries[i]], &self.scratch[0])
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
            self.item_unit[i] = self.relations.entry_unit[e]

    cdef bint blocks(self, int n, int u) noexcept nogil:
        """Whether the unit is a blocker of node n."""
        cdef int i
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            if self.relations.lifted_unit[i] == u:
                return True
        return False

    cdef void local_price(self, int n, int u, i64* into) noexcept nogil:
        """What choosing u on node n costs there: a share when it spans other nodes too."""
        cdef int i, e, g
        cdef i64 parts = self.relations.touch_first[u + 1] - self.relations.touch_first[u]
        put(into, &self.relations.eff[u * self.relations.W], self.relations.W)
        if self.relations.spans[u]:
            if self.sharing:
                e = self.relations.touch_first[u]
                while self.relations.touch_node[e] != n:
                    e += 1
                for i in range(self.relations.W):
                    into[i] = <i64>((<wide>into[i] * <wide>self.relations.weight[e]) >> WEIGHT_BITS)
            else:
                for i in range(self.relations.W):
                    into[i] = into[i] // parts
        elif self.sharing and self.gate_of(u) >= 0:
            g = self.c.unit_gang[u]
            parts = self.relations.gang_first[g + 1] - self.relations.gang_first[g]
            for i in range(self.relations.W):
                into[i] += self.relations.break_eff[g * self.relations.W + i] // parts

    cdef void frontier(self, int n, int bits, int kmax, i64* rows) noexcept nogil:
        """rows[k] = least cost of k more seats on n under these couplers' values."""
        cdef int k, r, kfree, W = self.relations.W, R = self.space.R, i, u, e, count
        cdef Cover cover
        cdef PackedCost forced
        cdef PackedCost bound
        cdef vector[i64] room
        zero(rows, W)
        for k in range(1, kmax + 1):
            never(rows + k * W, W)
        self.fill_room(n, bits, BY_COUPLERS)
        kfree = <int>(
            self.space.slots(n, &self.node_room[0], self.must_wait(n, bits, BY_COUPLERS))
            - self.relations.base_slots[n]
        )
        for k in range(1, min(kfree, kmax) + 1):
            zero(rows + k * W, W)
        if kfree >= kmax or self.must_wait(n, bits, ALL_USABLE) > 0:
            return
        if kfree < 0:
            kfree = 0
        self.collect(n, bits)
        count = <int>self.item_unit.size()
        self.force(n, bits, forced)
        self.lay(&cover)
        for k in range(kfree + 1, kmax + 1):
            if self.effort.late():
                break  # whoever asked for the frontier sees it too, and does without
            for r in range(R):
                self.asked[r] = (
                    self.c.request[r] * (self.relations.base_slots[n] + k) - self.node_room[r]
                )
            cover.branches_left = COVER_BRANCHES
            cover_solve(&cover, bound)
            if is_never(cover.best):
                break
            if not cover.exact:
                self.rough[n] = 1
                put(rows + k * W, bound, W)
            else:
                put(rows + k * W, cover.best, W)
            plus(rows + k * W, forced, W)
        self.effort.count(cover.work * 4 + count * R)
        for k in range(kmax - 1, 0, -1):
            if order(rows + (k + 1) * W, rows + k * W, W) < 0:
                put(rows + k * W, rows + (k + 1) * W, W)

    cdef void start_node(self, int n, vector[i64]* whole) noexcept nogil:
        """Make node n's room ready for ``ask``.

        ``whole``, unless NULL, gets the room with everything usable gone.
        """
        self.node_room.resize(self.space.R + 1)
        self.asked.resize(self.space.R + 1)
        if whole != NULL:
            self.fill_room(n, 0, ALL_USABLE)
            whole[0] = self.node_room
        self.fill_room(n, 0, BY_COUPLERS)

    cdef bint ask(self, const i64* amounts) noexcept nogil:
        """Ask the node for these amounts (R); whether it lacks any without a choice."""
        cdef int r
        cdef bint lacking = False
        for r in range(self.space.R):
            self.asked[r] = amounts[r] - self.node_room[r] if amounts[r] else 0
            lacking = lacking or self.asked[r] > 0
        return lacking

    cdef void lay_node(self, int n, Cover* cover) noexcept nogil:
        """Make the knapsack of node n's own units ready, every coupler local."""
        self.collect(n, 0)
        self.lay(cover)

    cdef void lay(self, Cover* cover) noexcept nogil:
        """Make the knapsack of the collected items ready; ``asked`` is what it must cover."""
        cover.items = <int>self.item_unit.size()
        cover.resources = self.space.R
        cover.w = self.relations.W
        cover.amounts = &self.item_amounts[0]
        cover.costs = &self.item_costs[0]
        self.workspace.resize(cover_space(cover.items, self.space.R, self.relations.W))
        cover_lay(cover, &self.workspace[0])
        cover.need = &self.asked[0]
        cover.work = 0

    cdef void force(self, int n, int bits, i64* paid) noexcept nogil:
        """Blockers of n that may be chosen must be: their cost, and their room into node_room."""
        cdef int i, e, u, r
        zero(paid, self.relations.W)
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            u = self.relations.lifted_unit[i]
            if self.item_state(n, u, bits) == SELECTABLE:
                self.local_price(n, u, &self.scratch[0])
                plus(paid, &self.scratch[0], self.relations.W)
                for e in range(self.c.unit_first[u], self.c.unit_first[u + 1]):
                    if self.c.entry_node[e] == n:
                        for r in range(self.space.R):
                            self.node_room[r] += self.c.releases[e * self.space.R + r]

    cdef void take_on_node(self, int n, int bits, int k) noexcept nogil:
        """Trace what row k of the node's frontier stands for."""
        cdef int i, r, u, kfree, row, R = self.space.R, W = self.relations.W
        cdef Cover cover
        cdef PackedCost forced
        cdef PackedCost bound
        for i in range(<int>self.scope[n].size()):
            self.traced.see(self.scope[n][i], (bits >> i) & 1)
        self.fill_room(n, bits, BY_COUPLERS)
        kfree = <int>(
            self.space.slots(n, &self.node_room[0], self.must_wait(n, bits, BY_COUPLERS))
            - self.relations.base_slots[n]
        )
        if k <= kfree or k == 0:
            return
        self.collect(n, bits)
        self.force(n, bits, forced)
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            u = self.relations.lifted_unit[i]
            if self.item_state(n, u, bits) == SELECTABLE:
                self.mark(n, u)
        self.lay(&cover)
        # A later row may be cheaper than this one: its units serve as well.
        row = k
        while row < self.most[n] and order(
            &self.table[n][(<i64>bits * (self.most[n] + 1) + k) * W],
            &self.table[n][(<i64>bits * (self.most[n] + 1) + row + 1) * W], W
        ) == 0:
            row += 1
        for r in range(R):
            self.asked[r] = self.c.request[r] * (self.relations.base_slots[n] + row) - self.node_room[r]
        cover.branches_left = COVER_BRANCHES
        cover_solve(&cover, bound)
        for i in range(cover.taken_count):
            self.mark(n, self.item_unit[cover.taken[i]])

    cdef void mark(self, int n, int u) noexcept nogil:
        """Node n's row takes the unit."""
        if self.sharing and self.relations.spans[u]:
            self.traced.take_share(u, n)
        else:
            self.traced.take(u)

    cdef void freeze_row(self, int n, int k) noexcept nogil:
        """Settle the node's undecided units for good: those of row k go, the others stay."""
        cdef int i
        self.traced.forget_units()
        self.take_on_node(n, 0, k)
        for i in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
            self.traced.freeze(self.relations.entry_unit[self.relations.node_entry[i]])
        for i in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
            self.traced.freeze(self.relations.lifted_unit[i])
