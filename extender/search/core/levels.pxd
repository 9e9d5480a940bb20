from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.packed_cost cimport i64
from extender.search.core.space cimport Space


cdef class Levels:
    cdef Space space
    cdef Columns c
    cdef int full                                # limbs of a true cost
    cdef vector[int] level_limb, level_shift     # L: where a level lies, -1 = never paid
    cdef vector[i64] level_most                  # L: the most that can be paid there
    cdef vector[i64] extra                       # W: what every answer pays
    cdef int extra_level                         # and at which level, -1

    cdef void pay(self, i64* into, int level, i64 amount) noexcept nogil
    cdef list unpack(self, const i64* value)
    cdef void raise_fields(self, i64* value) noexcept nogil
    cdef void clear_after(self, i64* value, int limb) noexcept nogil
    cdef bint nothing(self, const i64* value) noexcept nogil
