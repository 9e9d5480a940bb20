# distutils: language = c++
"""DomainLimits that take a limited number of members: their groups become one group each.

Seats beyond a domain's limit are worth nothing. The groups of a domain are added up to one
frontier that ends at the limit; the knapsack then picks between domains. A group that
couplers stretch over several domains stays outside, with all its seats: a lower bound,
until its couplers are decided.
"""

from libcpp.vector cimport vector

from extender.search.core.elimination cimport Elimination
from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport i64, is_never, never, order_of_sum, plus, put
from extender.search.core.states cimport OPEN


cdef class DomainLimits(Elimination):
    """A region some of whose domains may be full."""

    cdef bint in_domains(self, vector[char]* units) noexcept nogil:
        """Whether the gang fits, domain by domain, with these units gone."""
        cdef vector[i64] room = self.room0
        cdef vector[int] waiting = self.waiting0
        cdef int u
        for u in range(self.U):
            if units[0][u]:
                self.move(u, 1, &room, &waiting)
        return self.total(&room, &waiting) >= self.need

    cdef bint between_domains(self, int v) noexcept nogil:
        """Whether the undecided coupler touches nodes of more than one domain."""
        cdef int i, j, u, n, first = -2
        if self.status[v] != OPEN:
            return False
        if v < self.U:
            for i in range(self.touch_first[v], self.touch_first[v + 1]):
                n = self.touch_node[i]
                if first == -2:
                    first = self.domain[n]
                elif self.domain[n] != first:
                    return True
            return False
        for j in range(self.gang_first[v - self.U], self.gang_first[v - self.U + 1]):
            u = self.gang_unit[j]
            for i in range(self.touch_first[u], self.touch_first[u + 1]):
                n = self.touch_node[i]
                if first == -2:
                    first = self.domain[n]
                elif self.domain[n] != first:
                    return True
        return False

    cdef void merge_domains(self) noexcept nogil:
        """One group for every domain in place of the groups that lie in it."""
        cdef int g, f, r, i, z, n
        cdef vector[int] of_factor, left
        of_factor.assign(self.f_scope.size(), -2)
        for f in range(<int>self.f_scope.size()):
            if self.f_leaf[f] >= 0:
                of_factor[f] = self.domain[self.f_leaf[f]]
        for r in range(<int>self.r_output.size()):
            for i in range(<int>self.r_inputs[r].size()):
                z = of_factor[self.r_inputs[r][i]]
                f = self.r_output[r]
                if of_factor[f] == -2:
                    of_factor[f] = z
                elif of_factor[f] != z:
                    of_factor[f] = -1
        left = self.domain_limit
        for n in range(self.N):
            if self.limit[n] and self.domain[n] >= 0:
                left[self.domain[n]] -= self.base_slots[n]
        self.whole_most = self.pick.most
        self.whole_rows = self.pick.rows
        self.slot_group.clear()
        self.slot_domain.clear()
        self.domain_group.assign(self.domain_limit.size(), vector[int]())
        self.domain_rows.assign(self.domain_limit.size(), vector[i64]())
        self.domain_choice.assign(self.domain_limit.size(), vector[int]())
        self.pick.most.clear()
        self.pick.rows.clear()
        for g in range(<int>self.whole_most.size()):
            if self.group_node[g] >= 0:
                z = self.domain[self.group_node[g]]
            else:
                z = of_factor[self.group_factor[g]]
            if z >= 0:
                self.domain_group[z].push_back(g)
                continue
            self.slot_group.push_back(g)
            self.slot_domain.push_back(-1)
            self.pick.most.push_back(self.whole_most[g])
            self.pick.rows.push_back(self.whole_rows[g])
        for z in range(<int>self.domain_limit.size()):
            if self.domain_group[z].size() and left[z] > 0:
                self.merge_domain(z, left[z])

    cdef void merge_domain(self, int z, int most) noexcept nogil:
        """The domain's frontier: the least cost of at least 0, 1, ... ``most`` seats."""
        cdef int i, g, k, b, best, source, W = self.W
        cdef i64 reach = 0
        cdef const i64* rows
        cdef vector[i64] now, then
        for i in range(<int>self.domain_group[z].size()):
            reach += self.whole_most[self.domain_group[z][i]]
        most = <int>min(<i64>most, reach)
        if most > self.demand:
            most = <int>self.demand
        now.assign((most + 1) * W, 0)
        then.assign((most + 1) * W, 0)
        for k in range(1, most + 1):
            never(&now[k * W], W)
        for i in range(<int>self.domain_group[z].size()):
            g = self.domain_group[z][i]
            rows = self.whole_rows[g]
            if late(&self.clock):
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
                self.work += min(k, self.whole_most[g])
            now.swap(then)
        while most > 0 and is_never(&now[most * W]):
            most -= 1
        self.domain_rows[z] = now
        self.slot_group.push_back(-1)
        self.slot_domain.push_back(z)
        self.pick.most.push_back(most)
        self.pick.rows.push_back(&self.domain_rows[z][0])

    cdef void part_domains(self) noexcept nogil:
        """From the domains' picks back to those of their groups."""
        cdef int s, z, i, k, g, width
        cdef vector[int] picks
        picks.assign(self.whole_most.size(), 0)
        for s in range(<int>self.pick.picks.size()):
            k = self.pick.picks[s]
            z = self.slot_domain[s]
            if z < 0:
                picks[self.slot_group[s]] = k
                continue
            width = <int>(self.domain_rows[z].size() // self.W)
            for i in range(<int>self.domain_group[z].size() - 1, -1, -1):
                g = self.domain_group[z][i]
                picks[g] = self.domain_choice[z][<i64>i * width + k]
                k -= picks[g]
        self.pick.picks = picks
        self.pick.most = self.whole_most
        self.pick.rows = self.whole_rows
