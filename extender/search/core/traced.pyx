# distutils: language = c++
"""The relaxed answer, traced back: units that it takes, values that its couplers have.

A unit may be taken on some of its nodes only, and a coupler have both values: that is what
branches decide. Frozen units are settled for good, whatever a relaxation takes.
"""

from libcpp.vector cimport vector

from extender.search.core.states cimport IN, OPEN, OUT


cdef class Traced:
    """What the last relaxation takes, and what every better answer takes or keeps."""

    def __init__(self, Space space, Relations relations):
        """The parts it works on."""
        self.space = space
        self.relations = relations

    cdef void lay(self) noexcept nogil:
        """Nothing traced, nothing frozen."""
        self.frozen.assign(self.space.U, OPEN)

    cdef void forget(self) noexcept nogil:
        """No unit is traced, no coupler has a value."""
        self.forget_units()
        self.seen_one.assign(self.space.V, 0)
        self.seen_zero.assign(self.space.V, 0)
        self.taken.assign(self.relations.touch_node.size(), 0)

    cdef void forget_units(self) noexcept nogil:
        """No unit is traced."""
        self.chosen.assign(self.space.U, 0)

    cdef void see(self, int v, bint value) noexcept nogil:
        """A coupler has this value on some node."""
        if not value:
            self.seen_zero[v] = 1
            return
        self.seen_one[v] = 1
        if v < self.space.U:
            self.chosen[v] = 1

    cdef void take(self, int u) noexcept nogil:
        """A node's row takes the unit."""
        self.chosen[u] = 1
        self.seen_one[u] = 1

    cdef void take_share(self, int u, int n) noexcept nogil:
        """Node n's row takes the unit, at that node's part of its price."""
        cdef int e = self.relations.touch_first[u]
        self.take(u)
        while self.relations.touch_node[e] != n:
            e += 1
        self.taken[e] = 1

    cdef void take_decided(self) noexcept nogil:
        """Add the decided and the frozen units to the traced ones."""
        cdef int u
        for u in range(self.space.U):
            if self.space.status[u] == IN or self.frozen[u] == IN:
                self.chosen[u] = 1

    cdef void freeze(self, int u) noexcept nogil:
        """Settle an undecided unit for good, as it is traced."""
        if not self.space.is_free[u] and self.space.status[u] == OPEN:
            self.frozen[u] = IN if self.chosen[u] else OUT
