# distutils: language = c++
"""A lower bound for gangs of several classes: every node on its own, all classes at once.

A node has rows: so many members of each class, and the least cost of room for them there
(a covering knapsack, cover.pyx). One row of every node is picked so that each class has
its seats, at least total cost: dynamic programming over the members seated so far, which
is exact. What ties nodes together is let go as elsewhere: a unit that spans several nodes
is paid in equal parts, as is a gang's break by its pods; a surplus and budgets with pods
left cost nothing. Where none of that comes up the answer is the optimum.
"""

from libc.stdint cimport INT64_MAX
from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.cover cimport Cover, cover_solve
from extender.search.core.effort cimport Effort
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport (
    PackedCost, i64, is_never, never, order, order_of_sum, plus, put, wide, zero,
)
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space
from extender.search.core.states cimport COVER_BRANCHES
from extender.search.core.traced cimport Traced

cdef enum:
    MOST_ROWS = 300           # per node
    MOST_STATES = 40000       # members seated so far, class by class
    MOST_TRACED = 30000000    # nodes times states

cdef i64 MOST_STEPS = 400000000  # of the dynamic programming


cdef class MultiClassBound:
    """One region of a problem with C classes in which every member needs a seat."""

    cdef Space space
    cdef Levels levels
    cdef Relations relations
    cdef Traced traced
    cdef Frontiers frontiers
    cdef Effort effort
    cdef int C, S                      # classes, states
    cdef vector[i64] requests          # C*R
    cdef vector[int] counts, strides   # C
    cdef vector[int] most_of           # N*C: members at most, room aside
    cdef vector[int] together          # N: members of all classes at most
    cdef vector[int] row_first         # N + 1
    cdef vector[int] row_members       # rows * C
    cdef vector[i64] row_cost          # rows * W
    cdef vector[unsigned short] from_state, from_row   # nodes * S
    cdef vector[int] places            # nodes with rows
    cdef bint too_wide

    def __init__(
        self, Columns columns, bytes inside, int extra_level, gone, kept, requests, counts,
        allowed, together,
    ):
        """``columns``: all members as one class that asks the most of each resource and may
        use only what all of them may; what seats it seats everybody.

        requests (C, R), counts (C,), allowed (C, N), together (N,): members on a node at
        most. No blockers. Raises Doubtful as BranchAndBound.
        """
        cdef int c, r, n, k, most
        cdef const unsigned char[::1] mask = inside
        cdef vector[char] gaining
        self.space = Space(columns, inside, gone, kept, -1, None, ())
        self.effort = Effort()
        self.levels = Levels(self.space)
        self.relations = Relations(self.space, self.levels)
        self.traced = Traced(self.space, self.relations)
        self.frontiers = Frontiers(self.space, self.relations, self.effort, self.traced)
        if self.space.settled_free or not self.space.possible:
            # That was about the largest member; the levels have to be sorted all the same.
            self.space.drop_dear_levels()
        self.levels.pack_levels(extra_level)
        self.C = len(counts)
        self.counts = counts
        for c in range(self.C):
            for k in range(self.space.R):
                r = columns.kept[k]
                self.requests.push_back(requests[c][r])
        self.together = together
        self.most_of.assign(self.space.N * self.C, 0)
        for c in range(self.C):
            for n in range(self.space.N):
                if mask[n] and allowed[c][n]:
                    most = min(self.counts[c], self.together[n])
                    self.space.allow(n, most)
                    self.most_of[n * self.C + c] = most
        self.strides.assign(self.C, 1)
        self.S = 1
        self.too_wide = False
        for c in range(self.C):
            self.strides[c] = self.S
            if <i64>self.S * (self.counts[c] + 1) > MOST_STATES:
                self.too_wide = True
                break
            self.S *= self.counts[c] + 1
        with nogil:
            self.seating_nodes(&gaining)
            self.relations.relate(&gaining)
            self.traced.lay()
            self.frontiers.lay_tables()
            self.frontiers.start_sharing()

    cdef void seating_nodes(self, vector[char]* into) noexcept nogil:
        """(N,) every node that some class may use: rows tell the rest."""
        cdef int n, c
        into.assign(self.space.N, 0)
        for n in range(self.space.N):
            for c in range(self.C):
                if self.most_of[n * self.C + c]:
                    into[0][n] = 1

    cdef void rows_of(self, int n) noexcept nogil:
        """Append the node's rows: members of each class, least cost; the empty row is first."""
        cdef int c, r, i, C = self.C, R = self.space.R, W = self.relations.W, total, first, rows
        cdef Cover cover
        cdef PackedCost bound
        cdef vector[int] members, most
        cdef vector[i64] whole, amounts
        cdef bint laid = False, fits
        cdef i64 asked
        cdef wide every
        first = <int>self.row_cost.size() // W
        members.assign(C, 0)
        most.assign(C, 0)
        amounts.assign(R + 1, 0)
        self.frontiers.start_node(n, &whole)
        rows = 1
        for c in range(C):
            most[c] = self.most_of[n * C + c]
            for r in range(R):
                asked = self.requests[c * R + r]
                if asked > 0 and <wide>whole[r] < <wide>most[c] * <wide>asked:
                    most[c] = <int>(whole[r] // asked) if whole[r] > 0 else 0
            rows *= most[c] + 1
            if rows > MOST_ROWS:
                self.too_wide = True
                return
        while True:
            total = 0
            for c in range(C):
                total += members[c]
            fits = total <= self.together[n]
            for r in range(R):
                # Each class alone fits; all of them together may be beyond an int64.
                every = 0
                for c in range(C):
                    every += <wide>members[c] * <wide>self.requests[c * R + r]
                if every > <wide>0 and every > <wide>whole[r]:
                    fits = False
                else:
                    amounts[r] = <i64>every
            if fits:
                if self.effort.late():
                    return
                if self.frontiers.ask(&amounts[0]):
                    if not laid:
                        self.frontiers.lay_node(n, &cover)
                        laid = True
                    cover.branches_left = COVER_BRANCHES
                    cover_solve(&cover, bound)
                    fits = not is_never(cover.best)
                    if fits and cover.exact:
                        put(bound, cover.best, W)
                    self.effort.count(cover.work * 4)
                    cover.work = 0
                else:
                    zero(bound, W)
            if fits:
                for c in range(C):
                    self.row_members.push_back(members[c])
                for i in range(W):
                    self.row_cost.push_back(bound[i])
            c = 0
            while c < C and members[c] == most[c]:
                members[c] = 0
                c += 1
            if c == C:
                break
            members[c] += 1
        self.drop_beaten(first)

    cdef void drop_beaten(self, int first) noexcept nogil:
        """Of the rows from ``first`` keep those that no row with more members undercuts."""
        cdef int C = self.C, W = self.relations.W, rows = <int>self.row_cost.size() // W
        cdef int i, j, c, kept = first + 1
        cdef bint beaten
        for i in range(first + 1, rows):
            beaten = False
            # Rows with more members come later.
            for j in range(i + 1, rows):
                if order(&self.row_cost[j * W], &self.row_cost[i * W], W) > 0:
                    continue
                beaten = True
                for c in range(C):
                    if self.row_members[j * C + c] < self.row_members[i * C + c]:
                        beaten = False
                        break
                if beaten:
                    break
            if not beaten:
                for c in range(C):
                    self.row_members[kept * C + c] = self.row_members[i * C + c]
                put(&self.row_cost[kept * W], &self.row_cost[i * W], W)
                kept += 1
        self.row_members.resize(kept * C)
        self.row_cost.resize(kept * W)

    cdef bint pick(self, i64* value) noexcept nogil:
        """Dynamic programming over the nodes; False when the members cannot be seated."""
        cdef int C = self.C, W = self.relations.W, S = self.S, p, n, i, c, s, target, digit, last
        cdef vector[i64] now, then
        cdef vector[int] digits
        cdef i64 at
        digits.resize(S * C)
        for s in range(S):
            for c in range(C):
                digits[s * C + c] = (s // self.strides[c]) % (self.counts[c] + 1)
        now.assign(S * W, 0)
        for s in range(1, S):
            never(&now[s * W], W)
        self.from_state.resize(<i64>self.places.size() * S)
        self.from_row.assign(<i64>self.places.size() * S, 0)
        for p in range(<int>self.places.size()):
            then = now
            at = <i64>p * S
            for s in range(S):
                self.from_state[at + s] = <unsigned short>s
            for i in range(self.row_first[p] + 1, self.row_first[p + 1]):
                if self.effort.late():
                    return False
                for s in range(S):
                    if is_never(&now[s * W]):
                        continue
                    target = 0
                    for c in range(C):
                        digit = digits[s * C + c] + self.row_members[i * C + c]
                        target += self.strides[c] * min(digit, self.counts[c])
                    if target != s and order_of_sum(
                        &now[s * W], &self.row_cost[i * W], &then[target * W], W
                    ) < 0:
                        put(&then[target * W], &now[s * W], W)
                        plus(&then[target * W], &self.row_cost[i * W], W)
                        self.from_state[at + target] = <unsigned short>s
                        self.from_row[at + target] = <unsigned short>(i - self.row_first[p])
            now.swap(then)
        last = S - 1
        if is_never(&now[last * W]):
            return False
        put(value, &now[last * W], W)
        return True

    cdef void trace_rows(self, vector[int]* uses) noexcept nogil:
        """uses (U,): on how many nodes the picked rows take each unit."""
        cdef int C = self.C, R = self.space.R, p, c, r, i, s = self.S - 1, n, row
        cdef Cover cover
        cdef PackedCost bound
        cdef vector[i64] amounts
        uses.assign(self.space.U, 0)
        for p in range(<int>self.places.size() - 1, -1, -1):
            row = self.from_row[<i64>p * self.S + s]
            s = self.from_state[<i64>p * self.S + s]
            if row == 0:
                continue
            n = self.places[p]
            row += self.row_first[p]
            self.frontiers.start_node(n, NULL)
            amounts.assign(R + 1, 0)
            for r in range(R):
                for c in range(C):
                    amounts[r] += self.row_members[row * C + c] * self.requests[c * R + r]
            if not self.frontiers.ask(&amounts[0]):
                continue
            self.frontiers.lay_node(n, &cover)
            cover.branches_left = COVER_BRANCHES
            cover_solve(&cover, bound)
            for i in range(cover.taken_count):
                uses[0][self.frontiers.item_unit[cover.taken[i]]] += 1

    def search(self, double deadline, cancel):
        """(bound (L,), units, torn units), None when they cannot be seated, () when too wide
        or when the time is up.

        The bound is of what comes on top of the gone units. Units: what the picked rows
        take; torn: those of them taken on some of their nodes only.
        """
        cdef int n, u, i
        cdef PackedCost value
        cdef i64 steps = 0
        cdef bint seated
        cdef vector[int] uses
        if self.too_wide:
            return ()
        self.effort.start(INT64_MAX, deadline, cancel)
        with nogil:
            for n in range(self.space.N):
                if self.effort.late():
                    self.too_wide = True
                    break
                if self.relations.relevant[n]:
                    self.row_first.push_back(<int>self.row_cost.size() // self.relations.W)
                    self.places.push_back(n)
                    self.rows_of(n)
                    if self.too_wide:
                        break
                    if <int>self.row_cost.size() // self.relations.W == self.row_first.back() + 1:
                        # Nobody can ever sit there.
                        self.row_members.resize(self.row_first.back() * self.C)
                        self.row_cost.resize(self.row_first.back() * self.relations.W)
                        self.row_first.pop_back()
                        self.places.pop_back()
            self.row_first.push_back(<int>self.row_cost.size() // self.relations.W)
        steps = <i64>self.row_first.back() * self.S
        if self.too_wide or steps > MOST_STEPS or <i64>self.places.size() * self.S > MOST_TRACED:
            return ()
        with nogil:
            seated = self.pick(value)
            if seated and not self.effort.clock.over:
                self.trace_rows(&uses)
                plus(value, &self.levels.extra[0], self.relations.W)
                self.levels.raise_fields(value)
        if self.effort.clock.over:
            return ()
        if not seated:
            return None
        units = [u for u in range(self.space.U) if uses[u]]
        torn = [u for u in units if uses[u] < self.relations.touch_first[u + 1] - self.relations.touch_first[u]]
        free = [u for u in range(self.space.U) if self.space.is_free[u]]
        return tuple(self.levels.unpack(value)), units + free, torn
