from libcpp.vector cimport vector

from extender.search.core.effort cimport Effort
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.mckp cimport Mckp, MckpStatus
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced


cdef class Elimination:
    cdef Space space
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Traced traced
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
    cdef Mckp pick                               # the knapsack of what is left
    cdef bint was_split

    cdef void forget_groups(self) noexcept nogil
    cdef void forget_rows(self) noexcept nogil
    cdef void add_rows(self, int most, const i64* rows) noexcept nogil
    cdef void set_rows(self, const vector[int]* most, const vector[const i64*]* rows) noexcept nogil
    cdef void start_knapsack(self, i64 most_states) noexcept nogil
    cdef MckpStatus solve_knapsack(self, const i64* cutoff) noexcept nogil
    cdef void settle_knapsack(self, const i64* cutoff, vector[int]* settled) noexcept nogil
    cdef void set_picks(self, vector[int]* picks) noexcept nogil
    cdef bint eliminate(self) noexcept nogil
    cdef int width_of(self, int v) noexcept nogil
    cdef void eliminate_one(self, int v) noexcept nogil
    cdef void join_scope(self, vector[int]* a, vector[int]* b, vector[int]* into) noexcept nogil
    cdef int project(self, vector[int]* scope, int bits, vector[int]* onto) noexcept nogil
    cdef void minimise(self, int v, vector[int]* bucket, vector[int]* joined, int most, vector[i64]* cost) noexcept nogil
    cdef void add_up(self, vector[int]* bucket, vector[int]* joined, int full, int parts, int most, vector[i64]* into) noexcept nogil
    cdef void trace(self) noexcept nogil
    cdef void trace_record(self, int r) noexcept nogil
