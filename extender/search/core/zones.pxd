from libcpp.vector cimport vector

from extender.search.core.elimination cimport Elimination
from extender.search.core.limbs cimport i64


cdef class Zones(Elimination):
    # what the knapsack's groups are made of while zones are full at some point
    cdef vector[int] whole_most, slot_group, slot_zone
    cdef vector[const i64*] whole_rows
    cdef vector[vector[int]] zone_group          # per zone: its groups
    cdef vector[vector[i64]] zone_rows           # per zone: one frontier for all of them
    cdef vector[vector[int]] zone_choice         # per zone: the row of each group, per seats

    cdef bint in_zones(self, vector[char]* units) noexcept nogil
    cdef bint between_zones(self, int v) noexcept nogil
    cdef void merge_zones(self) noexcept nogil
    cdef void merge_zone(self, int z, int most) noexcept nogil
    cdef void part_zones(self) noexcept nogil
