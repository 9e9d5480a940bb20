from extender.search.core.clock cimport Clock
from extender.search.core.packed_cost cimport i64


cdef class Effort:
    cdef Clock clock                             # when the search ends early
    cdef i64 work                                # elementary steps so far
    cdef readonly i64 branches                   # relaxations so far,
    cdef i64 branch_limit                        # and at most
    cdef bint halted                             # a branch was left for want of time

    cdef void count(self, i64 steps) noexcept nogil
    cdef void count_branch(self) noexcept nogil
    cdef void halt(self) noexcept nogil
    cdef bint late(self) noexcept nogil
    cdef bint out_of_time(self) noexcept nogil
