# distutils: language = c++
"""What a node can give to several classes: undominated sets of its units, and the seats they make.

A set seats so many members of each class, costs so much, level by level, and needs some switches on:
what ties the node to others, as a gang on several nodes. Of two sets the one is left out that
seats no more of any class, costs no less, most important level first, and needs no fewer switches:
whatever answer has it is no worse with the other one in its place. Seats without a cost and
without a switch are a set too; nothing at all is not told.

Left out as well is a set that more nodes than there are members can do without switches, at no
higher cost: some of them have nothing to do in any answer, and may take its place.
"""

from libcpp.vector cimport vector

from extender.search.core.cheapest_nodes cimport CheapestNodes
from extender.search.core.packed_cost cimport i64, order

ctypedef unsigned long long bits

cdef enum:
    MOST_SWITCHES = 12        # of one node
    MOST_VECTORS = 5000       # of members on one node
    MOST_COVERS = 2000        # room and cost of a node's units, undominated
    MOST_LOCAL = 64           # units of one node
    MOST_CLASSES = 64         # bits of a limit's classes

cdef i64 MOST_STEPS = 150000000  # of all nodes together


cdef cppclass Covers:
    # Undominated sets of units, cheapest first: room they make, cost, who.
    vector[i64] room          # sets * R
    vector[i64] cost          # sets * L
    vector[bits] who

    void nothing(int R, int L) noexcept nogil:
        this.room.assign(R, 0)
        this.cost.assign(L, 0)
        this.who.assign(1, 0)


cdef inline bint reaches(const i64* room, const i64* wanted, int R) noexcept nogil:
    cdef int r
    for r in range(R):
        if room[r] < wanted[r]:
            return False
    return True


cdef class NodeSets:
    """Sets of all nodes added so far, of C classes, R resources and L cost levels.

    Amounts, and what a node has with all its units gone, are below 2^61 (Columns sees to that).
    """

    cdef int C, R, L, V
    cdef i64 steps
    cdef bint every                           # all sets of this node are told
    cdef CheapestNodes cheapest
    cdef vector[int] place                    # V; of these members in cheapest, or -1
    cdef vector[i64] requests                 # C*R
    # The node that is looked at:
    cdef vector[i64] free, whole, cap         # R
    cdef vector[int] most, limit_most         # C; one for each limit
    cdef vector[bits] limit_of                # classes that it counts
    cdef vector[i64] amounts, prices          # units * R, units * L
    cdef vector[int] unit, needs              # its number; the switch it needs, or -1
    cdef vector[i64] gives                    # switches * R
    cdef vector[int] switch_of
    cdef vector[int] vectors                  # V*C
    cdef vector[i64] asked                    # V*R
    cdef Covers plain, all_covers, grown
    cdef vector[vector[int]] as_good          # V; sets that beat one of these members before, or are it
    # What was found:
    cdef vector[int] node, members, switch_first, switches, unit_first, units
    cdef vector[i64] cost
    cdef vector[bits] on
    cdef vector[int] counted_at               # place of its members, -1 where the set stays anyway

    def __init__(self, requests, int levels, counts=()):
        """requests (C, R): not all of a class are 0; counts (C,): members there are, where sets that
        other nodes have as cheaply may be left out."""
        self.C, self.R, self.L = len(requests), len(requests[0]), levels
        self.steps = 0
        self.cheapest = CheapestNodes(counts, levels)
        for request in requests:
            for amount in request:
                self.requests.push_back(amount)
        self.switch_first.push_back(0)
        self.unit_first.push_back(0)

    def add(self, int n, free, most, limits, units, switches, bint every=False):
        """Take a node, with ``every`` undominated set of its own; False where there is more to look
        at than is looked at.

        free (R,); most (C,) members by count, mask and limits; limits: (classes, members at most);
        units: (number, amounts (R,), cost (L,), place of the switch it needs or -1); switches:
        (number, amounts (R,)).
        """
        cdef int c, r
        if len(units) > MOST_LOCAL or len(switches) > MOST_SWITCHES or self.C > MOST_CLASSES:
            return False
        self.free, self.most, self.every = free, most, every
        self.limit_most = [members for _, members in limits]
        self.limit_of = [sum([1 << c for c in set(classes)]) for classes, _ in limits]
        self.unit.clear()
        self.needs.clear()
        self.amounts.clear()
        self.prices.clear()
        for number, amounts, cost, needs in units:
            self.unit.push_back(number)
            self.needs.push_back(needs)
            for r in range(self.R):
                self.amounts.push_back(amounts[r])
            for c in range(self.L):
                self.prices.push_back(cost[c])
        self.switch_of = [number for number, _ in switches]
        self.gives = [amounts[r] for _, amounts in switches for r in range(self.R)]
        cdef bint done
        with nogil:
            done = self.look_at(n)
        return done

    def found(self):
        """Bytes of int32 arrays: node (sets,), members (sets, C), then first and number of the switches
        and units of each set; last cost (sets, L), of int64."""
        self.leave_out_common()
        return tuple([
            as_bytes(self.node), as_bytes(self.members), as_bytes(self.switch_first),
            as_bytes(self.switches), as_bytes(self.unit_first), as_bytes(self.units),
            (<char*>self.cost.data())[:self.cost.size() * sizeof(i64)] if self.cost.size() else b"",
        ])

    cdef bint look_at(self, int n) noexcept nogil:
        cdef int i, r, sets, first, units = <int>self.unit.size()
        cdef int switches = <int>self.switch_of.size()
        cdef bits mask
        cdef bint more
        self.whole = self.free
        for i in range(units):
            for r in range(self.R):
                self.whole[r] += self.amounts[i * self.R + r]
        for i in range(switches):
            for r in range(self.R):
                self.whole[r] += self.gives[i * self.R + r]
        if not self.list_vectors():
            return False
        if not self.V:
            return True
        self.plain.nothing(self.R, self.L)
        for i in range(units):
            if self.needs[i] < 0 and not self.take(&self.plain, i):
                return False
        first = <int>self.node.size()
        if <int>self.as_good.size() < self.V:
            self.as_good.resize(self.V)
        for i in range(self.V):
            self.as_good[i].clear()
        self.place.resize(self.V)
        for i in range(self.V):
            self.place[i] = self.cheapest.place_of(&self.vectors[i * self.C])
        for mask in range(<bits>1 << switches):
            more = False
            for i in range(units):
                if self.needs[i] >= 0 and mask >> self.needs[i] & 1:
                    if not more:
                        self.all_covers.room = self.plain.room
                        self.all_covers.cost = self.plain.cost
                        self.all_covers.who = self.plain.who
                        more = True
                    if not self.take(&self.all_covers, i):
                        return False
            if not self.look_for(n, first, mask, &self.all_covers if more else &self.plain):
                return False
        return True

    cdef bint list_vectors(self) noexcept nogil:
        """Members that fit with everybody gone, largest vectors first, and what they ask for."""
        cdef int c, r, l, C = self.C, R = self.R
        cdef i64 rows = 1, room
        cdef vector[int] now
        cdef vector[i64] sums
        cdef bint fits
        cdef int total
        self.vectors.clear()
        self.asked.clear()
        self.cap.assign(R, 0)
        self.V = 0
        for c in range(C):
            for r in range(R):
                if self.requests[c * R + r] > 0:
                    room = self.whole[r] // self.requests[c * R + r] if self.whole[r] > 0 else 0
                    if room < self.most[c]:
                        self.most[c] = <int>room
            rows *= self.most[c] + 1
            if rows > MOST_VECTORS:
                return False
        now = self.most
        while True:
            sums.assign(R, 0)
            total, fits = 0, True
            for c in range(C):
                total += now[c]
                for r in range(R):
                    if now[c] and fits and self.requests[c * R + r] > 0:
                        room = self.whole[r] - sums[r]
                        if room // self.requests[c * R + r] < now[c]:
                            fits = False
                        else:
                            sums[r] += now[c] * self.requests[c * R + r]
            if not total:
                break
            for l in range(<int>self.limit_of.size()):
                total = 0
                for c in range(C):
                    if self.limit_of[l] >> c & 1:
                        total += now[c]
                if total > self.limit_most[l]:
                    fits = False
            if fits:
                self.V += 1
                for c in range(C):
                    self.vectors.push_back(now[c])
                for r in range(R):
                    self.asked.push_back(sums[r])
                    if sums[r] and sums[r] - self.free[r] > self.cap[r]:
                        self.cap[r] = sums[r] - self.free[r]
            c = C - 1
            while not now[c]:
                now[c] = self.most[c]
                c -= 1
            now[c] -= 1
        return True

    cdef bint take(self, Covers* covers, int i) noexcept nogil:
        """Sets with this unit as well; what is dominated then goes."""
        cdef int R = self.R, L = self.L, size = <int>covers.who.size(), a = 0, b = 0, k, r, level
        cdef vector[i64] dearer, wider
        cdef const i64* room
        cdef const i64* cost
        cdef bits who
        cdef bint useful = False, beaten
        for r in range(R):
            if self.amounts[i * R + r] > 0 and self.cap[r] > 0:
                useful = True
        if not useful:
            return True
        dearer.resize(size * L)
        wider.resize(size * R)
        for k in range(size):
            for level in range(L):
                dearer[k * L + level] = covers.cost[k * L + level] + self.prices[i * L + level]
            for r in range(R):
                wider[k * R + r] = min(
                    self.cap[r], covers.room[k * R + r] + self.amounts[i * R + r]
                )
        self.grown.room.clear()
        self.grown.cost.clear()
        self.grown.who.clear()
        while a < size or b < size:
            if b == size or (
                a < size and order(&covers.cost[a * L], &dearer[b * L], L) <= 0
            ):
                room, cost, who = &covers.room[a * R], &covers.cost[a * L], covers.who[a]
                a += 1
            else:
                room, cost, who = &wider[b * R], &dearer[b * L], covers.who[b] | <bits>1 << i
                b += 1
            beaten, k = False, 0
            for k in range(<int>self.grown.who.size()):
                if reaches(&self.grown.room[k * R], room, R):
                    beaten = True
                    break
            self.steps += k + 1
            if not beaten:
                for r in range(R):
                    self.grown.room.push_back(room[r])
                for level in range(L):
                    self.grown.cost.push_back(cost[level])
                self.grown.who.push_back(who)
        covers.room.swap(self.grown.room)
        covers.cost.swap(self.grown.cost)
        covers.who.swap(self.grown.who)
        return covers.who.size() <= MOST_COVERS and self.steps <= MOST_STEPS

    cdef bint look_for(self, int n, int first, bits mask, Covers* covers) noexcept nogil:
        """Add the cheapest set for each vector of members with these switches on, unless one that
        was added before is as good. Subsets of the switches came before, larger vectors too."""
        cdef int v, k, r, i, R = self.R, L = self.L
        cdef vector[i64] room, lack
        cdef const i64* cost
        cdef bint common
        room = self.free
        for i in range(<int>self.switch_of.size()):
            if mask >> i & 1:
                for r in range(R):
                    room[r] += self.gives[i * R + r]
        lack.assign(R, 0)
        for v in range(self.V):
            for r in range(R):
                lack[r] = self.asked[v * R + r] - room[r] if self.asked[v * R + r] else 0
                if lack[r] < 0:
                    lack[r] = 0
            k = 0
            for k in range(<int>covers.who.size()):
                if reaches(&covers.room[k * R], lack.data(), R):
                    cost = &covers.cost[k * L]
                    common = not self.every and self.cheapest.seat(self.place[v], cost)
                    if not common and not self.is_beaten(first, v, mask, cost):
                        self.keep(n, v, mask, cost, covers.who[k])
                    if not mask:
                        self.cheapest.add(self.place[v], cost)
                    break
            self.steps += k + 1
            if self.steps > MOST_STEPS:
                return False
        return True

    cdef void leave_out_common(self) noexcept nogil:
        """Of the first nodes' sets those that enough others turned out to have for less."""
        cdef int at, kept = 0, c, level, i, C = self.C, L = self.L
        cdef int switches = 0, units = 0
        for at in range(<int>self.node.size()):
            if self.cheapest.seat_for_less(self.counted_at[at], &self.cost[at * L]):
                continue
            self.node[kept], self.counted_at[kept] = self.node[at], self.counted_at[at]
            for c in range(C):
                self.members[kept * C + c] = self.members[at * C + c]
            for level in range(L):
                self.cost[kept * L + level] = self.cost[at * L + level]
            for i in range(self.switch_first[at], self.switch_first[at + 1]):
                self.switches[switches] = self.switches[i]
                switches += 1
            for i in range(self.unit_first[at], self.unit_first[at + 1]):
                self.units[units] = self.units[i]
                units += 1
            kept += 1
            self.switch_first[kept] = switches
            self.unit_first[kept] = units
        self.node.resize(kept)
        self.counted_at.resize(kept)
        self.members.resize(kept * C)
        self.cost.resize(kept * L)
        self.switch_first.resize(kept + 1)
        self.unit_first.resize(kept + 1)
        self.switches.resize(switches)
        self.units.resize(units)

    cdef bint is_beaten(self, int first, int v, bits mask, const i64* cost) noexcept nogil:
        """Whether a set that is there is as good. What was as good with other switches, or cost more
        with fewer of them, mostly is so again: it is asked first."""
        cdef int at, end = <int>self.node.size()
        for at in self.as_good[v]:
            if not self.on[at] & ~mask and order(&self.cost[at * self.L], cost, self.L) <= 0:
                return True
        for at in range(first, end):
            if self.on[at] & ~mask or order(&self.cost[at * self.L], cost, self.L) > 0:
                continue
            if self.seats_all(at, v):
                self.as_good[v].push_back(at)
                return True
        self.steps += end - first
        self.as_good[v].push_back(end)
        return False

    cdef bint seats_all(self, int at, int v) noexcept nogil:
        """Whether this set seats as many members of every class."""
        cdef int c
        for c in range(self.C):
            if self.members[at * self.C + c] < self.vectors[v * self.C + c]:
                return False
        return True

    cdef void keep(self, int n, int v, bits mask, const i64* cost, bits who) noexcept nogil:
        cdef int c, level, i, place = self.place[v]
        if self.every:
            place = -1
        self.node.push_back(n)
        self.on.push_back(mask)
        self.counted_at.push_back(place)
        for c in range(self.C):
            self.members.push_back(self.vectors[v * self.C + c])
        for level in range(self.L):
            self.cost.push_back(cost[level])
        for i in range(<int>self.switch_of.size()):
            if mask >> i & 1:
                self.switches.push_back(self.switch_of[i])
        self.switch_first.push_back(<int>self.switches.size())
        for i in range(<int>self.unit.size()):
            if who >> i & 1:
                self.units.push_back(self.unit[i])
        self.unit_first.push_back(<int>self.units.size())


cdef bytes as_bytes(const vector[int]& numbers):
    if not numbers.size():
        return b""
    return (<const char*>numbers.data())[:numbers.size() * sizeof(int)]
