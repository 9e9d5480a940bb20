from libcpp.vector cimport vector

from extender.search.core.column_generation cimport ColumnGeneration
from extender.search.core.columns cimport Columns
from extender.search.core.coupling_rows cimport CouplingRows
from extender.search.core.domain_limits cimport DomainLimits
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.incumbent cimport Incumbent
from extender.search.core.levels cimport Levels
from extender.search.core.lexicographic cimport Lexicographic
from extender.search.core.local_search cimport LocalSearch
from extender.search.core.packed_cost cimport i64
from extender.search.core.pricing cimport Pricing
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.space cimport Space


cdef class BranchAndBound:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Elimination elimination
    cdef DomainLimits domains
    cdef Incumbent incumbent
    cdef Relaxation relaxation
    cdef Pricing pricing
    cdef CouplingRows coupling
    cdef ColumnGeneration program
    cdef Lexicographic lexicographic
    cdef LocalSearch local_search
    cdef Columns c
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
