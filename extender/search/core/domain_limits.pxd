from libcpp.vector cimport vector

from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space


cdef class DomainLimits:
    cdef Space space
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Elimination elimination
    # what the knapsack's groups are made of while domains are full at some point
    cdef vector[int] whole_most, slot_group, slot_domain
    cdef vector[const i64*] whole_rows
    cdef vector[vector[int]] domain_group          # per domain: its groups
    cdef vector[vector[i64]] domain_rows           # per domain: one frontier for all of them
    cdef vector[vector[int]] domain_choice         # per domain: the row of each group, per seats

    cdef bint in_domains(self, vector[char]* units) noexcept nogil
    cdef bint between_domains(self, int v) noexcept nogil
    cdef bint leaves_domain(self, int u, int* first) noexcept nogil
    cdef void merge_domains(self) noexcept nogil
    cdef void merge_domain(self, int z, int most) noexcept nogil
    cdef void part_domains(self) noexcept nogil
