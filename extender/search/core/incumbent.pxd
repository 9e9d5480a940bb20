from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space


cdef class Incumbent:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Columns c
    cdef vector[char] best                       # U
    cdef vector[i64] best_cost                   # full
    cdef bint have_best                          # a cutoff counts as well
    cdef vector[i64] open_bound                  # full: least of what was left open
    cdef readonly bint unproved                  # something was left open
    cdef vector[char] other_best                 # the answer that was set aside
    cdef vector[i64] other_cost
    cdef bint have_other

    cdef void lay_incumbent(self) noexcept nogil
    cdef bint true_cost(self, vector[char]* chosen, i64* into) noexcept nogil
    cdef bint reduce(self, vector[char]* chosen) noexcept nogil
    cdef void by_price(self, vector[int]* units) noexcept nogil
    cdef void keep_if_better(self, vector[char]* mine) noexcept nogil
    cdef void keep(self, vector[char]* units, const i64* cost) noexcept nogil
    cdef bint cuts_off(self, const i64* bound) noexcept nogil
    cdef void set_aside(self) noexcept nogil
    cdef void take_better(self) noexcept nogil
    cdef void leave_open(self, const i64* bound) noexcept nogil
    cdef void close_beaten(self) noexcept nogil
    cdef void forget_open(self) noexcept nogil
