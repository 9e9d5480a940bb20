# distutils: language = c++
"""Step 4: couplers are eliminated one by one (bucket elimination).

The frontiers of the nodes that a coupler touches are added up and the cheaper of its
two values is kept. Where a table would become too wide the bucket is split, which
gives a lower bound instead (mini-buckets). ``trace`` goes back from the rows that the
knapsack picked to the units behind them.
"""

from libcpp.algorithm cimport sort
from libcpp.vector cimport vector

from extender.search.core.mckp cimport MckpStatus, mckp_settle, mckp_solve
from extender.search.core.packed_cost cimport (
    PackedCost, i64, is_never, never, order, order_of_sum, plus, put,
)
from extender.search.core.states cimport WIDEST

cdef enum:
    TABLE_WORDS = 4000000     # int64 words in one table


cdef class Elimination:
    """The couplers' elimination in one relaxation, and the way back from it."""

    def __init__(
        self, Space space, Relations relations, Effort effort, Frontiers frontiers, Traced traced,
    ):
        """The parts it works on."""
        self.space = space
        self.relations = relations
        self.effort = effort
        self.frontiers = frontiers
        self.traced = traced
        self.pick.clock = &effort.clock

    cdef void forget_groups(self) noexcept nogil:
        """No factors, no records, no groups."""
        self.f_scope.clear()
        self.f_table.clear()
        self.f_most.clear()
        self.f_leaf.clear()
        self.f_dead.clear()
        self.r_inputs.clear()
        self.r_var.clear()
        self.r_output.clear()
        self.r_cost.clear()
        self.group_factor.clear()
        self.group_node.clear()
        self.forget_rows()
        self.pick.picks.clear()

    cdef void forget_rows(self) noexcept nogil:
        """The knapsack has no groups."""
        self.pick.most.clear()
        self.pick.rows.clear()

    cdef void add_rows(self, int most, const i64* rows) noexcept nogil:
        """One more group of the knapsack: its frontier, which outlives the relaxation."""
        self.pick.most.push_back(most)
        self.pick.rows.push_back(rows)

    cdef void set_rows(self, const vector[int]* most, const vector[const i64*]* rows) noexcept nogil:
        """These groups in place of the knapsack's."""
        self.pick.most = most[0]
        self.pick.rows = rows[0]

    cdef void start_knapsack(self, i64 most_states) noexcept nogil:
        """A knapsack for the demand, without groups yet; ``most_states``: states at most."""
        self.pick.w = self.relations.W
        self.pick.demand = self.frontiers.demand
        self.pick.most_states = most_states
        self.pick.work = 0

    cdef MckpStatus solve_knapsack(self, const i64* cutoff) noexcept nogil:
        """As mckp_solve; the work is counted."""
        cdef MckpStatus status = mckp_solve(&self.pick, cutoff)
        self.effort.count(self.pick.work)
        return status

    cdef void settle_knapsack(self, const i64* cutoff, vector[int]* settled) noexcept nogil:
        """As mckp_settle."""
        mckp_settle(&self.pick, cutoff, settled)

    cdef void set_picks(self, vector[int]* picks) noexcept nogil:
        """Seats of every group, in place of what the knapsack picked."""
        self.pick.picks.swap(picks[0])

    cdef bint eliminate(self) noexcept nogil:
        """Step 4: fill pick's groups; records allow ``trace`` to go back. False: time is up."""
        cdef int n, i, j, f, v, best, width, best_width, W = self.relations.W
        cdef vector[int] todo
        cdef vector[char] inside
        self.forget_groups()
        self.was_split = False
        self.v_factors.resize(self.space.V)
        inside.assign(self.space.V, 0)
        for n in range(self.space.N):
            if not self.relations.active[n]:
                continue
            if self.relations.dirty[n]:
                self.frontiers.build(n)
                if self.effort.late():
                    return False
            if self.frontiers.scope[n].size() == 0:
                if self.frontiers.most[n] > 0:
                    self.group_factor.push_back(-1)
                    self.group_node.push_back(n)
                    self.add_rows(self.frontiers.most[n], &self.frontiers.table[n][0])
                continue
            f = <int>self.f_scope.size()
            self.f_scope.push_back(self.frontiers.scope[n])
            self.f_table.push_back(self.frontiers.table[n])
            self.f_most.push_back(self.frontiers.most[n])
            self.f_leaf.push_back(n)
            self.f_dead.push_back(0)
            for i in range(<int>self.frontiers.scope[n].size()):
                v = self.frontiers.scope[n][i]
                if not inside[v]:
                    inside[v] = 1
                    todo.push_back(v)
                    self.v_factors[v].clear()
                self.v_factors[v].push_back(f)
        while todo.size():
            best = 0
            best_width = 1 << 20
            for i in range(<int>todo.size()):
                width = self.width_of(todo[i])
                if width < best_width:
                    best = i
                    best_width = width
                    if width <= 1:
                        break
            v = todo[best]
            todo[best] = todo.back()
            todo.pop_back()
            self.eliminate_one(v)
            if self.effort.late():
                return False
        for f in range(<int>self.f_scope.size()):
            if not self.f_dead[f] and self.f_scope[f].size() == 0 and self.f_most[f] > 0:
                self.group_factor.push_back(f)
                self.group_node.push_back(-1)
                self.add_rows(self.f_most[f], &self.f_table[f][0])
        # A frontier that an earlier relaxation had to leave short is not dirty any more.
        return not self.effort.late()

    cdef int width_of(self, int v) noexcept nogil:
        """How many couplers would share a table if v were eliminated now."""
        cdef int i, j, f, width = 0
        cdef vector[int] found
        for i in range(<int>self.v_factors[v].size()):
            f = self.v_factors[v][i]
            if not self.f_dead[f]:
                for j in range(<int>self.f_scope[f].size()):
                    found.push_back(self.f_scope[f][j])
        sort(found.begin(), found.end())
        for i in range(<int>found.size()):
            if i == 0 or found[i] != found[i - 1]:
                width += 1
        return width

    cdef void eliminate_one(self, int v) noexcept nogil:
        """Split the factors with v into buckets that are narrow enough; minimise each over v."""
        cdef int i, j, f, b, k, parts, W = self.relations.W
        cdef vector[vector[int]] buckets, scopes
        cdef vector[int] mine, joined
        cdef vector[i64] most, cost, share
        cdef i64 reach
        for i in range(<int>self.v_factors[v].size()):
            f = self.v_factors[v][i]
            if not self.f_dead[f]:
                mine.push_back(f)
        # Widest first, so that narrow factors fill up what is there.
        for i in range(1, <int>mine.size()):
            f = mine[i]
            j = i
            while j > 0 and self.f_scope[mine[j - 1]].size() < self.f_scope[f].size():
                mine[j] = mine[j - 1]
                j -= 1
            mine[j] = f
        for i in range(<int>mine.size()):
            f = mine[i]
            for b in range(<int>buckets.size() + 1):
                if b == <int>buckets.size():
                    buckets.push_back(vector[int]())
                    scopes.push_back(vector[int]())
                    most.push_back(0)
                self.join_scope(&scopes[b], &self.f_scope[f], &joined)
                reach = most[b] + self.f_most[f]
                if reach > self.frontiers.demand:
                    reach = self.frontiers.demand
                if buckets[b].size() == 0 or (
                    <int>joined.size() <= WIDEST
                    and (<i64>1 << <int>joined.size()) * (reach + 1) * W < TABLE_WORDS
                ):
                    buckets[b].push_back(f)
                    scopes[b] = joined
                    most[b] = reach
                    break
        cost.assign(W, 0)
        if v < self.space.U:
            put(&cost[0], &self.relations.eff[v * W], W)
            parts = self.relations.touch_first[v + 1] - self.relations.touch_first[v]
            for i in range(W):
                cost[i] -= (cost[i] // parts) * self.frontiers.relaxed_uses[v]
        else:
            put(&cost[0], &self.relations.break_eff[(v - self.space.U) * W], W)
        share = cost
        parts = <int>buckets.size()
        self.was_split = self.was_split or parts > 1
        for i in range(W):
            share[i] = cost[i] // parts
        for b in range(parts):
            if b == 0:
                for i in range(W):
                    cost[i] -= share[i] * (parts - 1)
                self.minimise(v, &buckets[b], &scopes[b], <int>most[b], &cost)
            else:
                self.minimise(v, &buckets[b], &scopes[b], <int>most[b], &share)

    cdef void join_scope(
        self, vector[int]* a, vector[int]* b, vector[int]* into
    ) noexcept nogil:
        """The ordered union of two ordered scopes."""
        cdef int i = 0, j = 0
        into.clear()
        while i < <int>a.size() or j < <int>b.size():
            if j >= <int>b.size() or (i < <int>a.size() and a[0][i] < b[0][j]):
                into.push_back(a[0][i])
                i += 1
            else:
                if i < <int>a.size() and a[0][i] == b[0][j]:
                    i += 1
                into.push_back(b[0][j])
                j += 1

    cdef int project(self, vector[int]* scope, int bits, vector[int]* onto) noexcept nogil:
        """Bits over ``scope`` read as bits over the smaller scope ``onto``."""
        cdef int i = 0, j, found = 0
        for j in range(<int>onto.size()):
            while scope[0][i] != onto[0][j]:
                i += 1
            found |= ((bits >> i) & 1) << j
        return found

    cdef void minimise(
        self, int v, vector[int]* bucket, vector[int]* joined, int most, vector[i64]* cost
    ) noexcept nogil:
        """New factor: sum of the bucket's factors, the cheaper value of v for each row."""
        cdef int W = self.relations.W, i, at, bits, full, value, f, k, out
        cdef vector[int] scope
        cdef vector[i64] table, sum_
        cdef vector[int] fwidth
        cdef i64* row
        for i in range(<int>joined.size()):
            if joined[0][i] == v:
                at = i
            else:
                scope.push_back(joined[0][i])
        table.resize((<i64>1 << <int>scope.size()) * (most + 1) * W)
        for bits in range(1 << <int>scope.size()):
            if self.effort.late():
                break  # eliminate sees it too, and uses none of this
            row = &table[<i64>bits * (most + 1) * W]
            for k in range(most + 1):
                never(row + k * W, W)
            for value in range(2):
                full = (bits & ((1 << at) - 1)) | (value << at) | ((bits >> at) << (at + 1))
                self.add_up(bucket, joined, full, <int>bucket.size(), most, &sum_)
                for k in range(<int>(sum_.size() // W)):
                    if is_never(&sum_[k * W]):
                        continue
                    if value:
                        plus(&sum_[k * W], &cost[0][0], W)
                    if order(&sum_[k * W], row + k * W, W) < 0:
                        put(row + k * W, &sum_[k * W], W)
        out = <int>self.f_scope.size()
        for i in range(<int>bucket.size()):
            self.f_dead[bucket[0][i]] = 1
        for i in range(<int>scope.size()):
            self.v_factors[scope[i]].push_back(out)
        self.f_scope.push_back(scope)
        self.f_table.push_back(table)
        self.f_most.push_back(most)
        self.f_leaf.push_back(-1)
        self.f_dead.push_back(0)
        self.r_var.push_back(v)
        self.r_output.push_back(out)
        self.r_inputs.push_back(bucket[0])
        self.r_cost.push_back(cost[0])

    cdef void add_up(
        self, vector[int]* bucket, vector[int]* joined, int full, int parts, int most,
        vector[i64]* into
    ) noexcept nogil:
        """Frontier of the first ``parts`` factors together, couplers set to ``full``."""
        cdef int W = self.relations.W, i, f, a, b, size, width, target
        cdef const i64* rows
        cdef vector[i64] next_
        into.assign(W, 0)
        size = 0
        for i in range(parts):
            f = bucket[0][i]
            rows = &self.f_table[f][
                <i64>self.project(joined, full, &self.f_scope[f]) * (self.f_most[f] + 1) * W
            ]
            width = size + self.f_most[f]
            if width > most:
                width = most
            next_.resize((width + 1) * W)
            for a in range(width + 1):
                never(&next_[a * W], W)
            for a in range(size + 1):
                if is_never(&into[0][a * W]):
                    break
                for b in range(self.f_most[f] + 1):
                    if is_never(rows + b * W):
                        break
                    target = a + b if a + b < width else width
                    if order_of_sum(&into[0][a * W], rows + b * W, &next_[target * W], W) < 0:
                        put(&next_[target * W], &into[0][a * W], W)
                        plus(&next_[target * W], rows + b * W, W)
            self.effort.count(<i64>(size + 1) * (self.f_most[f] + 1))
            for a in range(width - 1, -1, -1):
                if order(&next_[(a + 1) * W], &next_[a * W], W) < 0:
                    put(&next_[a * W], &next_[(a + 1) * W], W)
            into.swap(next_)
            size = width

    cdef void trace(self) noexcept nogil:
        """From picks back to couplers and units: fills chosen, seen_one, seen_zero."""
        cdef int g, f, r, k, factors = <int>self.f_scope.size()
        self.traced.forget()
        self.f_want.assign(factors, 0)
        self.f_bits.assign(factors, 0)
        for g in range(<int>self.pick.picks.size()):
            k = self.pick.picks[g]
            if self.group_node[g] >= 0:
                self.frontiers.take_on_node(self.group_node[g], 0, k)
            else:
                self.f_want[self.group_factor[g]] = k
        for r in range(<int>self.r_var.size() - 1, -1, -1):
            if self.effort.late():
                return  # the units found so far are no answer, which ``reduce`` sees
            self.trace_record(r)
        for f in range(factors):
            if self.f_leaf[f] >= 0:
                self.frontiers.take_on_node(self.f_leaf[f], self.f_bits[f], self.f_want[f])

    cdef void trace_record(self, int r) noexcept nogil:
        """Which value of the record's coupler, and how many seats from each input."""
        cdef int W = self.relations.W, out = self.r_output[r], i, at = 0, value, full, f, k, a, b, j
        cdef int bits = self.f_bits[out], want = self.f_want[out], most = self.f_most[out]
        cdef int parts = <int>self.r_inputs[r].size()
        cdef vector[int] joined, one
        cdef vector[vector[i64]] sums
        cdef PackedCost scratch
        cdef const i64* goal = &self.f_table[out][(<i64>bits * (most + 1) + want) * W]
        cdef const i64* rows
        cdef bint found
        one.push_back(self.r_var[r])
        self.join_scope(&self.f_scope[out], &one, &joined)
        for i in range(<int>joined.size()):
            if joined[i] == self.r_var[r]:
                at = i
        sums.resize(parts + 1)
        for value in range(2):
            full = (bits & ((1 << at) - 1)) | (value << at) | ((bits >> at) << (at + 1))
            for i in range(parts + 1):
                self.add_up(&self.r_inputs[r], &joined, full, i, most, &sums[i])
            if want * W >= <int>sums[parts].size() or is_never(&sums[parts][want * W]):
                continue
            put(&scratch[0], &sums[parts][want * W], W)
            if value:
                plus(&scratch[0], &self.r_cost[r][0], W)
            if order(&scratch[0], goal, W) == 0:
                break
        k = want
        for i in range(parts - 1, -1, -1):
            f = self.r_inputs[r][i]
            j = self.project(&joined, full, &self.f_scope[f])
            self.f_bits[f] = j
            rows = &self.f_table[f][<i64>j * (self.f_most[f] + 1) * W]
            found = False
            for a in range(<int>(sums[i].size() // W)):
                if is_never(&sums[i][a * W]):
                    break
                for b in range(self.f_most[f] + 1):
                    if is_never(rows + b * W):
                        break
                    if a + b >= k and order_of_sum(
                        &sums[i][a * W], rows + b * W, &sums[i + 1][k * W], W
                    ) == 0:
                        found = True
                        break
                if found:
                    self.f_want[f] = b
                    k = a
                    break
