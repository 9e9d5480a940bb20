from extender.search.core.answers cimport Answers
from extender.search.core.packed_cost cimport i64


cdef class Pricing(Answers):
    cdef bint tune(self, i64* bound) noexcept nogil
    cdef bint share_out(self, i64* bound) noexcept nogil
    cdef void set_sharing(self, bint on) noexcept nogil
    cdef bint improve_shares(self, i64* bound, int steps, bint root) noexcept nogil
    cdef bint few_couplers(self) noexcept nogil
    cdef bint settle_exactly(self, i64* bound) noexcept nogil
