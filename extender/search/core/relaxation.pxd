from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.domain_limits cimport DomainLimits
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.incumbent cimport Incumbent
from extender.search.core.levels cimport Levels
from extender.search.core.mckp cimport MckpStatus
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced


cdef class Relaxation:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Traced traced
    cdef Elimination elimination
    cdef DomainLimits domains
    cdef Incumbent incumbent
    cdef Columns c
    cdef vector[i64] base                        # W: what the decisions cost
    cdef vector[i64] raw                         # W: the last bound before rounding
    cdef vector[i64] frozen_cost                 # W: what the frozen nodes' rows cost,
    cdef i64 frozen_seats                        # and the seats that they give
    cdef i64 widest_demand                       # frontiers reach so far

    cdef void lay_relaxation(self) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void count_demand(self) noexcept nogil
    cdef void base_cost(self) noexcept nogil
    cdef i64 missing(self) noexcept nogil
    cdef void mark_too_short(self) noexcept nogil
    cdef MckpStatus relax(self, i64* value, i64* bound) noexcept nogil
    cdef void offer(self) noexcept nogil
    cdef void offer_greedy(self) noexcept nogil
    cdef bint attained(self, MckpStatus status, const i64* value) noexcept nogil
    cdef void freeze(self, int n, int k) noexcept nogil
    cdef void count_budgets(self, vector[int]* used) noexcept nogil
    cdef bint exceeded(self) noexcept nogil
