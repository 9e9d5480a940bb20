from extender.search.core.clock cimport Clock
from extender.search.core.packed_cost cimport i64


cdef class Effort:
    cdef Clock clock                             # when the search ends early
    cdef i64 work                                # elementary steps so far
    cdef i64 branches, branch_limit              # relaxations so far, and at most
    cdef bint halted                             # a branch was left for want of time

    cdef bint out_of_time(self) noexcept nogil
