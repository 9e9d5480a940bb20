from libcpp.vector cimport vector

from extender.search.core.clock cimport Clock
from extender.search.core.packed_cost cimport i64

cdef enum:
    OUTSIDE = -1
    KEY = -2

cdef struct Taken:
    int column
    double part              # of the column, that the answer takes


cdef class Basis:
    cdef int rows, m, groups                     # rows in all; rows that count now; groups
    cdef vector[int] sign                        # rows: 1 at most, -1 at least
    cdef vector[double] limit                    # rows
    cdef vector[int] at, row_at                  # row -> position or -1; position -> row
    cdef vector[int] group                       # per column, -1 for a row's own two
    cdef vector[int] first, entry_row            # per column: its entries
    cdef vector[double] entry, cost
    cdef vector[char] barred                     # per column: may not enter
    cdef vector[int] place, basic, key           # column -> position; position, group -> column
    cdef vector[double] x, key_x                 # values of basic and key columns
    cdef vector[double] inverse                  # m * m, column by column
    cdef vector[double] y, alpha, rate           # prices of positions; work space
    cdef vector[int] sigma_step, touched
    cdef vector[double] sigma
    cdef int step, since
    cdef i64 work
    cdef Clock* clock

    cdef void start(self, int rows, int groups, Clock* clock) noexcept nogil
    cdef void at_least(self, int row) noexcept nogil
    cdef int add(self, int group, const int* rows, const double* values, int count) noexcept nogil
    cdef void set_cost(self, int column, double cost) noexcept nogil
    cdef void bar(self, int column, bint barred) noexcept nogil
    cdef bint counts(self, int row) noexcept nogil
    cdef int taken_count(self) noexcept nogil
    cdef Taken taken(self, int p) noexcept nogil
    cdef double entry_of(self, int column, int row) noexcept nogil
    cdef i64 take_work(self) noexcept nogil
    cdef void restart(self) noexcept nogil
    cdef void activate(self, int row, double limit) noexcept nogil
    cdef void set_limit(self, int row, double limit) noexcept nogil
    cdef double price_of(self, int row) noexcept nogil
    cdef double price_of_group(self, int g) noexcept nogil
    cdef double unit_entry(self, int column) noexcept nogil
    cdef void refactor(self) noexcept nogil
    cdef void pivot(self, int r) noexcept nogil
    cdef void evaluate(self) noexcept nogil
    cdef void price_out(self) noexcept nogil
    cdef bint mend(self) noexcept nogil
    cdef void spread(self, int column) noexcept nogil
    cdef double reduced(self, int column) noexcept nogil
