from libcpp.vector cimport vector

from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space


cdef class Traced:
    cdef Space space
    cdef Relations relations
    cdef vector[char] chosen                     # U: taken somewhere
    cdef vector[char] frozen                     # U: OPEN; OUT or IN for good, by reduced cost
    cdef vector[char] seen_one, seen_zero        # V: values traced
    cdef vector[char] taken                      # per touch: chosen there (shares only)

    cdef void lay(self) noexcept nogil
    cdef void forget(self) noexcept nogil
    cdef void forget_units(self) noexcept nogil
    cdef void see(self, int v, bint value) noexcept nogil
    cdef void take(self, int u) noexcept nogil
    cdef void take_share(self, int u, int n) noexcept nogil
    cdef void take_decided(self) noexcept nogil
    cdef void freeze(self, int u) noexcept nogil
