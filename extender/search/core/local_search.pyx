# distutils: language = c++
"""Better answers where gangs overlap too much for the tables: take some away, fill up anew.

A few chosen units that share nodes are forbidden for one round, the answer is completed
with what promises most seats for its cost, and what became needless is put back. The
choice of what to take away follows a fixed sequence, so that equal problems get equal
answers. It proves nothing.
"""

from libcpp.vector cimport vector

from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport i64, order, put
from extender.search.core.lexicographic cimport Lexicographic
from extender.search.core.states cimport IN, OPEN

cdef enum:
    RETRIES = 3000           # rounds
    TAKEN = 6                 # units taken away at once, at most
    ROUNDS_WITHIN = 20        # tries to keep within firm budgets when nothing else did


cdef class LocalSearch(Lexicographic):
    """A region that can try its best answer again."""

    cdef void retry(self) noexcept nogil:
        """Improve the best answer; the room for ``RETRIES`` rounds at most."""
        cdef int i, k, u, n, many, round_, start
        cdef unsigned int seed = 12345
        cdef vector[char] current = self.best
        cdef vector[i64] cost = self.best_cost
        cdef vector[int] chosen, banned
        cdef bint allowed
        banned.assign(self.U, -1)
        for round_ in range(RETRIES):
            if self.out_of_time():
                return
            chosen.clear()
            for u in range(self.U):
                if current[u] and self.status[u] == OPEN:
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
                k = self.touch_first[start + 1] - self.touch_first[start]
                if (seed >> 5) & 1 and k:
                    n = self.touch_node[self.touch_first[start] + <int>((seed >> 12) % k)]
                    for k in range(self.node_first[n], self.node_first[n + 1]):
                        if self.trial[self.entry_unit[self.node_entry[k]]]:
                            u = self.entry_unit[self.node_entry[k]]
                if self.trial[u] and self.status[u] == OPEN:
                    self.flip(u)
                    banned[u] = round_
            if not self.complete_trial(&banned, round_):
                continue
            if not self.reduce(&self.trial):
                continue
            self.true_cost(&self.trial, &self.scratch[0], &allowed)
            if allowed and order(&self.scratch[0], &cost[0], self.full) <= 0:
                put(&cost[0], &self.scratch[0], self.full)
                current = self.trial
                if order(&cost[0], &self.best_cost[0], self.full) < 0:
                    put(&self.best_cost[0], &cost[0], self.full)
                    self.best = current

    cdef void start_trial(self, vector[char]* units) noexcept nogil:
        cdef int u, n
        self.trial = units[0]
        self.trial_room = self.room0
        self.trial_waiting = self.waiting0
        for u in range(self.U):
            if self.trial[u]:
                self.move(u, 1, &self.trial_room, &self.trial_waiting)
        self.trial_slots.assign(self.N, 0)
        self.trial_seats = 0
        for n in range(self.N):
            if self.limit[n]:
                self.trial_slots[n] = <int>self.slots(
                    n, &self.trial_room[n * self.R] if self.R else NULL, self.trial_waiting[n]
                )
                self.trial_seats += self.trial_slots[n]
        self.work += self.U + self.N

    cdef void flip(self, int u) noexcept nogil:
        """Take the unit into the trial, or out of it."""
        cdef int i, n, now
        self.move(u, -1 if self.trial[u] else 1, &self.trial_room, &self.trial_waiting)
        self.trial[u] = not self.trial[u]
        for i in range(self.touch_first[u], self.touch_first[u + 1]):
            n = self.touch_node[i]
            now = <int>self.slots(
                n, &self.trial_room[n * self.R] if self.R else NULL, self.trial_waiting[n]
            )
            self.trial_seats += now - self.trial_slots[n]
            self.trial_slots[n] = now

    cdef double promise(self, int u) noexcept nogil:
        """Seats that the unit gives to the trial, and parts of seats, for its cost."""
        cdef int i, n, r, now
        cdef double seats = 0, part, lack
        self.move(u, 1, &self.trial_room, &self.trial_waiting)
        for i in range(self.touch_first[u], self.touch_first[u + 1]):
            n = self.touch_node[i]
            now = <int>self.slots(
                n, &self.trial_room[n * self.R] if self.R else NULL, self.trial_waiting[n]
            )
            if now > self.trial_slots[n]:
                seats += now - self.trial_slots[n]
                continue
            part = 1
            for r in range(self.R):
                lack = <double>(
                    self.c.request[r] * (now + 1) - self.trial_room[n * self.R + r]
                ) / self.c.request[r]
                if lack > 0:
                    part = min(part, 1 - lack if lack < 1 else 0)
            seats += 0.3 * part
        self.move(u, -1, &self.trial_room, &self.trial_waiting)
        self.work += 4 * (self.touch_first[u + 1] - self.touch_first[u])
        return seats / (1.0 + <double>self.price[u * self.full])

    cdef bint complete_trial(self, vector[int]* banned, int now) noexcept nogil:
        """Add what promises most until the gang fits; False when it does not.

        What would exceed a budget that must not be exceeded is left alone.
        """
        cdef int u, best, b
        cdef double most, value
        cdef bint firm = False
        for b in range(self.c.budgets):
            firm = firm or self.firm[b]
        if firm:
            self.trial_used.assign(self.c.budgets, 0)
            for u in range(self.U):
                if self.trial[u]:
                    self.use_budgets(u, 1)
        while self.trial_seats < self.need:
            if now >= 0 and self.out_of_time():
                return False
            best = -1
            most = 0
            for u in range(self.U):
                if (
                    self.status[u] == OPEN and not self.trial[u] and banned[0][u] != now
                    and (not firm or self.room_in_budgets(u))
                ):
                    value = self.promise(u)
                    if value > most:
                        most = value
                        best = u
            if best < 0:
                return False
            self.flip(best)
            if firm:
                self.use_budgets(best, 1)
        return True

    cdef void use_budgets(self, int u, int sign) noexcept nogil:
        cdef int i
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            self.trial_used[self.c.use_budget[i]] += sign * self.c.use_pods[i]

    cdef bint room_in_budgets(self, int u) noexcept nogil:
        """Whether the trial may take the unit as far as firm budgets go."""
        cdef int i, b
        for i in range(self.c.use_first[u], self.c.use_first[u + 1]):
            b = self.c.use_budget[i]
            if self.firm[b] and self.trial_used[b] + self.c.use_pods[i] > self.allowed_pods[b]:
                return False
        return True

    cdef void offer_within(self) noexcept nogil:
        """An answer within the firm budgets, filled up from nothing: what promises most
        first, then, round by round, without some of what was taken before."""
        cdef int u, round_
        cdef unsigned int seed = 99
        cdef vector[char] nobody
        cdef vector[int] banned
        nobody.assign(self.U, 0)
        banned.assign(self.U, -1)
        for u in range(self.U):
            nobody[u] = self.status[u] == IN
        for round_ in range(ROUNDS_WITHIN):
            self.start_trial(&nobody)
            if self.complete_trial(&banned, -2 - round_):
                self.keep_if_better(&self.trial)
                if self.have_best:
                    return
            if round_ and late(&self.clock):
                return
            for u in range(self.U):
                if self.trial[u] and self.status[u] == OPEN:
                    seed = seed * 1664525 + 1013904223
                    if (seed >> 8) % 3 == 0:
                        banned[u] = -3 - round_
