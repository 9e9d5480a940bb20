# distutils: language = c++
"""Which members enough nodes seat at no higher cost, with nothing that ties them to other nodes.

A gang of M members sits on M nodes at most. So of M + 1 nodes that seat some members at no higher
cost than another node does, one has nothing to do in any answer and may take that one's place: of
M, besides the node itself. What is as dear counts when it was added before, so that no two nodes
wait for each other.
"""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64, order

cdef enum:
    MOST_MEMBERS = 2000       # of a gang that is looked at
    MOST_COSTS = 4000000      # that are kept


cdef class CheapestNodes:
    """For each vector of members the least costs of nodes, as many as matter."""

    def __init__(self, counts, int levels):
        """counts (C,): members there are of each class; none, or too many: nothing is compared."""
        self.C, self.L = len(counts), levels
        self.enough = 0
        stride = 1
        for count in counts:
            self.strides.push_back(stride)
            stride *= count + 1
            if stride >= 1 << 60:
                return
        if counts and sum(counts) <= MOST_MEMBERS:
            self.enough = sum(counts) + 1

    cdef int place_of(self, const int* members) noexcept nogil:
        """Of these members (C,), or -1 where they are not looked at."""
        cdef int c, place
        cdef i64 number = 0
        if not self.enough:
            return -1
        for c in range(self.C):
            number += members[c] * self.strides[c]
        if self.places.count(number):
            return self.places[number]
        if <i64>self.costs.size() * self.enough >= MOST_COSTS:
            return -1
        place = <int>self.costs.size()
        self.places[number] = place
        self.costs.push_back(vector[i64]())
        return place

    cdef bint seat(self, int place, const i64* cost) noexcept nogil:
        """Whether enough nodes were added that seat these members at no higher cost."""
        if place < 0 or <i64>self.costs[place].size() < self.enough * self.L:
            return False
        return order(self.costs[place].data(), cost, self.L) <= 0

    cdef bint seat_for_less(self, int place, const i64* cost) noexcept nogil:
        """Whether enough nodes seat these members at a lower cost, whenever they were added."""
        if place < 0 or <i64>self.costs[place].size() < self.enough * self.L:
            return False
        return order(self.costs[place].data(), cost, self.L) < 0

    cdef void add(self, int place, const i64* cost) noexcept nogil:
        """Another node seats these members at this cost (L,), and at none lower."""
        cdef int L = self.L, level, at, child, size
        cdef i64* heap
        if place < 0:
            return
        size = <int>self.costs[place].size() // L
        if size < self.enough:
            at = size
            self.costs[place].resize((size + 1) * L)
            heap = self.costs[place].data()
            while at and order(&heap[(at - 1) // 2 * L], cost, L) < 0:
                for level in range(L):
                    heap[at * L + level] = heap[(at - 1) // 2 * L + level]
                at = (at - 1) // 2
        else:
            heap = self.costs[place].data()
            if order(heap, cost, L) <= 0:
                return
            at = 0
            while True:
                child = 2 * at + 1
                if child >= size:
                    break
                if child + 1 < size and order(&heap[(child + 1) * L], &heap[child * L], L) > 0:
                    child += 1
                if order(&heap[child * L], cost, L) <= 0:
                    break
                for level in range(L):
                    heap[at * L + level] = heap[child * L + level]
                at = child
        for level in range(L):
            heap[at * L + level] = cost[level]
