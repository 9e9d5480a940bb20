from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space


cdef class CouplingRows:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Columns c
    cdef int stages, parts, row_count
    cdef vector[int] stage_level, level_stage    # stage -> level; level -> stage or -1
    cdef vector[i64] fixed                       # stages: what every answer costs
    cdef vector[int] owes_first, owes_stage      # V: what a unit costs, or a gang's break
    cdef vector[i64] owes
    cdef vector[int] row_allowed, row_divide
    cdef vector[int] row_gang                    # -1: a budget
    cdef vector[char] row_state                  # OPEN; IN: paid for; OUT: firm
    cdef vector[int] over_first, over_stage      # per row: what one too many costs at least,
    cdef vector[i64] over                        # divided by row_divide
    cdef vector[i64] row_load                    # per row: pods in all
    cdef vector[int] uses_first, uses_row, uses_pods   # per unit: the rows it counts in
    cdef vector[int] part_of, unit_part          # N, V: the part, -1
    cdef vector[i64] root_room                   # N*R, and below N: as the decisions began
    cdef vector[int] root_slots, root_waiting
    cdef vector[int] stamp                       # N: work space
    cdef int stamps

    cdef bint lay_stages(self) noexcept nogil
    cdef void add_row(self, int gang, int allowed, int divide, bint firm) noexcept nogil
    cdef void lay_rows(self) noexcept nogil
    cdef int pods_in(self, int u, int b) noexcept nogil
    cdef int root_of(self, vector[int]* above, int v) noexcept nogil
    cdef void lay_parts(self) noexcept nogil
    cdef void settle(self, int t, int state) noexcept nogil
    cdef i64 seats_with(self, vector[int]* units) noexcept nogil
