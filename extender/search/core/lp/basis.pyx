# distutils: language = c++
"""A linear program over choices: its columns, its basis, its prices.

Of every group one column is wanted, rows tie groups together. The groups' own rows
("the parts of a group add up to one") are kept out of the basis: generalised upper
bounds, Dantzig and Van Slyke 1967. A group's key column is in the answer without a
place in the basis; the others count as their difference from it. Every row has two
columns of its own: ``2 * row`` takes up what is left of it, ``2 * row + 1`` what is too
much, at the price that its cost says. A program is thus never without an answer.

Floating point: what comes out are proposals (prices, parts), never a proof.
"""

from libc.math cimport fabs
from libcpp.vector cimport vector

from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport i64


cdef double SLIP = 1e-7       # how far below zero a value may lie


cdef class Basis:
    """The program, its basis and its prices."""

    cdef void start(self, int rows, int groups, Clock* clock) noexcept nogil:
        """No row counts yet; every group has an empty column, its first.

        Rows are limits at most; ``clock`` outlives the program.
        """
        cdef int i, g
        cdef double value
        self.clock = clock
        self.rows = rows
        self.groups = groups
        self.m = 0
        self.sign.assign(rows, 1)
        self.limit.assign(rows, 0)
        self.at.assign(rows, OUTSIDE)
        self.row_at.clear()
        self.group.clear()
        self.first.assign(1, 0)
        self.entry_row.clear()
        self.entry.clear()
        self.cost.clear()
        self.barred.clear()
        self.place.clear()
        self.basic.clear()
        self.key.assign(groups, 0)
        self.key_x.assign(groups, 1.0)
        self.sigma_step.assign(groups, -1)
        self.sigma.assign(groups, 0)
        self.rate.assign(groups, 0)
        self.step = 0
        self.since = 0
        self.work = 0
        for i in range(rows):
            value = 1.0
            self.add(-1, &i, &value, 1)
            value = -1.0
            self.add(-1, &i, &value, 1)
        for g in range(groups):
            self.key[g] = self.add(g, NULL, NULL, 0)
            self.place[self.key[g]] = KEY

    cdef int add(
        self, int group, const int* rows, const double* values, int count
    ) noexcept nogil:
        """A new column, outside the basis; its index."""
        cdef int i
        for i in range(count):
            self.entry_row.push_back(rows[i])
            self.entry.push_back(values[i])
        self.first.push_back(<int>self.entry_row.size())
        self.group.push_back(group)
        self.cost.push_back(0)
        self.barred.push_back(0)
        self.place.push_back(OUTSIDE)
        return <int>self.group.size() - 1

    cdef void at_least(self, int row) noexcept nogil:
        """The row's limit is one from below; before the row counts."""
        self.sign[row] = -1

    cdef void set_cost(self, int column, double cost) noexcept nogil:
        """What the column costs when the prices are next worked out."""
        self.cost[column] = cost

    cdef void bar(self, int column, bint barred) noexcept nogil:
        """Whether the column may not enter the basis; one that is there stays."""
        self.barred[column] = barred

    cdef bint counts(self, int row) noexcept nogil:
        """Whether the row counts."""
        return self.at[row] >= 0

    cdef int taken_count(self) noexcept nogil:
        """Columns that the answer rests on."""
        return self.m + self.groups

    cdef Taken taken(self, int p) noexcept nogil:
        """The p-th of them."""
        cdef Taken found
        if p < self.m:
            found.column = self.basic[p]
            found.part = self.x[p]
        else:
            found.column = self.key[p - self.m]
            found.part = self.key_x[p - self.m]
        return found

    cdef double entry_of(self, int column, int row) noexcept nogil:
        """The column's entry in that row."""
        cdef int e
        for e in range(self.first[column], self.first[column + 1]):
            if self.entry_row[e] == row:
                return self.entry[e]
        return 0

    cdef i64 take_work(self) noexcept nogil:
        """Elementary steps since this was asked last."""
        cdef i64 work = self.work
        self.work = 0
        return work

    cdef double unit_entry(self, int column) noexcept nogil:
        """Entry of a row's own column: what is left counts with the row's sign."""
        cdef double value = self.sign[column >> 1]
        return -value if column & 1 else value

    cdef void restart(self) noexcept nogil:
        """Back to empty columns and the rows' own."""
        cdef int j, g, p
        for j in range(<int>self.place.size()):
            self.place[j] = OUTSIDE
        for g in range(self.groups):
            self.key[g] = 2 * self.rows + g
            self.place[self.key[g]] = KEY
        for p in range(self.m):
            self.basic[p] = 2 * self.row_at[p]
            self.place[self.basic[p]] = p
        self.refactor()

    cdef void activate(self, int row, double limit) noexcept nogil:
        """Let a row count; ``refactor`` has to follow."""
        self.limit[row] = limit
        if self.at[row] >= 0:
            return
        self.at[row] = self.m
        self.row_at.push_back(row)
        self.basic.push_back(2 * row)
        self.place[2 * row] = self.m
        self.m += 1

    cdef void set_limit(self, int row, double limit) noexcept nogil:
        """A new limit for a row that counts."""
        if self.limit[row] == limit:
            return
        self.limit[row] = limit
        self.evaluate()
        if not self.mend():
            self.restart()

    cdef void refactor(self) noexcept nogil:
        """The inverse anew from the basic columns; rows' own columns first."""
        cdef int p, q, j, best, m = self.m
        cdef vector[int] others, free
        self.since = 0
        self.inverse.assign(<i64>m * m, 0)
        self.alpha.assign(m, 0)
        self.x.assign(m, 0)
        self.y.assign(m, 0)
        free.assign(m, 1)
        for p in range(m):
            j = self.basic[p]
            if j >= 2 * self.rows:
                others.push_back(j)
        for p in range(m):
            j = 2 * self.row_at[p]
            if self.place[j + 1] >= 0:
                j += 1
            if self.place[j] >= 0:
                free[p] = 0
            self.inverse[<i64>p * m + p] = self.unit_entry(j)
        for p in range(m):
            j = 2 * self.row_at[p]
            if self.place[j + 1] >= 0:
                j += 1
            self.basic[p] = j
            if not free[p]:
                self.place[j] = p
        for q in range(<int>others.size()):
            j = others[q]
            if late(self.clock):
                # Rows' own columns stand in; the program is not looked at any more.
                self.place[j] = OUTSIDE
                continue
            self.spread(j)
            best = -1
            for p in range(m):
                if free[p] and (best < 0 or fabs(self.alpha[p]) > fabs(self.alpha[best])):
                    best = p
            if best < 0 or fabs(self.alpha[best]) < 1e-7:
                self.place[j] = OUTSIDE
                continue
            self.pivot(best)
            free[best] = 0
            self.basic[best] = j
            self.place[j] = best
        for p in range(m):
            if free[p]:
                self.place[self.basic[p]] = p
        self.since = 0
        self.evaluate()
        if not self.mend():
            self.restart()
        self.price_out()

    cdef void pivot(self, int r) noexcept nogil:
        """The inverse once the column behind ``alpha`` takes position r."""
        cdef int c, i, m = self.m
        cdef double t, by = self.alpha[r]
        cdef double* column
        cdef const double* alpha = &self.alpha[0]
        for c in range(m):
            column = &self.inverse[<i64>c * m]
            t = column[r]
            if t != 0:
                t /= by
                for i in range(m):
                    column[i] -= alpha[i] * t
                column[r] = t
                self.work += m
        self.work += m
        self.since += 1

    cdef void evaluate(self) noexcept nogil:
        """Values of the basic and the key columns."""
        cdef int p, g, e, i, m = self.m
        cdef double v
        cdef vector[double] left
        left.resize(m)
        for p in range(m):
            left[p] = self.limit[self.row_at[p]]
        for g in range(self.groups):
            self.key_x[g] = 1
            for e in range(self.first[self.key[g]], self.first[self.key[g] + 1]):
                p = self.at[self.entry_row[e]]
                if p >= 0:
                    left[p] -= self.entry[e]
        self.x.assign(m, 0)
        for p in range(m):
            v = left[p]
            if v != 0:
                for i in range(m):
                    self.x[i] += v * self.inverse[<i64>p * m + i]
        for p in range(m):
            g = self.group[self.basic[p]]
            if g >= 0:
                self.key_x[g] -= self.x[p]
        self.work += <i64>m * m

    cdef bint mend(self) noexcept nogil:
        """Exchange a row's own columns where one is negative; False when that is not enough."""
        cdef int p, c, g, j, m = self.m
        for p in range(m):
            if self.x[p] < -SLIP:
                j = self.basic[p]
                if j >= 2 * self.rows:
                    return False
                self.place[j] = OUTSIDE
                self.basic[p] = j ^ 1
                self.place[j ^ 1] = p
                self.x[p] = -self.x[p]
                for c in range(m):
                    self.inverse[<i64>c * m + p] = -self.inverse[<i64>c * m + p]
        for g in range(self.groups):
            if self.key_x[g] < -SLIP:
                return False
        return True

    cdef void price_out(self) noexcept nogil:
        """Prices of the rows under the present costs."""
        cdef int p, c, g, m = self.m
        cdef double v
        cdef vector[double] costs
        costs.resize(m)
        for p in range(m):
            costs[p] = self.cost[self.basic[p]]
            g = self.group[self.basic[p]]
            if g >= 0:
                costs[p] -= self.cost[self.key[g]]
        for c in range(m):
            v = 0
            for p in range(m):
                v += costs[p] * self.inverse[<i64>c * m + p]
            self.y[c] = v
        self.step += 1
        self.work += <i64>m * m

    cdef double price_of(self, int row) noexcept nogil:
        """What one more of the row's limit is worth; never negative in the row's sense."""
        cdef double v
        if self.at[row] < 0:
            return 0
        v = -self.y[self.at[row]] * self.sign[row]
        return v if v > 0 else 0

    cdef double price_of_group(self, int g) noexcept nogil:
        """Cost of the group's key at the present prices."""
        cdef int e, p, k
        if self.sigma_step[g] != self.step:
            self.sigma_step[g] = self.step
            k = self.key[g]
            self.sigma[g] = self.cost[k]
            for e in range(self.first[k], self.first[k + 1]):
                p = self.at[self.entry_row[e]]
                if p >= 0:
                    self.sigma[g] -= self.entry[e] * self.y[p]
        return self.sigma[g]

    cdef void spread(self, int column) noexcept nogil:
        """alpha: the column in terms of the basis."""
        cdef int e, p, i, k, m = self.m
        cdef double v
        cdef const double* from_
        for i in range(m):
            self.alpha[i] = 0
        if column < 2 * self.rows:
            v = self.unit_entry(column)
            from_ = &self.inverse[<i64>self.at[column >> 1] * m]
            for i in range(m):
                self.alpha[i] = v * from_[i]
            return
        for k in range(2 if self.group[column] >= 0 else 1):
            if k:
                column = self.key[self.group[column]]
            for e in range(self.first[column], self.first[column + 1]):
                p = self.at[self.entry_row[e]]
                if p >= 0:
                    v = -self.entry[e] if k else self.entry[e]
                    from_ = &self.inverse[<i64>p * m]
                    for i in range(m):
                        self.alpha[i] += v * from_[i]
                    self.work += m

    cdef double reduced(self, int column) noexcept nogil:
        cdef double v = self.cost[column]
        cdef int e, p
        if column < 2 * self.rows:
            p = self.at[column >> 1]
            return v - self.unit_entry(column) * self.y[p]
        for e in range(self.first[column], self.first[column + 1]):
            p = self.at[self.entry_row[e]]
            if p >= 0:
                v -= self.entry[e] * self.y[p]
        if self.group[column] >= 0:
            v -= self.price_of_group(self.group[column])
        return v
