from libcpp.vector cimport vector

from extender.search.core.column_generation cimport ColumnGeneration
from extender.search.core.columns cimport Columns
from extender.search.core.coupling_rows cimport CouplingRows
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.incumbent cimport Incumbent
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.restricted_master cimport Measured, RestrictedMaster
from extender.search.core.space cimport Space

cdef enum StageStatus:
    BEATEN           # nothing below the best answer here
    SOLVED           # the program lies at its bound at every stage
    STUCK            # at one stage it does not
    OVER             # no answer while the earlier stages are held where they are

cdef enum Start:
    ANEW             # no stage is held yet, there are no columns
    FROM_ABOVE       # the program is that of the branch above


cdef class Lexicographic:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Elimination elimination
    cdef Incumbent incumbent
    cdef Relaxation relaxation
    cdef CouplingRows coupling
    cdef RestrictedMaster master
    cdef ColumnGeneration generation
    cdef Columns c
    cdef vector[double] share                    # U: how much of it the program takes
    cdef bint complete                           # rows hold every stage but the last
    cdef bint stalled                            # a branch could not be taken apart

    cdef bint staged(self, const i64* bound) noexcept nogil
    cdef i64 field(self, i64* rest, int level) noexcept nogil
    cdef void clear_floor(self, vector[i64]* floor, int stage) noexcept nogil
    cdef bint beaten(self, vector[i64]* floor, int stage) noexcept nogil
    cdef void leave_stages(self, vector[i64]* floor) noexcept nogil
    cdef StageStatus raise_floor(self, int stage, vector[i64]* floor) noexcept nogil
    cdef StageStatus solve_stages(self, vector[i64]* floor, Start start) noexcept nogil
    cdef bint at_floor(self, Measured found, int stage, const vector[i64]* floor) noexcept nogil
    cdef void offer_shares(self) noexcept nogil
    cdef int divided_unit(self) noexcept nogil
    cdef int broken_row(self) noexcept nogil
    cdef void settle_unit(self, int u, int state, int before) noexcept nogil
    cdef void branch(self, vector[i64]* inherited, Start start) noexcept nogil
