from libcpp.vector cimport vector

from extender.search.core.effort cimport Effort
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.mckp cimport Mckp
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space


cdef class Elimination:
    cdef Space space
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    # factors: scope, table, seats at most; the node it is of, -1
    cdef vector[vector[int]] f_scope
    cdef vector[vector[i64]] f_table
    cdef vector[int] f_most, f_leaf, f_want, f_bits
    cdef vector[char] f_dead
    # records of eliminated couplers, to go back by
    cdef vector[vector[int]] r_inputs
    cdef vector[int] r_var, r_output
    cdef vector[vector[i64]] r_cost
    # groups of the knapsack: the factor or the node behind each
    cdef vector[int] group_factor, group_node
    cdef vector[vector[int]] v_factors
    cdef Mckp pick
    cdef bint was_split

    cdef void forget_groups(self) noexcept nogil
    cdef bint eliminate(self) noexcept nogil
    cdef int width_of(self, int v) noexcept nogil
    cdef void eliminate_one(self, int v) noexcept nogil
    cdef void join_scope(self, vector[int]* a, vector[int]* b, vector[int]* into) noexcept nogil
    cdef int project(self, vector[int]* scope, int bits, vector[int]* onto) noexcept nogil
    cdef void minimise(self, int v, vector[int]* bucket, vector[int]* joined, int most, vector[i64]* cost) noexcept nogil
    cdef void add_up(self, vector[int]* bucket, vector[int]* joined, int full, int parts, int most, vector[i64]* into) noexcept nogil
    cdef void trace(self) noexcept nogil
    cdef void trace_record(self, int r) noexcept nogil
