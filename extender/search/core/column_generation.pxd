from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.coupling_rows cimport CouplingRows
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.levels cimport Levels
from extender.search.core.lp.master cimport Master
from extender.search.core.mckp cimport Outcome
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.space cimport Space


cdef class ColumnGeneration:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Elimination elimination
    cdef Relaxation relaxation
    cdef CouplingRows coupling
    cdef Columns c
    cdef Master lp
    cdef int fraction, stage_now                 # bits behind the point; what is made small
    cdef vector[i64] level_price                 # stages: price of one unit of cost now
    cdef vector[i64] row_price                   # coupling rows: price of one pod now
    cdef vector[int] row_column                  # coupling rows: the column of what is too much, -1
    cdef vector[int] held_first, held_unit       # per column from ``columns`` on: its units
    cdef int columns                             # first column with units
    cdef vector[vector[int]] columns_of          # per part
    cdef vector[int] against                     # per column: decisions that it breaks
    cdef double scale, most_price
    cdef vector[double] mass                     # rows: work space
    cdef vector[int] stamp                       # N: work space
    cdef int stamps

    cdef void lay_program(self) noexcept nogil
    cdef double row_limit(self, int t) noexcept nogil
    cdef void settle_row(self, int t, int state) noexcept nogil
    cdef void aim(self, int stage) noexcept nogil
    cdef double cost_at(self, int column, int row) noexcept nogil
    cdef int taken_at(self, int p, double* v) noexcept nogil
    cdef double measure(self, double* missing) noexcept nogil
    cdef bint add_rows(self) noexcept nogil
    cdef void take_prices(self, int stage) noexcept nogil
    cdef Outcome ask(self, vector[i64]* floor, i64* bound, vector[i64]* paid) noexcept nogil
    cdef int gather(self, vector[i64]* paid, i64 seat_price) noexcept nogil
    cdef void parts_of_groups(self, vector[int]* into) noexcept nogil
    cdef int make_columns(self, vector[i64]* total, i64 seat_price, bint every) noexcept nogil
    cdef bint grow(self, int part, vector[int]* units) noexcept nogil
    cdef i64 seats_with(self, vector[int]* units) noexcept nogil
    cdef void weigh(self, int v, vector[int]* rows) noexcept nogil
    cdef void seed(self, vector[i64]* floor) noexcept nogil
