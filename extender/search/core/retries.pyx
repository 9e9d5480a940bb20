# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# distutils: language = c++
"""Better answers where gangs overlap too much for the tables: take some away, fill up anew.

A few chosen units that share nodes are forbidden for one round, the answer is completed
with what promises most seats for its cost, and what became needless is put back. The
choice of what to take away follows a fixed sequence, so that equal problems get equal
answers. It proves nothing.
"""

from libcpp.vector cimport vector

from extender.search.core.limbs cimport i64, order, put
from extender.search.core.stages cimport Stages
from extender.search.core.states cimport OPEN

cdef enum:
    RETRIES = 3000           # rounds
    TAKEN = 6                 # units taken away at once, at most


cdef class Retries(Stages):
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
        """Add what promises most until the gang fits; False when it does not."""
        cdef int u, best
        cdef double most, value
        while self.trial_seats < self.need:
            best = -1
            most = 0
            for u in range(self.U):
                if self.status[u] == OPEN and not self.trial[u] and banned[0][u] != now:
                    value = self.promise(u)
                    if value > most:
                        most = value
                        best = u
            if best < 0:
                return False
            self.flip(best)
        return True
