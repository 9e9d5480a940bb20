# distutils: language = c++
"""One question to the census, asked of one node: offer_of of search/census/node_offers.py."""

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from extender.search.census import ENDLESS as MOST_SEATS
from extender.search.census import FREE, LARGEST, MOST_STEPS, SHUT
from extender.search.core.holdings cimport NodeHoldings, Offer, Step, Who
from extender.search.core.packed_cost cimport i64, wide

cdef i64 NO_COST = FREE
cdef i64 NEVER_OPENS = SHUT
cdef int STEPS = MOST_STEPS
cdef i64 ENDLESS = MOST_SEATS
cdef object MOST_ASKED = LARGEST + 1

cdef enum:
    # Whose pods on a node may be needed: the holders of a resource, its place, or
    OF_ANY_ASKED = -1         # holders of anything that is asked for
    OF_ANY = -2               # whoever holds anything
    OF_NOTHING = -3           # nobody


cdef inline bint cheaper(const Ratio& a, const Ratio& b) noexcept nogil:
    return <wide>a.of * <wide>b.per < <wide>b.of * <wide>a.per


cdef class Asked:
    """A question, and what it found on each node when it last looked."""

    def __init__(self, question):
        cdef int r, number
        cdef i64 ask
        self.R = len(question.resources)
        self.C = len(question.requests)
        self.below = question.below
        self.own = question.own
        r = 0
        for number in question.resources:
            self.numbers.push_back(number)
            self.column.resize(max(<int>self.column.size(), number + 1), -1)
            self.column[number] = r
            r += 1
        self.counts = question.counts
        self.largest.assign(self.R, 0)
        for request in question.requests:
            for r in range(self.R):
                if request[r] < 0:
                    raise OverflowError("request")
                # No node here has so much: how much more is asked for makes no difference.
                ask = min(request[r], MOST_ASKED)
                self.requests.push_back(ask)
                self.largest[r] = max(self.largest[r], ask)

    cdef i64 fits(self, const i64* room, const i64* request) noexcept nogil:
        cdef i64 most = ENDLESS, here
        cdef int r
        for r in range(self.R):
            if request[r] > 0:
                if room[r] < request[r]:
                    return 0
                if <wide>room[r] < <wide>most * <wide>request[r]:
                    here = room[r] // request[r]
                    most = min(most, here)
        return most

    cdef i64 all_fit(self, const i64* room) noexcept nogil:
        cdef i64 found = 0
        cdef int c
        for c in range(self.C):
            found += self.fits(room, &self.requests[c * self.R])
        return found

    cdef void look(
        self, const NodeHoldings& node, const i64* held, const i64* spare, Offer* offer
    ) noexcept nogil:
        """One node's offer; ``held`` and ``spare`` may be NULL."""
        cdef int r, whose = OF_ANY
        cdef bint spared = False
        self.start(node, held, offer)
        if self.R and self.all_fit(self.room.data()) == 0:
            return
        self.list_movable(node, offer)
        self.room = offer.free
        if spare != NULL:
            for r in range(self.R):
                self.room[r] += spare[r]
                spared = spared or spare[r] != 0
        self.sure = self.room
        offer.now = self.all_fit(offer.free.data())
        self.note_steps(node, offer)
        offer.total = self.room
        for r in range(<int>offer.steps.size()):
            if offer.steps[r].most > 0:
                offer.opens = offer.steps[r].priority
                break
        if not spared:
            whose = self.enough_alone(offer)
        if whose != OF_NOTHING:
            self.list_needed(whose, offer)

    cdef void start(self, const NodeHoldings& node, const i64* held, Offer* offer) noexcept nogil:
        """An offer of the room that is there now; self.room: all that the node has."""
        cdef int r, k, resources = <int>node.whole.size()
        offer.version = node.version
        offer.steps.clear()
        offer.needed.clear()
        offer.amounts.clear()
        offer.stays = 0
        offer.now = 0
        offer.opens = NEVER_OPENS
        offer.free.assign(self.R, 0)
        self.room.assign(self.R, 0)
        for r in range(self.R):
            k = self.numbers[r]
            if k < resources:
                self.room[r] = node.whole[k]
                offer.free[r] = node.whole[k] - node.used[k]
            if held != NULL:
                offer.free[r] -= held[r]
        offer.total = offer.free

    cdef void list_movable(self, const NodeHoldings& node, Offer* offer) noexcept nogil:
        """entries, amounts: who may go, with what each holds of the resources in question."""
        # Plain pointers: through ``self`` and ``node`` every step would read them again.
        cdef i64* held_by
        cdef const int* column
        cdef const int* number = node.number.data()
        cdef const i64* amount = node.amount.data()
        cdef const Who* who = node.who.data()
        cdef const Who* one
        cdef i64 own = self.own, below = self.below
        cdef int i, k, r, e = 0, R = self.R, people = <int>node.who.size()
        if self.column.size() < node.whole.size():
            self.column.resize(node.whole.size(), -1)
        self.entries.resize(people)
        self.amounts.assign(people * R, 0)
        held_by = self.amounts.data()
        column = self.column.data()
        for i in range(people):
            one = &who[i]
            if own >= 0 and one.gang == own and one.priority != NO_COST:
                continue
            if one.priority >= below:
                offer.stays += 1
                continue
            self.entries[e] = i
            e += 1
            for k in range(one.first, one.last):
                r = column[number[k]]
                if r >= 0:
                    held_by[r] = amount[k]
            held_by += R
        self.entries.resize(e)

    cdef void note_steps(self, const NodeHoldings& node, Offer* offer) noexcept nogil:
        """The seats at each step of priority; self.room is then that with everybody gone."""
        cdef int e, r, R = self.R
        cdef i64 at = NO_COST
        cdef i64* room = self.room.data()
        cdef i64* sure = self.sure.data()
        cdef const i64* held_by = self.amounts.data()
        cdef const Who* who = node.who.data()
        cdef const Who* one
        for e in range(<int>self.entries.size()):
            one = &who[self.entries[e]]
            if one.priority != at:
                self.note(at, offer)
                at = one.priority
            for r in range(R):
                room[r] += held_by[r]
            if at == NO_COST or not one.covered:
                for r in range(R):
                    sure[r] += held_by[r]
            held_by += R
        self.note(at, offer)

    cdef void list_needed(self, int whose, Offer* offer) noexcept nogil:
        """Those of whom the end can make a seat: ``whose`` as ``enough_alone`` says."""
        cdef int e, r, i, R = self.R
        for e in range(<int>self.entries.size()):
            for r in range(R):
                if self.amounts[e * R + r] > 0 and (
                    r == whose or whose == OF_ANY
                    or (whose == OF_ANY_ASKED and self.largest[r] > 0)
                ):
                    offer.needed.push_back(self.entries[e])
                    for i in range(R):
                        offer.amounts.push_back(self.amounts[e * R + i])
                    break

    cdef void note(self, i64 at, Offer* offer) noexcept nogil:
        cdef Step step
        step.priority = at
        step.most = self.all_fit(self.room.data())
        step.sure = min(step.most, self.fits(self.sure.data(), self.largest.data()))
        offer.steps.push_back(step)

    cdef int enough_alone(self, Offer* offer) noexcept nogil:
        """The resource whose holders alone may be needed, OF_ANY_ASKED or OF_NOTHING."""
        # self.room is the room with everybody gone, offer.free the room at the start.
        if not self.list_ways(offer):
            return OF_ANY_ASKED
        if self.ways.empty():
            return OF_NOTHING
        return self.fewest_holders(offer)

    cdef bint list_ways(self, Offer* offer) noexcept nogil:
        """ways: what those members ask for who fit once everybody is gone, and not before; whether
        they are few enough to be listed."""
        cdef int c, r, R = self.R
        cdef i64 number = 1, start = 0
        cdef vector[i64] most, members, way
        cdef bint fits, gained
        self.ways.clear()
        most.assign(self.C, 0)
        for c in range(self.C):
            most[c] = self.fits(self.room.data(), &self.requests[c * R])
            if c < <int>self.counts.size():
                most[c] = min(most[c], self.counts[c])
            if self.C == 1:
                start = self.fits(offer.free.data(), &self.requests[0])
            if most[c] - start >= STEPS + (self.C == 1):
                return False
            number *= most[c] + 1 - start
            if number > STEPS + (self.C == 1):
                return False
        members.assign(self.C, 0)
        members[0] = start
        while True:
            way.assign(R, 0)
            fits = True
            gained = False
            for r in range(R):
                for c in range(self.C):
                    way[r] += members[c] * self.requests[c * R + r]
                if way[r] > 0:
                    fits = fits and way[r] <= self.room[r]
                    gained = gained or way[r] > offer.free[r]
            if fits and gained:
                for r in range(R):
                    self.ways.push_back(way[r])
            c = 0
            while c < self.C and members[c] == most[c]:
                members[c] = 0
                c += 1
            if c == self.C:
                return True
            members[c] += 1

    cdef int fewest_holders(self, Offer* offer) noexcept nogil:
        """The resource with the fewest holders whose end suffices for every way, OF_ANY_ASKED where
        there is none."""
        cdef int r, e, best, tried, n = <int>self.entries.size(), R = self.R
        cdef vector[int] count
        cdef vector[bint] seen
        count.assign(R, 0)
        for e in range(n):
            for r in range(R):
                if self.amounts[e * R + r] > 0:
                    count[r] += 1
        seen.assign(R, False)
        for tried in range(R):
            best = -1
            for r in range(R):
                if self.largest[r] > 0 and not seen[r] and (best < 0 or count[r] < count[best]):
                    best = r
            if best < 0 or count[best] == n:
                return OF_ANY_ASKED
            seen[best] = True
            if self.covers(best, offer):
                return best
        return OF_ANY_ASKED

    cdef bint covers(self, int m, Offer* offer) noexcept nogil:
        """Whether those who hold ``m``, gone for any of the ways, free enough of the rest."""
        cdef int r, e, n = <int>self.entries.size(), R = self.R
        cdef Ratio ratio
        cdef i64 wanted, part, least, by_number
        cdef int k, at, ways = <int>self.ways.size() // R
        self.held_most.clear()
        for e in range(n):
            if self.amounts[e * R + m] > 0:
                self.held_most.push_back(-self.amounts[e * R + m])
        sort(self.held_most.begin(), self.held_most.end())
        for r in range(R):
            if r == m:
                continue
            self.ratios.clear()
            self.held_least.clear()
            for e in range(n):
                if self.amounts[e * R + m] > 0:
                    ratio.of = self.amounts[e * R + r]
                    ratio.per = self.amounts[e * R + m]
                    self.ratios.push_back(ratio)
                    self.held_least.push_back(ratio.of)
            sort(self.ratios.begin(), self.ratios.end(), cheaper)
            sort(self.held_least.begin(), self.held_least.end())
            for k in range(ways):
                at = k * R
                if self.ways[at + r] == 0:
                    continue
                by_number = least = offer.free[r]
                wanted = self.ways[at + m] - offer.free[m] if self.ways[at + m] > 0 else 0
                for e in range(<int>self.held_most.size()):
                    if wanted <= 0:
                        break
                    by_number += self.held_least[e]
                    wanted += self.held_most[e]
                wanted = self.ways[at + m] - offer.free[m] if self.ways[at + m] > 0 else 0
                for e in range(<int>self.ratios.size()):
                    if wanted <= 0:
                        break
                    part = min(wanted, self.ratios[e].per)
                    least += <i64>(<wide>self.ratios[e].of * <wide>part // self.ratios[e].per)
                    wanted -= part
                if max(least, by_number) < self.ways[at + r]:
                    return False
        return True
