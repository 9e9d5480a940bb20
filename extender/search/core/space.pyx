# distutils: language = c++
"""Room and seats of one region, and the cost levels that need not be looked at.

Step 1: units that never cost anything are taken. Step 2: the least important cost
levels whose units suffice are kept; dearer units are dropped.
"""

from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.packed_cost cimport i64, order, put, wide
from extender.search.core.states cimport OPEN, IN, OUT


cdef class Space:
    """Nodes, room and units of one region."""

    def __init__(
        self, Columns columns, bytes inside, gone, kept, i64 need, domain, domain_limit
    ):
        """Steps 1 and 2: see BranchAndBound for what is given."""
        cdef const unsigned char[::1] mask = inside
        cdef int n
        self.c = columns
        self.R = columns.resources
        self.N = columns.nodes
        self.U = columns.units
        self.G = columns.gangs
        self.V = self.U + self.G
        self.need = columns.need if need < 0 else need
        self.settle_decided(gone, kept)
        if domain is not None:
            self.domain = domain
            self.domain_limit = domain_limit
        self.limit.resize(self.N)
        for n in range(self.N):
            if mask[n]:
                self.limit[n] = columns.limit[n]
        with nogil:
            self.open_room()
            if self.possible and not self.settled_free:
                self.drop_dear_levels()

    def settle_decided(self, gone, kept):
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
            if <wide>room[r] < <wide>most * <wide>self.c.request[r]:
                fit = room[r] // self.c.request[r]
                if fit < most:
                    most = fit
        return most

    cdef i64 seats_on(self, int n, vector[i64]* room, vector[int]* waiting) noexcept nogil:
        """As slots, of node n's part of the whole room."""
        return self.slots(n, &room[0][n * self.R] if self.R else NULL, waiting[0][n])

    cdef void move(self, int unit, int sign, vector[i64]* room, vector[int]* waiting) noexcept nogil:
        """Release (sign 1) or put back (-1) one unit's amounts."""
        cdef int e, r, n
        for e in range(self.c.unit_first[unit], self.c.unit_first[unit + 1]):
            n = self.c.entry_node[e]
            for r in range(self.R):
                room[0][n * self.R + r] += sign * self.c.releases[e * self.R + r]
        for e in range(self.c.lift_first[unit], self.c.lift_first[unit + 1]):
            waiting[0][self.c.lift_node[e]] -= sign

    cdef void decide(self, int v, int state) noexcept nogil:
        """Settle what moves no room: a gang, or a unit that was and is not IN."""
        self.status[v] = <char>state

    cdef void decide_unit(self, int u, int state) noexcept nogil:
        """Settle a unit, or undo it; the room follows."""
        if self.status[u] == IN:
            self.move(u, -1, &self.avail, &self.waiting)
        if state == IN:
            self.move(u, 1, &self.avail, &self.waiting)
        self.status[u] = <char>state

    cdef void allow(self, int n, int most) noexcept nogil:
        """Let so many members sit on the node, if no more may already."""
        self.limit[n] = max(self.limit[n], most)

    cdef i64 total(self, vector[i64]* room, vector[int]* waiting) noexcept nogil:
        cdef int n, z
        cdef i64 found = 0, here
        cdef vector[i64] inside
        inside.assign(self.domain_limit.size(), 0)
        for n in range(self.N):
            if self.limit[n]:
                here = self.seats_on(n, room, waiting)
                if inside.size() and self.domain[n] >= 0:
                    inside[self.domain[n]] += here
                else:
                    found += here
        for z in range(<int>inside.size()):
            found += min(inside[z], <i64>self.domain_limit[z])
        return found

    cdef void open_room(self) noexcept nogil:
        """Steps 1: free units in; does the gang fit now, or at all?"""
        cdef int u, n
        cdef vector[i64] room
        cdef vector[int] waiting
        self.avail = self.room0
        self.waiting = self.waiting0
        self.is_free.assign(self.U, 0)
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

    cdef int top_level(self, int u) noexcept nogil:
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

    cdef void drop_dear_levels(self) noexcept nogil:
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
                by_top[self.top_level(u)].push_back(u)
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
            if self.status[u] == OPEN and self.top_level(u) < level:
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
                members = self.seats_on(n, &room, &waiting)
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
