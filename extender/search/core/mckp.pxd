from libcpp.vector cimport vector

from extender.search.core.clock cimport Clock
from extender.search.core.packed_cost cimport i64

cdef enum MckpStatus:
    IMPOSSIBLE = 0   # the groups together do not reach the demand
    EXACT = 1        # picks are the optimum, bound is its value
    CUT = 2          # nothing lies below the cutoff
    GAP = 3          # picks are an answer, bound is a lower bound
    LATE = 4         # the time was up: nothing is known

cdef enum:
    ANY_ROW = -1     # a group of which several rows may be part of a better answer
    NO_ROW = -2      # a group of which none may: nothing lies below the cutoff

cdef struct FrontierStep:
    int group
    int seats
    const i64* base          # frontier row where the step starts
    const i64* top           # frontier row where it ends

cdef cppclass Mckp:
    int w
    i64 demand
    vector[int] most         # per group: seats at most
    vector[const i64*] rows  # per group: (most + 1) * w, never falling, row 0 is zero
    vector[int] picks        # per group: seats
    vector[i64] value        # w: cost of picks
    vector[i64] bound        # w
    vector[FrontierStep] steps
    vector[i64] rate         # steps * w: cost of each step
    vector[int] order_
    vector[int] scratch
    vector[int] base_pick    # per group: seats before the break step
    i64 work
    i64 most_states
    Clock* clock
    int breaking             # index into order_, -1 when the relaxation is integral
    i64 rest                 # seats still missing before the break step

cdef MckpStatus mckp_solve(Mckp* c, const i64* cutoff) noexcept nogil
cdef void mckp_settle(Mckp* c, const i64* cutoff, vector[int]* settled) noexcept nogil
