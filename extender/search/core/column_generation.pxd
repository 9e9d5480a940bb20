from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.coupling_rows cimport CouplingRows
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.levels cimport Levels
from extender.search.core.mckp cimport MckpStatus
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.restricted_master cimport RestrictedMaster
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced

cdef struct StageBound:
    MckpStatus status        # as mckp_solve
    i64 bound                # of the stage, ``fraction`` bits too fine


cdef class ColumnGeneration:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Frontiers frontiers
    cdef Traced traced
    cdef Elimination elimination
    cdef Relaxation relaxation
    cdef CouplingRows coupling
    cdef RestrictedMaster master
    cdef Columns c
    cdef int fraction, stage                     # bits behind the point; what is made small
    cdef vector[i64] level_price                 # stages: price of one unit of cost now
    cdef vector[i64] row_price                   # coupling rows: price of one pod now
    cdef vector[i64] paid                        # parts: what the decisions cost at these prices

    cdef void take_prices(self, int stage) noexcept nogil
    cdef StageBound ask(self, const vector[i64]* floor) noexcept nogil
    cdef int gather(self) noexcept nogil
    cdef void parts_of_groups(self, vector[int]* into) noexcept nogil
    cdef int make_columns(self) noexcept nogil
    cdef int make_paying_columns(self, const vector[i64]* total, i64 seat_price) noexcept nogil
    cdef void units_of_parts(self, vector[vector[int]]* into) noexcept nogil
    cdef void seed(self, const vector[i64]* floor) noexcept nogil
