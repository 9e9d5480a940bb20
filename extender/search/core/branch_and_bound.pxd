from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64
from extender.search.core.local_search cimport LocalSearch


cdef class BranchAndBound(LocalSearch):
    cdef bint first_tried, first_found           # the quick ways to an answer, in this search

    cdef void explore(self, const i64* inherited, bint root) noexcept nogil
    cdef bint offer_plainly(self) noexcept nogil
    cdef void offer_first(self) noexcept nogil
    cdef void offer_alone(self, bint within) noexcept nogil
    cdef bint freeze(self) noexcept nogil
    cdef bint alone(self, int u) noexcept nogil
    cdef void split(self, const i64* bound) noexcept nogil
    cdef void decide(self, int kind, int index, int state) noexcept nogil
    cdef int choose_branch(self, int* kind, int* first) noexcept nogil
    cdef bint spanning_member(self, int g) noexcept nogil
    cdef int cheapest(self, int b) noexcept nogil
    cdef int dearest(self, vector[int]* units, int start, int end) noexcept nogil
