# distutils: language = c++
"""What ties nodes together beyond couplers: budgets and surpluses that can be exceeded.

Stages are the cost levels that are paid here, in their order. A part is a set of nodes
that couplers join; parts have nothing in common but these rows and the seats wanted.
"""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64
from extender.search.core.states cimport OPEN, IN, OUT


cdef class CouplingRows:
    """A region's stages, parts and coupling rows."""

    def __init__(self, Space space, Levels levels, Relations relations):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.c = space.c

    cdef bint lay_stages(self) noexcept nogil:
        """Stages, parts and coupling rows; False when nothing is tied."""
        cdef int level, u, g, i
        self.stage_level.clear()
        self.level_stage.assign(self.c.levels, -1)
        for level in range(self.c.levels):
            if self.levels.level_limb[level] >= 0:
                self.level_stage[level] = <int>self.stage_level.size()
                self.stage_level.push_back(level)
        self.stages = <int>self.stage_level.size()
        self.fixed.assign(self.stages, 0)
        for level in range(self.c.levels):
            if self.level_stage[level] >= 0 and self.levels.extra_level == level:
                self.fixed[self.level_stage[level]] = 1
        self.owes_first.assign(1, 0)
        self.owes_stage.clear()
        self.owes.clear()
        for u in range(self.space.U):
            for i in range(self.c.cost_first[u], self.c.cost_first[u + 1]):
                if self.level_stage[self.c.cost_level[i]] >= 0:
                    self.owes_stage.push_back(self.level_stage[self.c.cost_level[i]])
                    self.owes.push_back(self.c.cost_amount[i])
            for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                level = self.c.budget_level[self.c.use_budget[i]]
                if self.relations.budget_state[self.c.use_budget[i]] == IN and self.level_stage[level] >= 0:
                    self.owes_stage.push_back(self.level_stage[level])
                    self.owes.push_back(self.c.use_pods[i])
            self.owes_first.push_back(<int>self.owes.size())
        for g in range(self.space.G):
            for i in range(self.c.broken_first[g], self.c.broken_first[g + 1]):
                if self.level_stage[self.c.broken_level[i]] >= 0:
                    self.owes_stage.push_back(self.level_stage[self.c.broken_level[i]])
                    self.owes.push_back(self.c.broken_amount[i])
            self.owes_first.push_back(<int>self.owes.size())
        self.lay_rows()
        if self.row_count == 0 or self.stages == 0:
            return False
        self.lay_parts()
        return True

    cdef void add_row(self, int gang, int allowed, int divide, bint firm) noexcept nogil:
        self.row_gang.push_back(gang)
        self.row_state.push_back(OUT if firm else OPEN)
        self.row_allowed.push_back(allowed)
        self.row_divide.push_back(divide)
        self.over_first.push_back(<int>self.over.size())
        self.row_count += 1

    cdef void lay_rows(self) noexcept nogil:
        """Budgets and surpluses that can be exceeded, and the units that count in them."""
        cdef int b, g, u, i, load, stage
        cdef vector[int] of_budget, of_gang
        self.row_count = 0
        self.row_allowed.clear()
        self.row_divide.clear()
        self.row_gang.clear()
        self.row_state.clear()
        self.over_first.assign(1, 0)
        self.over_stage.clear()
        self.over.clear()
        of_budget.assign(self.c.budgets, -1)
        of_gang.assign(self.space.G, -1)
        for b in range(self.c.budgets):
            load = 0
            for i in range(self.relations.budget_first[b], self.relations.budget_first[b + 1]):
                u = self.relations.budget_unit[i]
                load += self.pods_in(u, b)
            if self.relations.budget_state[b] == IN or load <= self.space.allowed_pods[b]:
                continue
            of_budget[b] = self.row_count
            stage = self.level_stage[self.c.budget_level[b]]
            if not self.space.firm[b] and stage >= 0:
                self.over_stage.push_back(stage)
                self.over.push_back(1)
            self.add_row(-1, self.space.allowed_pods[b], 1, self.space.firm[b] != 0)
        for g in range(self.space.G):
            load = self.relations.gang_first[g + 1] - self.relations.gang_first[g]
            if not self.relations.loose[g] or self.relations.gated[g]:
                continue
            of_gang[g] = self.row_count
            for i in range(self.owes_first[self.space.U + g], self.owes_first[self.space.U + g + 1]):
                self.over_stage.push_back(self.owes_stage[i])
                self.over.push_back(self.owes[i])
            self.add_row(g, self.space.surplus[g], load - self.space.surplus[g], self.space.unbreakable[g] != 0)
        self.uses_first.assign(1, 0)
        self.uses_row.clear()
        self.uses_pods.clear()
        self.row_load.assign(self.row_count, 0)
        for u in range(self.space.U):
            if self.space.status[u] == OPEN:
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    b = of_budget[self.c.use_budget[i]]
                    if b >= 0:
                        self.uses_row.push_back(b)
                        self.uses_pods.push_back(self.c.use_pods[i])
                        self.row_load[b] += self.c.use_pods[i]
                g = self.c.unit_gang[u]
                if g >= 0 and of_gang[g] >= 0:
                    self.uses_row.push_back(of_gang[g])
                    self.uses_pods.push_back(1)
                    self.row_load[of_gang[g]] += 1
            self.uses_first.push_back(<int>self.uses_row.size())

    cdef int pods_in(self, int u, int b) noexcept nogil:
        cdef int i, pods = 0
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            if self.c.use_budget[i] == b:
                pods += self.c.use_pods[i]
        return pods

    cdef int root_of(self, vector[int]* above, int v) noexcept nogil:
        while above[0][v] != v:
            above[0][v] = above[0][above[0][v]]
            v = above[0][v]
        return v

    cdef void lay_parts(self) noexcept nogil:
        """Nodes joined by couplers are one part."""
        cdef int n, u, g, i, j, a, b
        cdef vector[int] above
        above.resize(self.space.N)
        for n in range(self.space.N):
            above[n] = n
        for u in range(self.space.U):
            for i in range(self.relations.touch_first[u] + 1, self.relations.touch_first[u + 1]):
                a = self.root_of(&above, self.relations.touch_node[i])
                b = self.root_of(&above, self.relations.touch_node[i - 1])
                above[max(a, b)] = min(a, b)
        for g in range(self.space.G):
            if not self.relations.gated[g]:
                continue
            for i in range(self.relations.gang_first[g] + 1, self.relations.gang_first[g + 1]):
                u = self.relations.gang_unit[i]
                j = self.relations.gang_unit[i - 1]
                if self.relations.touch_first[u] < self.relations.touch_first[u + 1] and (
                    self.relations.touch_first[j] < self.relations.touch_first[j + 1]
                ):
                    a = self.root_of(&above, self.relations.touch_node[self.relations.touch_first[u]])
                    b = self.root_of(&above, self.relations.touch_node[self.relations.touch_first[j]])
                    above[max(a, b)] = min(a, b)
        self.parts = 0
        self.part_of.assign(self.space.N, -1)
        for n in range(self.space.N):
            if self.relations.active[n]:
                a = self.root_of(&above, n)
                if self.part_of[a] < 0:
                    self.part_of[a] = self.parts
                    self.parts += 1
                self.part_of[n] = self.part_of[a]
        self.unit_part.assign(self.space.V, -1)
        for u in range(self.space.U):
            if self.space.status[u] == OPEN and self.relations.touch_first[u] < self.relations.touch_first[u + 1]:
                self.unit_part[u] = self.part_of[self.relations.touch_node[self.relations.touch_first[u]]]
                g = self.c.unit_gang[u]
                if g >= 0 and self.relations.gated[g]:
                    self.unit_part[self.space.U + g] = self.unit_part[u]
        self.stamp.assign(self.space.N, -1)
        self.stamps = 0
        self.root_slots = self.relations.base_slots
        self.root_room = self.space.avail
        self.root_waiting = self.space.waiting

    cdef void settle(self, int t, int state) noexcept nogil:
        """A gang with surplus: broken and paid for (IN), not to be broken (OUT), or OPEN."""
        cdef int i, v = self.space.U + self.row_gang[t]
        cdef int sign = 1 if state == IN else -1
        if self.row_state[t] == IN or state == IN:
            for i in range(self.owes_first[v], self.owes_first[v + 1]):
                self.fixed[self.owes_stage[i]] += sign * self.owes[i]
        self.row_state[t] = <char>state

    cdef i64 seats_with(self, vector[int]* units) noexcept nogil:
        """Seats that these units give, and their nodes did not have at the root."""
        cdef int i, e, u, n
        cdef i64 seats = 0
        for i in range(<int>units.size()):
            self.space.move(units[0][i], 1, &self.root_room, &self.root_waiting)
        self.stamps += 1
        for i in range(<int>units.size()):
            u = units[0][i]
            for e in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
                n = self.relations.touch_node[e]
                if self.stamp[n] != self.stamps:
                    self.stamp[n] = self.stamps
                    seats += self.space.seats_on(
                        n, &self.root_room, &self.root_waiting
                    ) - self.root_slots[n]
        for i in range(<int>units.size()):
            self.space.move(units[0][i], -1, &self.root_room, &self.root_waiting)
        return seats
