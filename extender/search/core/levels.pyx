# distutils: language = c++
"""Cost levels packed into limbs (see packed_cost.pxd), and read back from them."""

from libcpp.vector cimport vector

from extender.search.core.columns import Doubtful
from extender.search.core.packed_cost cimport MOST_LIMBS, i64, order, put, wide
from extender.search.core.states cimport OUT


cdef class Levels:
    """Where each cost level of a region lies in a packed cost."""

    def __init__(self, Space space):
        """The parts it works on."""
        self.space = space
        self.c = space.c

    def pack_levels(self, int extra_level):
        """Give every level that can be paid a field in a limb."""
        cdef int u, i, level, limb = -1, room = 0, bits
        cdef vector[i64] totals
        totals.assign(self.c.levels, 0)
        for u in range(self.space.U):
            if self.space.status[u] != OUT:
                for i in range(self.c.cost_first[u], self.c.cost_first[u + 1]):
                    totals[self.c.cost_level[i]] += self.c.cost_amount[i]
                for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
                    if not self.space.firm[self.c.use_budget[i]]:
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
            if totals[level] and (level >= self.space.first_level or level == extra_level):
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
        self.full = max(1, len(limbs))
        self.extra_level = extra_level
        self.extra.assign(self.full, 0)
        if extra_level >= 0:
            self.pay(&self.extra[0], extra_level, 1)

    cdef void pay(self, i64* into, int level, i64 amount) noexcept nogil:
        if self.level_limb[level] >= 0:
            into[self.level_limb[level]] += amount << self.level_shift[level]

    cdef list unpack(self, const i64* value):
        """The (L,) levels of a packed, non-negative cost."""
        levels = [0] * self.c.levels
        rest = [value[i] for i in range(self.full)]
        for level in range(self.c.levels):
            if self.level_limb[level] >= 0:
                limb = self.level_limb[level]
                levels[level] = max(0, rest[limb]) >> self.level_shift[level]
                rest[limb] -= levels[level] << self.level_shift[level]
        return levels

    def pack(self, levels):
        """A cost of other origin as limbs, or None when every answer here lies below it.

        A level that costs nothing here, or less than asked, decides the order:
        the next packed level is then put just beyond its field.
        """
        cdef int level, last = -1
        cdef vector[i64] into
        cdef bint beyond = False
        into.assign(self.full, 0)
        for level in range(self.c.levels):
            if self.level_limb[level] < 0:
                beyond = beyond or levels[level] > 0
            elif beyond or levels[level] > self.level_most[level]:
                self.pay(&into[0], level, self.level_most[level] + 1)
                return [into[i] for i in range(self.full)]
            else:
                self.pay(&into[0], level, levels[level])
                last = level
        if beyond:
            if last < 0:
                return None
            self.pay(&into[0], last, 1)
        return [into[i] for i in range(self.full)]

    cdef void raise_fields(self, i64* value) noexcept nogil:
        """Round a lower bound up to what whole fields can show.

        Fractions of an important level spill into less important fields; where
        these hold more than can ever be paid there, the important one must be
        at least one higher.
        """
        cdef int level, limb, last = -1
        cdef i64 low, most_low = 0, unit
        cdef bint beyond
        for limb in range(self.full):
            if value[limb] < 0:
                value[limb] = 0
                self.clear_after(value, limb)
                break
        for limb in range(self.full - 1, -1, -1):
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
        for i in range(limb + 1, self.full):
            value[i] = 0

    cdef bint nothing(self, const i64* value) noexcept nogil:
        cdef int i
        for i in range(self.full):
            if value[i]:
                return False
        return True
