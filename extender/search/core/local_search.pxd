from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.effort cimport Effort
from extender.search.core.incumbent cimport Incumbent
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport i64
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space


cdef enum Ending:
    ON_TIME              # the clock is asked at every step
    WHEN_DONE            # however long it takes: a first answer


cdef class LocalSearch:
    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Effort effort
    cdef Incumbent incumbent
    cdef Columns c
    # the trial answer: its units, the room that they leave, seats on every node
    cdef vector[char] trial
    cdef vector[i64] trial_room
    cdef vector[int] trial_waiting, trial_slots, trial_used
    cdef i64 trial_seats
    # what a unit promises to the trial; known until a unit on one of its nodes is flipped
    cdef vector[double] promised
    cdef vector[char] promise_known

    cdef void retry(self) noexcept nogil
    cdef void start_trial(self, vector[char]* units) noexcept nogil
    cdef void flip(self, int u) noexcept nogil
    cdef void forget_promises(self, int u) noexcept nogil
    cdef double promise(self, int u) noexcept nogil
    cdef double promise_now(self, int u) noexcept nogil
    cdef void offer_within(self) noexcept nogil
    cdef void use_budgets(self, int u, int sign) noexcept nogil
    cdef bint room_in_budgets(self, int u) noexcept nogil
    cdef bint complete_trial(self, vector[int]* banned, int now, Ending ending) noexcept nogil
