from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.coupling_rows cimport CouplingRows
from extender.search.core.effort cimport Effort
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.levels cimport Levels
from extender.search.core.lp.master cimport Master
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.space cimport Space

cdef struct Measured:
    double cost              # of the program's answer, at its stage
    double missing           # how much of it is not allowed


cdef class RestrictedMaster:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Relaxation relaxation
    cdef CouplingRows coupling
    cdef Columns c
    cdef Master lp
    cdef vector[int] row_column                  # coupling rows: the column of what is too much, -1
    cdef vector[int] held_first, held_unit       # per column from ``columns`` on: its units
    cdef int columns                             # first column with units
    cdef vector[vector[int]] columns_of          # per part
    cdef vector[int] against                     # per column: decisions that it breaks
    cdef double scale, most_price
    cdef vector[double] mass                     # rows: work space

    cdef void lay(self) noexcept nogil
    cdef int row_of(self, int t) noexcept nogil
    cdef double row_limit(self, int t) noexcept nogil
    cdef void aim(self, int stage) noexcept nogil
    cdef bint solve(self, int pivots) noexcept nogil
    cdef Measured measure(self) noexcept nogil
    cdef bint add_rows(self) noexcept nogil
    cdef int rows_counting(self) noexcept nogil
    cdef void hold(self, int stage, i64 amount) noexcept nogil
    cdef double held_at(self, int stage, i64 amount) noexcept nogil
    cdef void settle_row(self, int t, int state) noexcept nogil
    cdef void settle_unit(self, int u, int state, int before) noexcept nogil
    cdef double price_of_seat(self) noexcept nogil
    cdef double price_of_stage(self, int stage) noexcept nogil
    cdef double price_of_row(self, int t) noexcept nogil
    cdef double price_of_part(self, int p) noexcept nogil
    cdef bint row_counts(self, int t) noexcept nogil
    cdef void shares(self, vector[double]* into) noexcept nogil
    cdef bint has_column(self, int part, vector[int]* units) noexcept nogil
    cdef bint grow(self, int part, vector[int]* units, int stage) noexcept nogil
    cdef void weigh(self, int v, vector[int]* rows) noexcept nogil
