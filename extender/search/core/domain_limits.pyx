# distutils: language = c++
"""Domains that take a limited number of members: their groups become one group each.

Seats beyond a domain's limit are worth nothing. The groups of a domain are added up to one
frontier that ends at the limit; the knapsack then picks between domains. A group that
couplers stretch over several domains stays outside, with all its seats: a lower bound,
until its couplers are decided.
"""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64, is_never, never, order_of_sum, plus, put
from extender.search.core.states cimport OPEN

cdef enum:
    BETWEEN = -1              # in several domains, or in none
    UNSEEN = -2               # of which nothing is known yet


cdef class DomainLimits:
    """Puts the groups of each limited domain together, and the picks apart again."""

    def __init__(
        self, Space space, Relations relations, Effort effort, Frontiers frontiers,
        Elimination elimination,
    ):
        """The parts it works on."""
        self.space = space
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.elimination = elimination

    cdef bint in_domains(self, vector[char]* units) noexcept nogil:
        """Whether the gang fits, domain by domain, with these units gone."""
        cdef vector[i64] room = self.space.room0
        cdef vector[int] waiting = self.space.waiting0
        cdef int u
        for u in range(self.space.U):
            if units[0][u]:
                self.space.move(u, 1, &room, &waiting)
        return self.space.total(&room, &waiting) >= self.space.need

    cdef bint between_domains(self, int v) noexcept nogil:
        """Whether the undecided coupler touches nodes of more than one domain."""
        cdef int j, g = v - self.space.U, first = UNSEEN
        if self.space.status[v] != OPEN:
            return False
        if g < 0:
            return self.leaves_domain(v, &first)
        for j in range(self.relations.gang_first[g], self.relations.gang_first[g + 1]):
            if self.leaves_domain(self.relations.gang_unit[j], &first):
                return True
        return False

    cdef bint leaves_domain(self, int u, int* first) noexcept nogil:
        """Whether the unit touches a node of another domain than ``first``; UNSEEN: its first one
        is that domain from then on."""
        cdef int i, z
        for i in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
            z = self.space.domain[self.relations.touch_node[i]]
            if first[0] == UNSEEN:
                first[0] = z
            elif z != first[0]:
                return True
        return False

    cdef void merge_domains(self) noexcept nogil:
        """One group for every domain in place of the groups that lie in it."""
        cdef int g, f, r, i, z, n
        cdef vector[int] of_factor, left
        of_factor.assign(self.elimination.f_scope.size(), UNSEEN)
        for f in range(<int>self.elimination.f_scope.size()):
            if self.elimination.f_leaf[f] >= 0:
                of_factor[f] = self.space.domain[self.elimination.f_leaf[f]]
        for r in range(<int>self.elimination.r_output.size()):
            for i in range(<int>self.elimination.r_inputs[r].size()):
                z = of_factor[self.elimination.r_inputs[r][i]]
                f = self.elimination.r_output[r]
                if of_factor[f] == UNSEEN:
                    of_factor[f] = z
                elif of_factor[f] != z:
                    of_factor[f] = BETWEEN
        left = self.space.domain_limit
        for n in range(self.space.N):
            if self.space.limit[n] and self.space.domain[n] >= 0:
                left[self.space.domain[n]] -= self.relations.base_slots[n]
        self.whole_most = self.elimination.pick.most
        self.whole_rows = self.elimination.pick.rows
        self.slot_group.clear()
        self.slot_domain.clear()
        self.domain_group.assign(self.space.domain_limit.size(), vector[int]())
        self.domain_rows.assign(self.space.domain_limit.size(), vector[i64]())
        self.domain_choice.assign(self.space.domain_limit.size(), vector[int]())
        self.elimination.forget_rows()
        for g in range(<int>self.whole_most.size()):
            if self.elimination.group_node[g] >= 0:
                z = self.space.domain[self.elimination.group_node[g]]
            else:
                z = of_factor[self.elimination.group_factor[g]]
            if z >= 0:
                self.domain_group[z].push_back(g)
                continue
            self.slot_group.push_back(g)
            self.slot_domain.push_back(BETWEEN)
            self.elimination.add_rows(self.whole_most[g], self.whole_rows[g])
        for z in range(<int>self.space.domain_limit.size()):
            if self.domain_group[z].size() and left[z] > 0:
                self.merge_domain(z, left[z])

    cdef void merge_domain(self, int z, int most) noexcept nogil:
        """The domain's frontier: the least cost of at least 0, 1, ... ``most`` seats."""
        cdef int i, g, k, b, best, source, W = self.relations.W
        cdef i64 reach = 0
        cdef const i64* rows
        cdef vector[i64] now, then
        for i in range(<int>self.domain_group[z].size()):
            reach += self.whole_most[self.domain_group[z][i]]
        most = <int>min(<i64>most, reach)
        if most > self.frontiers.demand:
            most = <int>self.frontiers.demand
        now.assign((most + 1) * W, 0)
        then.assign((most + 1) * W, 0)
        for k in range(1, most + 1):
            never(&now[k * W], W)
        for i in range(<int>self.domain_group[z].size()):
            g = self.domain_group[z][i]
            rows = self.whole_rows[g]
            if self.effort.late():
                break  # ``relax`` sees it too
            for k in range(most + 1):
                put(&then[k * W], &now[k * W], W)
                best = 0
                for b in range(1, min(k, self.whole_most[g]) + 1):
                    if is_never(rows + b * W):
                        break
                    source = k - b
                    if is_never(&now[source * W]):
                        continue
                    if order_of_sum(&now[source * W], rows + b * W, &then[k * W], W) < 0:
                        put(&then[k * W], &now[source * W], W)
                        plus(&then[k * W], rows + b * W, W)
                        best = b
                self.domain_choice[z].push_back(best)
                self.effort.count(min(k, self.whole_most[g]))
            now.swap(then)
        while most > 0 and is_never(&now[most * W]):
            most -= 1
        self.domain_rows[z] = now
        self.slot_group.push_back(-1)
        self.slot_domain.push_back(z)
        self.elimination.add_rows(most, &self.domain_rows[z][0])

    cdef void part_domains(self) noexcept nogil:
        """From the domains' picks back to those of their groups."""
        cdef int s, z, i, k, g, width
        cdef vector[int] picks
        picks.assign(self.whole_most.size(), 0)
        for s in range(<int>self.elimination.pick.picks.size()):
            k = self.elimination.pick.picks[s]
            z = self.slot_domain[s]
            if z < 0:
                picks[self.slot_group[s]] = k
                continue
            width = <int>(self.domain_rows[z].size() // self.relations.W)
            for i in range(<int>self.domain_group[z].size() - 1, -1, -1):
                g = self.domain_group[z][i]
                picks[g] = self.domain_choice[z][<i64>i * width + k]
                k -= picks[g]
        self.elimination.set_picks(&picks)
        self.elimination.set_rows(&self.whole_most, &self.whole_rows)
