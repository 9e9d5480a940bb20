# distutils: language = c++
"""Primal simplex on a program of groups (see basis.pyx)."""

from libcpp.vector cimport vector

from extender.search.core.lp.basis cimport KEY, OUTSIDE, Basis
from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport i64

cdef enum:
    REFACTOR = 120            # pivots on one inverse
    SECTION = 2000            # columns looked at where one of them promises something

cdef double TINY = 1e-9       # a pivot or a reduced cost that counts as none


cdef class Master(Basis):
    """A program that can be made small."""

    cdef void start(self, int rows, int groups, Clock* clock) noexcept nogil:
        """As Basis.start; the first section begins with the first column."""
        Basis.start(self, rows, groups, clock)
        self.scan = 0

    cdef int entering(self) noexcept nogil:
        """The column that promises most in the next section; -1 when none does."""
        cdef int count = <int>self.group.size(), i, j, best = -1, seen = 0
        cdef double v, most = -TINY
        for i in range(count):
            j = self.scan
            self.scan += 1
            if self.scan == count:
                self.scan = 0
            if self.place[j] != OUTSIDE or self.barred[j]:
                continue
            if j < 2 * self.rows and self.at[j >> 1] < 0:
                continue
            v = self.reduced(j)
            seen += 1
            if v < most:
                most = v
                best = j
            if best >= 0 and seen > SECTION:
                break
        self.work += 6 * seen
        return best

    cdef bint solve(self, int pivots) noexcept nogil:
        """Pivot until no column promises anything; False when the pivots ran out."""
        cdef int i, j
        if self.since > REFACTOR:
            self.refactor()
        self.price_out()
        for i in range(pivots):
            if late(self.clock):
                return False
            j = self.entering()
            if j < 0:
                return True
            if not self.enter(j):
                return False
            if self.since > REFACTOR:
                self.refactor()
        return False

    cdef bint enter(self, int column) noexcept nogil:
        """One pivot; False when nothing limits the column."""
        cdef int p, h, i, m = self.m, leaving = -1, key_of = -1, g = self.group[column]
        cdef double theta = 1e300, ratio, by = 0, gain = self.reduced(column), v
        self.spread(column)
        self.touched.clear()
        if g >= 0:
            self.rate[g] = 1
            self.touched.push_back(g)
        for p in range(m):
            v = self.alpha[p]
            if v == 0:
                continue
            h = self.group[self.basic[p]]
            if h >= 0:
                if self.rate[h] == 0:
                    self.touched.push_back(h)
                    self.rate[h] = 1e-300
                self.rate[h] -= v
            if v > TINY:
                ratio = self.x[p] / v if self.x[p] > 0 else 0
                if ratio < theta - 1e-12 or (ratio < theta + 1e-12 and v > by):
                    theta = min(theta, ratio)
                    leaving = p
                    by = v
        for i in range(<int>self.touched.size()):
            h = self.touched[i]
            v = self.rate[h]
            if v > TINY:
                ratio = self.key_x[h] / v if self.key_x[h] > 0 else 0
                if ratio < theta - 1e-12 or (ratio < theta + 1e-12 and v > by):
                    theta = min(theta, ratio)
                    leaving = -1
                    key_of = h
                    by = v
        if leaving < 0 and key_of < 0:
            for i in range(<int>self.touched.size()):
                self.rate[self.touched[i]] = 0
            return False
        for p in range(m):
            self.x[p] -= theta * self.alpha[p]
        v = self.rate[key_of] if key_of >= 0 else 0
        for i in range(<int>self.touched.size()):
            h = self.touched[i]
            self.key_x[h] -= theta * self.rate[h]
            self.rate[h] = 0
        self.work += 4 * m
        self.step += 1
        if leaving < 0:
            for p in range(m):
                if self.group[self.basic[p]] == key_of and (
                    leaving < 0 or self.x[p] > self.x[leaving]
                ):
                    leaving = p
            if leaving < 0:
                self.place[self.key[key_of]] = OUTSIDE
                self.key[key_of] = column
                self.key_x[key_of] = theta
                self.place[column] = KEY
                return True
            self.replace_key(key_of, leaving, v)
        else:
            self.place[self.basic[leaving]] = OUTSIDE
        self.pivot(leaving)
        self.basic[leaving] = column
        self.place[column] = leaving
        self.x[leaving] = theta
        for p in range(m):
            self.y[p] += gain * self.inverse[<i64>p * m + leaving]
        return True

    cdef void replace_key(self, int h, int p, double by) noexcept nogil:
        """The column at position p becomes the group's key; the old key leaves from there."""
        cdef int c, q, m = self.m
        cdef double total
        cdef vector[int] mine
        for q in range(m):
            if self.group[self.basic[q]] == h:
                mine.push_back(q)
        for c in range(m):
            total = 0
            for q in range(<int>mine.size()):
                total += self.inverse[<i64>c * m + mine[q]]
            self.inverse[<i64>c * m + p] = -total
        self.alpha[p] = by
        self.place[self.key[h]] = OUTSIDE
        self.key[h] = self.basic[p]
        self.place[self.key[h]] = KEY
        self.key_x[h] = self.x[p]
