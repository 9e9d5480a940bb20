from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64
from extender.search.core.lexicographic cimport Lexicographic


cdef class LocalSearch(Lexicographic):
    # the trial answer: its units, the room that they leave, seats on every node
    cdef vector[char] trial
    cdef vector[i64] trial_room
    cdef vector[int] trial_waiting, trial_slots, trial_used
    cdef i64 trial_seats

    cdef void retry(self) noexcept nogil
    cdef void start_trial(self, vector[char]* units) noexcept nogil
    cdef void flip(self, int u) noexcept nogil
    cdef double promise(self, int u) noexcept nogil
    cdef void offer_within(self) noexcept nogil
    cdef void use_budgets(self, int u, int sign) noexcept nogil
    cdef bint room_in_budgets(self, int u) noexcept nogil
    cdef bint complete_trial(self, vector[int]* banned, int now) noexcept nogil
