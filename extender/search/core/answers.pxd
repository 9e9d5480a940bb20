from libcpp.vector cimport vector

from extender.search.core.mckp cimport Outcome
from extender.search.core.packed_cost cimport i64
from extender.search.core.domain_limits cimport DomainLimits


cdef class Answers(DomainLimits):
    cdef vector[i64] base                        # W: what the decisions cost
    cdef vector[i64] raw                         # W: the last bound before rounding
    cdef vector[i64] best_cost, open_bound, frozen_cost
    cdef vector[char] best                       # U
    cdef bint have_best, halted, unproved
    cdef i64 frozen_seats, widest_demand, branches, branch_limit

    cdef void lay_answers(self) noexcept nogil
    cdef bint out_of_time(self) noexcept nogil
    cdef void base_cost(self) noexcept nogil
    cdef i64 missing(self) noexcept nogil
    cdef void mark_too_short(self) noexcept nogil
    cdef Outcome relax(self, i64* value, i64* bound) noexcept nogil
    cdef void true_cost(self, vector[char]* chosen, i64* into, bint* allowed) noexcept nogil
    cdef bint reduce(self, vector[char]* chosen) noexcept nogil
    cdef void by_price(self, vector[int]* units) noexcept nogil
    cdef void offer(self) noexcept nogil
    cdef void offer_greedy(self) noexcept nogil
    cdef void keep_if_better(self, vector[char]* mine) noexcept nogil
    cdef void all_chosen(self) noexcept nogil
    cdef void count_budgets(self, vector[int]* used) noexcept nogil
    cdef bint exceeded(self) noexcept nogil
