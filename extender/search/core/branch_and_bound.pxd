from extender.search.core.branching cimport Branching, Choice
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
from extender.search.core.restricted_master cimport RestrictedMaster
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced


cdef enum QuickWay:
    PUT_BACK             # everything, less what is not needed
    FILLED_UP            # from nothing, within the firm budgets


cdef class BranchAndBound:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Traced traced
    cdef Frontiers frontiers
    cdef Elimination elimination
    cdef DomainLimits domains
    cdef Incumbent incumbent
    cdef Relaxation relaxation
    cdef Pricing pricing
    cdef Branching branching
    cdef CouplingRows coupling
    cdef RestrictedMaster master
    cdef ColumnGeneration generation
    cdef Lexicographic lexicographic
    cdef LocalSearch local_search
    cdef Columns c
    cdef bint first_tried, first_found           # the quick ways to an answer, in this search

    cdef void explore_root(self) noexcept nogil
    cdef void explore(self, const i64* inherited) noexcept nogil
    cdef bint settle(self, const i64* inherited, i64* bound) noexcept nogil
    cdef void halt(self, const i64* bound) noexcept nogil
    cdef bint close_root(self, i64* bound) noexcept nogil
    cdef bint offer_plainly(self) noexcept nogil
    cdef void offer_first(self) noexcept nogil
    cdef void offer_alone(self, QuickWay way) noexcept nogil
    cdef bint freeze(self) noexcept nogil
    cdef bint apart(self, int n) noexcept nogil
    cdef bint alone(self, int u) noexcept nogil
    cdef void split(self, const i64* bound) noexcept nogil
    cdef void decide(self, Choice choice, int state) noexcept nogil
