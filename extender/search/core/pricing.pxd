from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.incumbent cimport Incumbent
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced


cdef enum Depth:
    AT_ROOT                  # steps become shorter, and the best division found is kept
    BELOW_ROOT               # short steps from where the branch above left off


cdef cppclass Brackets:
    vector[char] open_       # budgets whose price is looked for
    vector[i64] low          # a price at which too many pods are taken, and
    vector[i64] high         # one at which they are not, or the highest there may be


cdef class Pricing:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Traced traced
    cdef Elimination elimination
    cdef Incumbent incumbent
    cdef Relaxation relaxation
    cdef Columns c

    cdef bint tune(self, i64* bound) noexcept nogil
    cdef bint open_brackets(self, Brackets* brackets) noexcept nogil
    cdef void price_between(self, const Brackets* brackets) noexcept nogil
    cdef bint narrow(self, Brackets* brackets) noexcept nogil
    cdef bint share_out(self, i64* bound) noexcept nogil
    cdef bint improve_shares(self, i64* bound, int steps, Depth depth) noexcept nogil
    cdef bint few_couplers(self) noexcept nogil
    cdef bint settle_exactly(self, i64* bound) noexcept nogil
