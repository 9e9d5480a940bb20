from libcpp.vector cimport vector

from extender.search.core.holdings cimport NodeHoldings, Offer
from extender.search.core.packed_cost cimport i64


cdef struct Ratio:
    i64 of, per


cdef class Asked:
    cdef int R, C
    cdef vector[int] numbers
    cdef vector[int] column  # resource number -> its place in the question, -1 for none
    cdef vector[i64] requests, largest
    cdef vector[i64] counts  # members of each class; empty: not known
    cdef i64 below, own
    cdef vector[Offer] kept
    # Room to work in.
    cdef vector[i64] amounts, room, sure
    cdef vector[int] entries
    cdef vector[Ratio] ratios
    cdef vector[i64] held_most, held_least  # below 0, of one resource; of another
    cdef vector[i64] ways  # R for each way to seat members that can be gained

    cdef i64 fits(self, const i64* room, const i64* request) noexcept nogil
    cdef i64 all_fit(self, const i64* room) noexcept nogil
    cdef void look(
        self, const NodeHoldings& node, const i64* held, const i64* spare, Offer* offer
    ) noexcept nogil
    cdef void start(self, const NodeHoldings& node, const i64* held, Offer* offer) noexcept nogil
    cdef void list_movable(self, const NodeHoldings& node, Offer* offer) noexcept nogil
    cdef void note_steps(self, const NodeHoldings& node, Offer* offer) noexcept nogil
    cdef void list_needed(self, int whose, Offer* offer) noexcept nogil
    cdef void note(self, i64 at, Offer* offer) noexcept nogil
    cdef int enough_alone(self, Offer* offer) noexcept nogil
    cdef bint list_ways(self, Offer* offer) noexcept nogil
    cdef int fewest_holders(self, Offer* offer) noexcept nogil
    cdef bint covers(self, int m, Offer* offer) noexcept nogil
