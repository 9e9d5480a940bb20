# distutils: language = c++
"""The census of extender/search/census/node_offers.py, compiled. That file says what and why.

What a question finds on a node is kept until the node is put again, for the last few
questions: planning goes on between events that change a few nodes out of thousands.
"""

from cpython cimport array
from libc.stdint cimport uint64_t
from libcpp.map cimport map as sorted_map
from libcpp.vector cimport vector

import array

from extender.search.census import FREE, LARGEST, Gathered
from extender.search.core.asked cimport Asked
from extender.search.core.holdings cimport NodeHoldings, Offer, Who
from extender.search.core.packed_cost cimport i64

cdef i64 NO_COST = FREE
cdef i64 MOST_USED = 1 << 62
cdef i64 MOST_HELD = 1 << 60  # with MOST_USED still an int64
cdef int MOST_QUESTIONS = 4  # kinds of preemptor at a time; a few gangs compete

cdef object COLUMN = array.array("q")
cdef object POSITIONS = array.array("i")


cdef class Census:
    """Nodes by slot, each with what it has and who is there."""

    cdef vector[NodeHoldings] nodes
    cdef list subjects
    cdef dict asked
    cdef uint64_t version

    def __init__(self):
        self.subjects = []
        self.asked = {}
        self.version = 0

    def put(self, int slot, allocatable, holders):
        """See the specification."""
        cdef NodeHoldings node
        cdef Who who
        cdef int number, most = 0
        cdef i64 amount
        subjects = []
        for number, wanted in allocatable:
            most = max(most, number + 1)
        for holder in holders:
            for number, wanted in holder.requests:
                most = max(most, number + 1)
        node.whole.assign(most, 0)
        node.used.assign(most, 0)
        for number, wanted in allocatable:
            if not 0 <= wanted <= LARGEST:
                raise OverflowError("allocatable")
            node.whole[number] = wanted
        for holder in holders:
            who.priority = holder.priority
            who.gang = holder.gang
            who.whole = holder.whole
            who.covered = holder.covered
            who.first = <int>node.number.size()
            for number, wanted in holder.requests:
                if not 0 <= wanted <= LARGEST:
                    raise OverflowError("requests")
                amount = wanted
                node.number.push_back(number)
                node.amount.push_back(amount)
                node.used[number] += amount
                if node.used[number] > MOST_USED:
                    raise OverflowError("holders")
            who.last = <int>node.number.size()
            node.who.push_back(who)
            subjects.append(holder.subject)
        while <int>self.nodes.size() <= slot:
            self.nodes.resize(self.nodes.size() + 1)
            self.subjects.append(None)
        self.version += 1
        node.version = self.version
        self.nodes[slot] = node
        self.subjects[slot] = subjects

    def drop(self, int slot):
        """Forget a node."""
        cdef NodeHoldings nobody
        self.nodes[slot] = nobody
        self.subjects[slot] = None

    def offers(self, question, slots, held):
        """See the specification."""
        asked = self.asked.pop(question, None)
        if asked is None:
            asked = Asked(question)
        self.asked[question] = asked
        if len(self.asked) > MOST_QUESTIONS:
            del self.asked[next(iter(self.asked))]
        return Offers(self, asked, slots, held)


cdef class Offers:
    """The offers of some nodes to one question, as they were when it was asked."""

    cdef Asked asked
    cdef list subjects
    cdef Census census
    cdef vector[int] slots
    cdef vector[int] at  # place in ``own``, -1 for the offer kept for the slot
    cdef vector[Offer] own
    cdef int n

    def __init__(self, Census census, Asked asked, slots, held):
        cdef int i, slot
        cdef const int[::1] given = slots
        cdef vector[i64] taken, spare
        cdef i64 amount
        self.census = census
        self.subjects = census.subjects
        self.asked = asked
        self.n = len(slots)
        self.slots.resize(self.n)
        self.at.assign(self.n, -1)
        for i in range(self.n):
            if given[i] < 0 or given[i] >= <int>census.nodes.size():
                raise IndexError("slots")
            self.slots[i] = given[i]
        with nogil:
            if asked.kept.size() < census.nodes.size():
                asked.kept.resize(census.nodes.size())
            for i in range(self.n):
                slot = self.slots[i]
                if asked.kept[slot].version != census.nodes[slot].version:
                    asked.look(census.nodes[slot], NULL, NULL, &asked.kept[slot])
        self.own.resize(len(held))
        for slot, (place, seatings) in enumerate(held.items()):
            i = place
            taken.clear()
            spare.clear()
            for amount in seatings.held:
                if amount > MOST_HELD:
                    raise OverflowError("held")
                taken.push_back(amount)
            for amount in seatings.spare:
                spare.push_back(amount)
            if taken.size() != spare.size() or <int>taken.size() != asked.R:
                raise ValueError("held")
            self.at[i] = slot
            asked.look(
                census.nodes[self.slots[i]], taken.data(), spare.data(), &self.own[slot]
            )

    cdef inline Offer* offer(self, int position) noexcept nogil:
        if self.at[position] >= 0:
            return &self.own[self.at[position]]
        return &self.asked.kept[self.slots[position]]

    def stays(self):
        """See the specification."""
        cdef array.array found = array.clone(POSITIONS, self.n, False)
        cdef int i
        for i in range(self.n):
            found.data.as_ints[i] = self.offer(i).stays
        return found

    def gains(self, inside, limit=None, domain=None):
        """See the specification."""
        cdef const unsigned char[::1] within = inside
        cdef const int[::1] limits, domains
        cdef bint limited = limit is not None, apart = domain is not None
        cdef sorted_map[int, sorted_map[i64, i64]] gains
        cdef int i, e, where
        cdef i64 before, seats
        cdef Offer* offer
        if len(inside) != self.n:
            raise ValueError("inside")
        if limited:
            limits = limit
            if limits.shape[0] != self.n:
                raise ValueError("limit")
        if apart:
            domains = domain
            if domains.shape[0] != self.n:
                raise ValueError("domain")
        for i in range(self.n):
            if not within[i] or (apart and domains[i] < 0):
                continue
            offer = self.offer(i)
            where = domains[i] if apart else 0
            before = 0
            for e in range(<int>offer.steps.size()):
                seats = offer.steps[e].sure
                if limited and seats > limits[i]:
                    seats = limits[i]
                if seats > before:
                    gains[where][offer.steps[e].priority] += seats - before
                    before = seats
        return gains

    def opening(self, i64 most):
        """See the specification."""
        cdef array.array found = array.clone(POSITIONS, self.n, False)
        cdef int i, count = 0
        for i in range(self.n):
            if self.offer(i).opens <= most:
                found.data.as_ints[count] = i
                count += 1
        array.resize(found, count)
        return found

    def free_room(self, positions):
        """See the specification."""
        cdef const int[::1] places = positions
        cdef int r, i, n = len(positions)
        cdef array.array column
        columns = []
        for r in range(self.asked.R):
            column = array.clone(COLUMN, n, False)
            for i in range(n):
                column.data.as_longlongs[i] = self.offer(places[i]).free[r]
            columns.append(column)
        return tuple(columns)

    def total_room(self):
        """See the specification."""
        cdef int r, i
        cdef array.array column
        columns = []
        for r in range(self.asked.R):
            column = array.clone(COLUMN, self.n, False)
            for i in range(self.n):
                column.data.as_longlongs[i] = self.offer(i).total[r]
            columns.append(column)
        return tuple(columns)

    def gather(self, positions, i64 most, *, bint alone):
        """See the specification."""
        cdef const int[::1] places = positions
        cdef int place, e, i, r, R = self.asked.R
        cdef i64 seats
        cdef Offer* offer
        cdef const Who* who
        cdef list single = [], leaving = [], here
        cdef dict whole = {}
        cdef tuple last
        for place in range(len(positions)):
            offer = self.offer(places[place])
            if alone:
                seats = 0
                for e in range(<int>offer.steps.size()):
                    if offer.steps[e].priority <= most:
                        seats = offer.steps[e].most
                if seats == offer.now:
                    continue
            i = self.slots[places[place]]
            here = self.subjects[i]
            for e in range(<int>offer.needed.size()):
                who = &self.census.nodes[i].who[offer.needed[e]]
                if who.priority > most:
                    break
                amounts = tuple([offer.amounts[e * R + r] for r in range(R)])
                if who.priority == NO_COST:
                    leaving.append((here[offer.needed[e]], ((place, amounts),)))
                elif who.whole:
                    parts = whole.get(who.gang)
                    if parts is None:
                        whole[who.gang] = [(place, amounts)]
                        continue
                    last = parts[len(parts) - 1]
                    if last[0] == place:
                        parts[len(parts) - 1] = (place, tuple([last[1][r] + amounts[r] for r in range(R)]))
                    else:
                        parts.append((place, amounts))
                else:
                    single.append((here[offer.needed[e]], ((place, amounts),)))
        return Gathered(single, leaving, {gang: tuple(parts) for gang, parts in whole.items()})
