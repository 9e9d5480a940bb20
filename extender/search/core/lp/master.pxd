from extender.search.core.clock cimport Clock
from extender.search.core.lp.basis cimport Basis


cdef class Master(Basis):
    cdef int scan                                # where the next section begins

    cdef void start(self, int rows, int groups, Clock* clock) noexcept nogil
    cdef bint solve(self, int pivots) noexcept nogil
    cdef int entering(self) noexcept nogil
    cdef bint enter(self, int column) noexcept nogil
    cdef void replace_key(self, int h, int p, double by) noexcept nogil
