# distutils: language = c++
"""Whether members of several classes find seats on nodes that are full in different ways.

A node's pattern is the set of maximal vectors of members that it seats (seating/patterns.py). Nodes
of one pattern are a group. Weights decide most questions: what a weighted sum of members
cannot reach has no seats, and taking the best vector of every node for what is still
missing often seats everybody. The rest is dynamic programming over the members seated of
all classes but one, which keeps the most members of that one.
"""

from libcpp.vector cimport vector

from extender.search.core.clock cimport Clock, late, start_clock
from extender.search.core.packed_cost cimport i64

cdef enum:
    MOST_STATES = 300000
    TRIES = 8                 # weights tried, from those that served last and from new ones

cdef enum Fit:
    UNKNOWN = -1              # too many states, or time is up
    NO = 0
    YES = 1                   # everybody finds a seat

cdef enum Wanted:
    ANSWER                    # whether everybody finds a seat
    SEATS                     # who sits where
    ALL_SEATS                 # the same, with as many members as there is room for

cdef i64 MOST_KEPT = 60000000   # states of all nodes that are kept to trace them
cdef i64 MOST_STEPS = 1000000000   # of the dynamic programming, where no clock ends it


cdef class Packing:
    """Patterns by number, and the members wanted."""

    cdef int C, S, last
    cdef i64 need
    cdef bint everybody
    cdef vector[int] counts, least, strides
    cdef vector[vector[int]] patterns      # vectors * C each
    cdef vector[int] group_of, nodes_of    # the question: patterns and how many nodes each
    cdef vector[double] weight
    cdef vector[int] seats                 # nodes * C, in the order of the groups
    cdef Clock clock

    def __init__(self, counts, least, i64 need):
        """``counts`` and ``least`` (C,); at least ``need`` members in all."""
        cdef int c, width = 1
        self.C = len(counts)
        self.counts = counts
        self.least = least
        self.need = need
        self.everybody = need == sum(counts)
        self.last = max(range(self.C), key=lambda c: counts[c])
        self.strides.assign(self.C, 0)
        self.S = 0
        for c in range(self.C):
            if c == self.last:
                continue
            self.strides[c] = width
            if <i64>width * (self.counts[c] + 1) > MOST_STATES:
                return
            width *= self.counts[c] + 1
        self.S = width

    def add(self, pattern):
        """Take a pattern in; its number."""
        cdef vector[int] vectors
        for members in pattern:
            for c in range(self.C):
                vectors.push_back(min(members[c], self.counts[c]))
        self.patterns.push_back(vectors)
        return <int>self.patterns.size() - 1

    cdef void take(self, groups):
        cdef int pattern, nodes
        self.group_of.clear()
        self.nodes_of.clear()
        for pattern, nodes in groups:
            self.group_of.push_back(pattern)
            self.nodes_of.push_back(nodes)

    def fits(self, groups, double deadline, cancel):
        """Whether everybody finds a seat on these (pattern, nodes): a Fit, as a number."""
        cdef Fit found
        self.take(groups)
        start_clock(&self.clock, deadline, cancel)
        with nogil:
            found = self.weigh(ANSWER)
            if found == UNKNOWN:
                found = self.fill(ANSWER)
        return <int>found

    def seat(self, groups, bint most):
        """Members of each class for every node, group after group, on some more than are
        wanted; None when they do not fit, or when there are too many states to tell.
        ``most``: as many as there is room for."""
        cdef int c, i
        cdef Fit found
        self.take(groups)
        start_clock(&self.clock, 0, None)
        with nogil:
            self.seats.clear()
            found = self.weigh(SEATS)
            if found == UNKNOWN:
                found = self.fill(ALL_SEATS if most else SEATS)
        if found != YES:
            return None
        rows = []
        for i in range(<int>self.seats.size() // self.C):
            rows.append(tuple([self.seats[i * self.C + c] for c in range(self.C)]))
        return rows

    cdef Fit weigh(self, Wanted wanted) noexcept nogil:
        """Weighted sums, which seldom leave it UNKNOWN."""
        cdef int c, turn
        cdef vector[double] fresh
        cdef vector[i64] left, reached
        cdef bint done
        if not self.everybody:
            return UNKNOWN
        if not self.alone(&fresh):
            return NO
        for turn in range(2 * TRIES):
            # The weights that served last go first: questions come in rows.
            if turn == TRIES or <int>self.weight.size() != self.C:
                self.weight = fresh
            if not self.within_reach(&reached):
                return NO
            if not self.seat_greedily(wanted, &left):
                return UNKNOWN
            done = True
            for c in range(self.C):
                done = done and left[c] == 0
            if done:
                return YES
            self.weigh_anew(turn % TRIES, &left, &reached)
        return UNKNOWN

    cdef bint alone(self, vector[double]* fresh) noexcept nogil:
        """Whether every class could have its seats for itself; ``fresh``: weights to begin with."""
        cdef int c, g, i, best, size, C = self.C
        cdef double reach
        cdef const int* rows
        fresh.assign(C, 1.0)
        for c in range(C):
            reach = 0
            for g in range(<int>self.group_of.size()):
                rows = self.patterns[self.group_of[g]].data()
                size = <int>self.patterns[self.group_of[g]].size() // C
                best = 0
                for i in range(size):
                    best = max(best, rows[i * C + c])
                reach += <double>best * self.nodes_of[g]
            if reach < self.counts[c]:
                return False
            fresh[0][c] = 1.0 / max(1.0, reach - self.counts[c] + 1.0)
        return True

    cdef bint within_reach(self, vector[i64]* reached) noexcept nogil:
        """Whether the weights rule nothing out: every node's best vector bounds what is reached.

        ``reached``: members of each class in these vectors.
        """
        cdef int c, g, i, best, size, C = self.C
        cdef double most, value, reach = 0, asked = 0
        cdef const int* rows
        reached.assign(C, 0)
        for c in range(C):
            asked += self.weight[c] * self.counts[c]
        for g in range(<int>self.group_of.size()):
            rows = self.patterns[self.group_of[g]].data()
            size = <int>self.patterns[self.group_of[g]].size() // C
            most = -1
            best = 0
            for i in range(size):
                value = 0
                for c in range(C):
                    value += self.weight[c] * rows[i * C + c]
                if value > most:
                    most = value
                    best = i
            reach += most * self.nodes_of[g]
            for c in range(C):
                reached[0][c] += <i64>rows[best * C + c] * self.nodes_of[g]
        return reach >= asked * (1 - 1e-9)

    cdef bint seat_greedily(self, Wanted wanted, vector[i64]* left) noexcept nogil:
        """Take what is worth most of what is still missing, node by node; False: time is up.

        ``left``: members of each class without a seat.
        """
        cdef int c, g, i, n, best, size, C = self.C
        cdef double most, value
        cdef const int* rows
        left.resize(C)
        for c in range(C):
            left[0][c] = self.counts[c]
        if wanted != ANSWER:
            self.seats.clear()
        for g in range(<int>self.group_of.size()):
            rows = self.patterns[self.group_of[g]].data()
            size = <int>self.patterns[self.group_of[g]].size() // C
            for n in range(self.nodes_of[g]):
                if late(&self.clock):
                    return False
                most = 0
                best = -1
                for i in range(size):
                    value = 0
                    for c in range(C):
                        value += self.weight[c] * min(<i64>rows[i * C + c], left[0][c])
                    if value > most:
                        most = value
                        best = i
                if best < 0 and wanted == ANSWER:
                    break
                for c in range(C):
                    i = 0
                    if best >= 0:
                        i = <int>min(<i64>rows[best * C + c], left[0][c])
                    left[0][c] -= i
                    if wanted != ANSWER:
                        self.seats.push_back(i)
        return True

    cdef void weigh_anew(
        self, int turn, const vector[i64]* left, const vector[i64]* reached
    ) noexcept nogil:
        """What was left over is worth more next time, what there was too much of is worth less."""
        cdef int c
        for c in range(self.C):
            if left[0][c] > 0:
                self.weight[c] *= 1.0 + 0.7 / (1 + turn / 3) * (
                    0.3 + 2.0 * <double>left[0][c] / self.counts[c]
                )
            elif reached[0][c] > self.counts[c]:
                self.weight[c] *= 1.0 - 0.2 / (1 + turn)

    cdef Fit fill(self, Wanted wanted) noexcept nogil:
        """The dynamic programming; SEATS and ALL_SEATS: ``seats`` then tells who sits where."""
        cdef int C = self.C, S = self.S, g, n, s, i, c, size, value, last = self.last
        cdef int target, nodes = 0
        cdef i64 steps = 0
        cdef vector[int] now, then, digits
        cdef vector[vector[int]] layers
        cdef const int* rows
        for g in range(<int>self.group_of.size()):
            nodes += self.nodes_of[g]
            steps += self.nodes_of[g] * <i64>(self.patterns[self.group_of[g]].size() // C) * S
        if S == 0 or (wanted != ANSWER and <i64>S * nodes > MOST_KEPT):
            return UNKNOWN
        if steps > MOST_STEPS and self.clock.deadline == 0 and self.clock.cancel == NULL:
            return UNKNOWN
        digits.resize(<i64>S * C)
        for s in range(S):
            for c in range(C):
                if c != last:
                    digits[s * C + c] = (s // self.strides[c]) % (self.counts[c] + 1)
        now.assign(S, -1)
        now[0] = 0
        for g in range(<int>self.group_of.size()):
            rows = self.patterns[self.group_of[g]].data()
            size = <int>self.patterns[self.group_of[g]].size() // C
            for n in range(self.nodes_of[g]):
                if late(&self.clock):
                    return UNKNOWN
                then = now
                for i in range(size):
                    for s in range(S):
                        if now[s] < 0:
                            continue
                        target = self.target(&digits[s * C], rows + i * C)
                        value = min(now[s] + rows[i * C + last], self.counts[last])
                        if value > then[target]:
                            then[target] = value
                if wanted != ANSWER:
                    layers.push_back(now)
                now.swap(then)
                if wanted == ANSWER and self.reached(&now, &digits, ANSWER) >= 0:
                    return YES
        s = self.reached(&now, &digits, wanted)
        if s < 0:
            return NO
        if wanted != ANSWER:
            self.trace(s, &now, &layers, &digits)
        return YES

    cdef int target(self, const int* digits, const int* row) noexcept nogil:
        cdef int c, found = 0
        for c in range(self.C):
            if c != self.last:
                found += min(digits[c] + row[c], self.counts[c]) * self.strides[c]
        return found

    cdef int reached(self, vector[int]* now, vector[int]* digits, Wanted wanted) noexcept nogil:
        """A state in which everybody sits who must, ALL_SEATS: the fullest; -1 for none."""
        cdef int s, c, total, best = -1, fullest = -1
        cdef bint enough
        for s in range(self.S - 1, -1, -1):
            if now[0][s] < self.least[self.last]:
                if self.everybody:
                    return -1
                continue
            total = now[0][s]
            enough = True
            for c in range(self.C):
                if c != self.last:
                    total += digits[0][s * self.C + c]
                    enough = enough and digits[0][s * self.C + c] >= self.least[c]
            if enough and total >= self.need and total > fullest:
                best = s
                fullest = total
                if wanted != ALL_SEATS:
                    return s
            if self.everybody:
                break
        return best

    cdef void trace(
        self, int s, vector[int]* end, vector[vector[int]]* layers, vector[int]* digits
    ) noexcept nogil:
        """seats: who sits on every node on the way to the state."""
        cdef int C = self.C, g, n, i, from_, c, size, value, node, last = self.last
        cdef const int* rows
        cdef const vector[int]* before
        cdef bint found
        value = end[0][s]
        node = <int>layers.size()
        self.seats.assign(<i64>node * C, 0)
        for g in range(<int>self.group_of.size() - 1, -1, -1):
            rows = self.patterns[self.group_of[g]].data()
            size = <int>self.patterns[self.group_of[g]].size() // C
            for n in range(self.nodes_of[g]):
                node -= 1
                before = &layers[0][node]
                if before[0][s] >= value:
                    continue
                found = False
                for i in range(size):
                    for from_ in range(s + 1):
                        if (
                            before[0][from_] >= 0
                            and self.target(&digits[0][from_ * C], rows + i * C) == s
                            and min(before[0][from_] + rows[i * C + last], self.counts[last])
                            >= value
                        ):
                            found = True
                            break
                    if found:
                        break
                for c in range(C):
                    self.seats[node * C + c] = rows[i * C + c]
                s = from_
                value = min(value, before[0][s])
