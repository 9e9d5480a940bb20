from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.packed_cost cimport i64


cdef class Space:
    cdef Columns c
    cdef int R, N, U, G, V                       # resources, nodes, units, gangs, U + G
    cdef int first_level                         # less important levels are the ones paid
    cdef i64 need
    cdef readonly bint possible, settled_free
    cdef vector[char] status                     # V: units, then gangs: OPEN, IN or OUT
    cdef vector[char] is_free                    # U: never costs anything
    cdef vector[char] unbreakable                # G: breaking it would pay a dropped level
    cdef vector[char] firm                       # budgets: must not be exceeded
    cdef vector[int] surplus, allowed_pods       # what the gone units leave of them
    cdef vector[i64] room0, avail                # N*R: with the gone units; with IN units too
    cdef vector[int] waiting0, waiting           # N: blockers still there, likewise
    cdef vector[int] limit                       # N: members at most, room aside
    cdef vector[int] domain, domain_limit            # N: domain or -1; per domain: members at most

    cdef i64 slots(self, int n, const i64* room, int waiting) noexcept nogil
    cdef i64 seats_on(self, int n, vector[i64]* room, vector[int]* waiting) noexcept nogil
    cdef void move(self, int unit, int sign, vector[i64]* room, vector[int]* waiting) noexcept nogil
    cdef void decide(self, int v, int state) noexcept nogil
    cdef void decide_unit(self, int u, int state) noexcept nogil
    cdef void allow(self, int n, int most) noexcept nogil
    cdef i64 total(self, vector[i64]* room, vector[int]* waiting) noexcept nogil
    cdef void open_room(self) noexcept nogil
    cdef int top_level(self, int u) noexcept nogil
    cdef void drop_dear_levels(self) noexcept nogil
