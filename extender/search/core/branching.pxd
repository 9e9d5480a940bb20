from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.domain_limits cimport DomainLimits
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.levels cimport Levels
from extender.search.core.relations cimport Relations
from extender.search.core.relaxation cimport Relaxation
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced

cdef enum Kind:
    NOTHING             # nothing can be decided: the branch stays open
    CONTRADICTION       # what is decided exceeds what is allowed here: the branch is closed
    UNIT                # whether a unit goes
    GANG                # whether a gang breaks
    BUDGET              # whether a budget may be exceeded, and is paid for
    PRICE               # nothing: the budget's units are decided, its price only blurs the bound

cdef struct Choice:
    Kind kind
    int index           # of the unit, gang or budget
    int first           # IN or OUT: the branch that is looked at first


cdef class Branching:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Frontiers frontiers
    cdef Traced traced
    cdef DomainLimits domains
    cdef Relaxation relaxation
    cdef Columns c

    cdef Choice choose(self) noexcept nogil
    cdef Choice exceeded_gang(self) noexcept nogil
    cdef Choice exceeded_budget(self, vector[int]* used) noexcept nogil
    cdef Choice needless_price(self, vector[int]* used) noexcept nogil
    cdef Choice torn_coupler(self) noexcept nogil
    cdef Choice coupler_between_domains(self) noexcept nogil
    cdef Choice unit_of_rough_node(self) noexcept nogil
    cdef bint spanning_member(self, int g) noexcept nogil
    cdef int cheapest(self, int b) noexcept nogil
    cdef int dearest(self, vector[int]* units, int start, int end) noexcept nogil
