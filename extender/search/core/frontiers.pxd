from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.cover cimport Cover
from extender.search.core.effort cimport Effort
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced


cdef enum UnitState:
    KEPT                # not to be had: the unit, its gang or its coupler's value says so
    GONE                # through its coupler
    SELECTABLE          # the node's frontier may choose it

cdef enum GoneUnits:
    BY_COUPLERS         # the units that the couplers' values say are
    ALL_USABLE          # these, and all that the frontier may choose


cdef class Frontiers:
    cdef Space space
    cdef Relations relations
    cdef Effort effort
    cdef Traced traced
    cdef Columns c
    cdef i64 demand                              # seats missing
    cdef bint sharing                            # couplers are local, at parts of their price
    cdef vector[vector[int]] scope               # N: couplers of the node's table
    cdef vector[vector[i64]] table               # N: 2**scope * (most + 1) * W
    cdef vector[int] most                        # N: seats it can gain
    cdef vector[char] rough                      # N: a coupler is local, or a cover inexact
    cdef vector[int] relaxed_uses                # V: nodes where the coupler is local
    cdef vector[vector[int]] relaxed_vars
    cdef vector[i64] scratch, workspace, asked, node_room, item_amounts, item_costs
    cdef vector[int] item_unit

    cdef void lay_tables(self) noexcept nogil
    cdef void ask_for(self, i64 seats) noexcept nogil
    cdef void start_sharing(self) noexcept nogil
    cdef void stop_sharing(self) noexcept nogil
    cdef void mark_shared(self) noexcept nogil
    cdef bint usable(self, int u, int n) noexcept nogil
    cdef int gate_of(self, int u) noexcept nogil
    cdef int coupler_of(self, int u) noexcept nogil
    cdef void build(self, int n) noexcept nogil
    cdef void add_to_scope(self, vector[int]* scope, int v) noexcept nogil
    cdef int value_of(self, int n, int v, int bits) noexcept nogil
    cdef UnitState item_state(self, int n, int u, int bits) noexcept nogil
    cdef void fill_room(self, int n, int bits, GoneUnits gone) noexcept nogil
    cdef int must_wait(self, int n, int bits, GoneUnits gone) noexcept nogil
    cdef void collect(self, int n, int bits) noexcept nogil
    cdef bint blocks(self, int n, int u) noexcept nogil
    cdef void local_price(self, int n, int u, i64* into) noexcept nogil
    cdef void frontier(self, int n, int bits, int kmax, i64* rows) noexcept nogil
    cdef void start_node(self, int n, vector[i64]* whole) noexcept nogil
    cdef bint ask(self, const i64* amounts) noexcept nogil
    cdef void lay_node(self, int n, Cover* cover) noexcept nogil
    cdef void lay(self, Cover* cover) noexcept nogil
    cdef void force(self, int n, int bits, i64* paid) noexcept nogil
    cdef void take_on_node(self, int n, int bits, int k) noexcept nogil
    cdef void freeze_row(self, int n, int k) noexcept nogil
    cdef void mark(self, int n, int u) noexcept nogil
