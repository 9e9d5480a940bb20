# distutils: language = c++
"""Better answers where gangs overlap too much for the tables: take some away, fill up anew.

A few chosen units that share nodes are forbidden for one round, the answer is completed
with what promises most seats for its cost, and what became needless is put back. The
choice of what to take away follows a fixed sequence, so that equal problems get equal
answers. It proves nothing.
"""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport PackedCost, i64, order, put
from extender.search.core.states cimport IN, OPEN

cdef enum:
    RETRIES = 3000           # rounds
    TAKEN = 6                 # units taken away at once, at most
    ROUNDS_WITHIN = 20        # tries to keep within firm budgets when nothing else did


cdef class LocalSearch:
    """Tries the best answer again."""

    def __init__(
        self, Space space, Levels levels, Relations relations, Effort effort, Incumbent
        incumbent,
    ):
        """The parts it works on."""
        self.space = space
        self.levels = levels
        self.relations = relations
        self.effort = effort
        self.incumbent = incumbent
        self.c = space.c

    cdef void retry(self) noexcept nogil:
        """Improve the best answer; the room for ``RETRIES`` rounds at most."""
        cdef int i, k, u, n, many, round_, start
        cdef unsigned int seed = 12345
        cdef vector[char] current = self.incumbent.best
        cdef vector[i64] cost = self.incumbent.best_cost
        cdef vector[int] chosen, banned
        cdef PackedCost scratch
        banned.assign(self.space.U, -1)
        for round_ in range(RETRIES):
            if self.effort.out_of_time():
                return
            chosen.clear()
            for u in range(self.space.U):
                if current[u] and self.space.status[u] == OPEN:
                    chosen.push_back(u)
            if chosen.size() == 0:
                return
            seed = seed * 1664525 + 1013904223
            start = chosen[(seed >> 8) % chosen.size()]
            many = 1 + <int>((seed >> 4) % TAKEN)
            self.start_trial(&current)
            self.flip(start)
            banned[start] = round_
            for i in range(1, many):
                # A neighbour of the first one, or any other.
                seed = seed * 1664525 + 1013904223
                u = chosen[(seed >> 8) % chosen.size()]
                k = self.relations.touch_first[start + 1] - self.relations.touch_first[start]
                if (seed >> 5) & 1 and k:
                    n = self.relations.touch_node[self.relations.touch_first[start] + <int>((seed >> 12) % k)]
                    for k in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
                        if self.trial[self.relations.entry_unit[self.relations.node_entry[k]]]:
                            u = self.relations.entry_unit[self.relations.node_entry[k]]
                if self.trial[u] and self.space.status[u] == OPEN:
                    self.flip(u)
                    banned[u] = round_
            if not self.complete_trial(&banned, round_, ON_TIME):
                continue
            if not self.incumbent.reduce(&self.trial):
                continue
            if self.incumbent.true_cost(&self.trial, scratch) and order(
                scratch, &cost[0], self.levels.full
            ) <= 0:
                put(&cost[0], scratch, self.levels.full)
                current = self.trial
                if not self.incumbent.cuts_off(scratch):
                    self.incumbent.keep(&current, scratch)

    cdef void start_trial(self, vector[char]* units) noexcept nogil:
        """The trial is these units."""
        cdef int u, n
        self.trial = units[0]
        self.trial_room = self.space.room0
        self.trial_waiting = self.space.waiting0
        for u in range(self.space.U):
            if self.trial[u]:
                self.space.move(u, 1, &self.trial_room, &self.trial_waiting)
        self.trial_slots.assign(self.space.N, 0)
        self.trial_seats = 0
        for n in range(self.space.N):
            if self.space.limit[n]:
                self.trial_slots[n] = <int>self.space.seats_on(n, &self.trial_room, &self.trial_waiting)
                self.trial_seats += self.trial_slots[n]
        self.effort.count(self.space.U + self.space.N)

    cdef void flip(self, int u) noexcept nogil:
        """Take the unit into the trial, or out of it."""
        cdef int i, n, now
        self.space.move(u, -1 if self.trial[u] else 1, &self.trial_room, &self.trial_waiting)
        self.trial[u] = not self.trial[u]
        for i in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
            n = self.relations.touch_node[i]
            now = <int>self.space.seats_on(n, &self.trial_room, &self.trial_waiting)
            self.trial_seats += now - self.trial_slots[n]
            self.trial_slots[n] = now

    cdef void forget_promises(self, int u) noexcept nogil:
        """The unit was flipped: what else touches its nodes promises something else now."""
        cdef int i, j, n
        for i in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
            n = self.relations.touch_node[i]
            for j in range(self.relations.node_first[n], self.relations.node_first[n + 1]):
                self.promise_known[self.relations.entry_unit[self.relations.node_entry[j]]] = 0
            for j in range(self.relations.lifted_first[n], self.relations.lifted_first[n + 1]):
                self.promise_known[self.relations.lifted_unit[j]] = 0

    cdef double promise(self, int u) noexcept nogil:
        """Seats that the unit gives to the trial, and parts of seats, for its cost.

        Counted as work whether it is known still or not: that what is known is kept shall not
        move the moment at which a search without a deadline ends.
        """
        self.effort.count(4 * (self.relations.touch_first[u + 1] - self.relations.touch_first[u]))
        if not self.promise_known[u]:
            self.promised[u] = self.promise_now(u)
            self.promise_known[u] = 1
        return self.promised[u]

    cdef double promise_now(self, int u) noexcept nogil:
        """As promise, from the trial's room."""
        cdef int i, n, r, now
        cdef double seats = 0, part, lack
        self.space.move(u, 1, &self.trial_room, &self.trial_waiting)
        for i in range(self.relations.touch_first[u], self.relations.touch_first[u + 1]):
            n = self.relations.touch_node[i]
            now = <int>self.space.seats_on(n, &self.trial_room, &self.trial_waiting)
            if now > self.trial_slots[n]:
                seats += now - self.trial_slots[n]
                continue
            part = 1
            for r in range(self.space.R):
                lack = <double>(
                    self.c.request[r] * (now + 1) - self.trial_room[n * self.space.R + r]
                ) / self.c.request[r]
                if lack > 0:
                    part = min(part, 1 - lack if lack < 1 else 0)
            seats += 0.3 * part
        self.space.move(u, -1, &self.trial_room, &self.trial_waiting)
        return seats / (1.0 + <double>self.relations.price[u * self.levels.full])

    cdef bint complete_trial(self, vector[int]* banned, int now, Ending ending) noexcept nogil:
        """Add what promises most until the gang fits; False when it does not, or not in time.

        Units banned in the round ``now`` are left alone, and what would exceed a budget that
        must not be exceeded. ``ending``: whether the time counts.
        """
        cdef int u, best, b
        cdef double most, value
        cdef bint firm = False
        for b in range(self.c.budgets):
            firm = firm or self.space.firm[b]
        if firm:
            self.trial_used.assign(self.c.budgets, 0)
            for u in range(self.space.U):
                if self.trial[u]:
                    self.use_budgets(u, 1)
        self.promised.resize(self.space.U)
        self.promise_known.assign(self.space.U, 0)
        while self.trial_seats < self.space.need:
            if ending == ON_TIME and self.effort.out_of_time():
                return False
            best = -1
            most = 0
            for u in range(self.space.U):
                if (
                    self.space.status[u] == OPEN and not self.trial[u] and banned[0][u] != now
                    and (not firm or self.room_in_budgets(u))
                ):
                    value = self.promise(u)
                    if value > most:
                        most = value
                        best = u
            if best < 0:
                return False
            self.flip(best)
            self.forget_promises(best)
            if firm:
                self.use_budgets(best, 1)
        return True

    cdef void use_budgets(self, int u, int sign) noexcept nogil:
        """The trial takes a unit, or gives it back (sign -1), as far as budgets go."""
        cdef int i
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            self.trial_used[self.c.use_budget[i]] += sign * self.c.use_pods[i]

    cdef bint room_in_budgets(self, int u) noexcept nogil:
        """Whether the trial may take the unit as far as firm budgets go."""
        cdef int i, b
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            b = self.c.use_budget[i]
            if self.space.firm[b] and self.trial_used[b] + self.c.use_pods[i] > self.space.allowed_pods[b]:
                return False
        return True

    cdef void offer_within(self) noexcept nogil:
        """An answer within the firm budgets, filled up from nothing: what promises most
        first, then, round by round, without some of what was taken before."""
        cdef int u, round_
        cdef unsigned int seed = 99
        cdef vector[char] nobody
        cdef vector[int] banned
        nobody.assign(self.space.U, 0)
        banned.assign(self.space.U, -1)
        for u in range(self.space.U):
            nobody[u] = self.space.status[u] == IN
        for round_ in range(ROUNDS_WITHIN):
            self.start_trial(&nobody)
            if self.complete_trial(&banned, round_, WHEN_DONE):
                self.incumbent.keep_if_better(&self.trial)
                if self.incumbent.have_best:
                    return
            if round_ and self.effort.late():
                return
            for u in range(self.space.U):
                if self.trial[u] and self.space.status[u] == OPEN:
                    seed = seed * 1664525 + 1013904223
                    if (seed >> 8) % 3 == 0:
                        banned[u] = round_ + 1
