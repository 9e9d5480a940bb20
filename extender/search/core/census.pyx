# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# distutils: language = c++
"""The census of extender/search/census.py, compiled. That file says what and why.

What a question finds on a node is kept until the node is put again, for the last few
questions: planning goes on between events that change a few nodes out of thousands.
"""

from cpython cimport array
from libc.stdint cimport int64_t, uint64_t
from libcpp.algorithm cimport sort
from libcpp.map cimport map as sorted_map
from libcpp.vector cimport vector

import array

from extender.search.census import FREE, LARGEST, MOST_STEPS, SHUT, Gathered
from extender.search.core.limbs cimport i64, wide

cdef i64 NO_COST = FREE
cdef i64 NEVER_OPENS = SHUT
cdef i64 WIDEST = LARGEST
cdef int STEPS = MOST_STEPS
cdef int MOST_HOLDERS = 1000
cdef i64 ENDLESS = 1 << 30
cdef int MOST_QUESTIONS = 4  # kinds of preemptor at a time; a few gangs compete

cdef object COLUMN = array.array("q")
cdef object POSITIONS = array.array("i")


cdef extern from *:
    """
    #include <cstdint>
    #include <vector>
    struct PgxWho {
        int64_t priority = 0, gang = -1;
        bool whole = false, covered = false;
        int first = 0, last = 0;
    };
    struct PgxNode {
        std::vector<int64_t> whole, used;
        std::vector<PgxWho> who;
        std::vector<int> number;
        std::vector<int64_t> amount;
        uint64_t version = 0;
    };
    struct PgxStep {
        int64_t priority = 0, sure = 0, most = 0;
    };
    struct PgxOffer {
        uint64_t version = 0;
        std::vector<int64_t> free, total;
        std::vector<PgxStep> steps;
        std::vector<int> needed;
        std::vector<int64_t> amounts;
        int64_t now = 0, opens = 0;
        int stays = 0;
    };
    """
    cppclass Who "PgxWho":
        i64 priority, gang
        bint whole, covered
        int first, last  # its amounts
    cppclass Node "PgxNode":
        vector[i64] whole, used  # by resource number
        vector[Who] who
        vector[int] number
        vector[i64] amount
        uint64_t version  # 0: nobody was ever here
    cppclass Step "PgxStep":
        i64 priority, sure, most
    cppclass Offer "PgxOffer":
        uint64_t version  # of the node it was made from
        vector[i64] free, total
        vector[Step] steps
        vector[int] needed  # places in Node.who
        vector[i64] amounts  # R for each needed
        i64 now, opens
        int stays


cdef struct Ratio:
    i64 of, per


cdef inline bint cheaper(const Ratio& a, const Ratio& b) noexcept nogil:
    return <wide>a.of * <wide>b.per < <wide>b.of * <wide>a.per


cdef class Asked:
    """A question, and what it found on each node when it last looked."""

    cdef int R, C
    cdef vector[int] numbers
    cdef vector[int] column  # resource number -> its place in the question, -1 for none
    cdef vector[i64] requests, largest
    cdef i64 below, own
    cdef vector[Offer] kept
    # Room to work in.
    cdef vector[i64] amounts, room, sure
    cdef vector[int] entries
    cdef vector[Ratio] ratios

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
        self.largest.assign(self.R, 0)
        for request in question.requests:
            for r in range(self.R):
                if not 0 <= request[r] <= LARGEST:
                    raise OverflowError("request")
                ask = request[r]
                self.requests.push_back(ask)
                self.largest[r] = max(self.largest[r], ask)

    cdef i64 fits(self, const i64* room, const i64* request) noexcept nogil:
        cdef i64 most = ENDLESS, here
        cdef int r
        for r in range(self.R):
            if request[r] > 0:
                if room[r] < request[r]:
                    return 0
                if room[r] < most * request[r]:
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
        self, const Node& node, const i64* held, const i64* spare, Offer* offer
    ) noexcept nogil:
        """One node's offer; ``held`` and ``spare`` may be NULL."""
        cdef int r, i, k, e
        cdef i64 at
        cdef bint spared = False
        # Plain pointers: through ``self`` and ``node`` every step would read them again.
        cdef i64* held_by
        cdef i64* room
        cdef i64* sure
        cdef const int* column
        cdef const int* number = node.number.data()
        cdef const i64* amount = node.amount.data()
        cdef const Who* who = node.who.data()
        cdef const Who* one
        cdef i64 own = self.own, below = self.below
        cdef int R = self.R, people = <int>node.who.size()
        cdef int resources = <int>node.whole.size()
        offer.version = node.version
        offer.steps.clear()
        offer.needed.clear()
        offer.amounts.clear()
        offer.stays = 0
        offer.now = 0
        offer.opens = NEVER_OPENS
        offer.free.assign(R, 0)
        self.room.assign(R, 0)
        for r in range(R):
            k = self.numbers[r]
            if k < resources:
                self.room[r] = node.whole[k]
                offer.free[r] = node.whole[k] - node.used[k]
            if held != NULL:
                offer.free[r] -= held[r]
        offer.total = offer.free
        if R and self.all_fit(self.room.data()) == 0:
            return
        # Who may go, with what each holds of the resources in question.
        if <int>self.column.size() < resources:
            self.column.resize(resources, -1)
        self.entries.resize(people)
        self.amounts.assign(people * R, 0)
        held_by = self.amounts.data()
        column = self.column.data()
        e = 0
        for i in range(people):
            one = &who[i]
            if one.gang == own and own >= 0:
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
        self.room = offer.free
        if spare != NULL:
            for r in range(R):
                self.room[r] += spare[r]
                spared = spared or spare[r] != 0
        self.sure = self.room
        offer.now = self.all_fit(offer.free.data())
        at = NO_COST
        room = self.room.data()
        sure = self.sure.data()
        held_by = self.amounts.data()
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
        offer.total = self.room
        for e in range(<int>offer.steps.size()):
            if offer.steps[e].most > 0:
                offer.opens = offer.steps[e].priority
                break
        k = -2  # everybody who holds anything
        if self.C == 1 and not spared:
            k = self.enough_alone(offer)
        if k == -3:
            return
        for e in range(<int>self.entries.size()):
            for r in range(R):
                if self.amounts[e * R + r] > 0 and (
                    r == k or k == -2 or (k == -1 and self.requests[r] > 0)
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
        """The resource whose holders alone may be needed; -1: holders of any that is
        asked for; -3: nobody."""
        cdef int r, m, e, best, tried, holders
        cdef vector[int] count
        cdef vector[bint] seen
        cdef int n = <int>self.entries.size(), R = self.R
        cdef i64 start = offer.steps[0].most, most
        # self.room is the room with everybody gone, offer.free the room at the start.
        start = self.fits(offer.free.data(), &self.requests[0])
        most = self.fits(self.room.data(), &self.requests[0])
        if start == most:
            return -3
        if most - start > STEPS:
            return -1
        count.assign(R, 0)
        for e in range(n):
            for r in range(R):
                if self.amounts[e * R + r] > 0:
                    count[r] += 1
        seen.assign(R, False)
        for tried in range(R):
            best = -1
            for r in range(R):
                if self.requests[r] > 0 and not seen[r] and (best < 0 or count[r] < count[best]):
                    best = r
            if best < 0 or count[best] == n:
                return -1
            seen[best] = True
            if self.covers(best, offer, start, most):
                return best
        return -1

    cdef bint covers(self, int m, Offer* offer, i64 start, i64 most) noexcept nogil:
        """Whether those who hold ``m``, gone for any number of seats, free enough of the rest."""
        cdef int r, e, n = <int>self.entries.size(), R = self.R
        cdef Ratio ratio
        cdef i64 k, wanted, part, least
        for r in range(R):
            if r == m or self.requests[r] == 0:
                continue
            self.ratios.clear()
            for e in range(n):
                if self.amounts[e * R + m] > 0:
                    ratio.of = self.amounts[e * R + r]
                    ratio.per = self.amounts[e * R + m]
                    self.ratios.push_back(ratio)
            sort(self.ratios.begin(), self.ratios.end(), cheaper)
            for k in range(start + 1, most + 1):
                wanted = self.requests[m] * k - offer.free[m]
                least = offer.free[r]
                for e in range(<int>self.ratios.size()):
                    if wanted <= 0:
                        break
                    part = min(wanted, self.ratios[e].per)
                    least += <i64>(<wide>self.ratios[e].of * <wide>part // self.ratios[e].per)
                    wanted -= part
                if least < self.requests[r] * k:
                    return False
        return True


cdef class Census:
    """Nodes by slot, each with what it has and who is there."""

    cdef vector[Node] nodes
    cdef list subjects
    cdef dict asked
    cdef uint64_t version

    def __init__(self):
        self.subjects = []
        self.asked = {}
        self.version = 0

    def put(self, int slot, allocatable, holders):
        """See the specification."""
        cdef Node node
        cdef Who who
        cdef int number, most = 0
        cdef i64 amount
        if len(holders) >= MOST_HOLDERS:
            raise OverflowError("holders")
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
        cdef Node nobody
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

    def opening(self, i64 most, always):
        """See the specification."""
        cdef const unsigned char[::1] kept = always
        cdef array.array found = array.clone(POSITIONS, self.n, False)
        cdef int i, count = 0
        if len(always) != self.n:
            raise ValueError("always")
        for i in range(self.n):
            if kept[i] or self.offer(i).opens <= most:
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
