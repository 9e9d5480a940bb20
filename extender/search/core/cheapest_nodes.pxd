from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64


cdef class CheapestNodes:
    cdef int C, L
    cdef i64 enough                           # nodes; 0: nothing is compared
    cdef vector[i64] strides                  # C; to number members
    cdef unordered_map[i64, int] places       # number -> its place in
    cdef vector[vector[i64]] costs            # at so many nodes at most, a heap: the dearest first

    cdef int place_of(self, const int* members) noexcept nogil
    cdef bint seat(self, int place, const i64* cost) noexcept nogil
    cdef bint seat_for_less(self, int place, const i64* cost) noexcept nogil
    cdef void add(self, int place, const i64* cost) noexcept nogil
