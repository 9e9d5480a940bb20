# distutils: language = c++
"""The linear program of the core (core/lp), from the outside."""

from libcpp.vector cimport vector

from extender.search.core.clock cimport Clock, start_clock
from extender.search.core.lp.basis cimport Taken
from extender.search.core.lp.master cimport Master

cdef enum:
    PIVOTS = 400


cdef tuple shown(Master lp):
    """(cost, {column with units: its part}, prices of the rows, cost of what is too much)."""
    cdef int p, j
    cdef Taken taken
    cdef double total = 0, excess = 0
    parts = {}
    for p in range(lp.taken_count()):
        taken = lp.taken(p)
        j = taken.column
        total += taken.part * lp.cost[j]
        if j >= 2 * lp.rows:
            parts[j - 2 * lp.rows] = parts.get(j - 2 * lp.rows, 0.0) + taken.part
        elif j & 1:
            excess += taken.part * lp.cost[j]
    return total, parts, [lp.price_of(p) for p in range(lp.rows)], excess


def steps(list signs, list limits, int groups, list columns, double excess_price, list moments):
    """The program solved anew at each moment; the answers, as ``shown``.

    signs, limits: rows, 1 at most, -1 at least. columns: (group, cost, [(row, entry)]), after
    the empty one that every group has. moments: (rows that count from then on, new limits
    {row: limit}, columns barred from then on).
    """
    cdef Clock clock
    cdef Master lp = Master()
    cdef vector[int] rows
    cdef vector[double] values
    cdef int row, column
    start_clock(&clock, 0, None)
    lp.start(len(signs), groups, &clock)
    for row in range(len(signs)):
        if signs[row] < 0:
            lp.at_least(row)
        lp.set_cost(2 * row + 1, excess_price)
    for group, cost, entries in columns:
        rows.clear()
        values.clear()
        for place, value in entries:
            rows.push_back(place)
            values.push_back(value)
        column = lp.add(group, rows.data(), values.data(), <int>rows.size())
        lp.set_cost(column, cost)
    answers = []
    for counting, changed, barred in moments:
        for row in counting:
            lp.activate(row, limits[row])
        lp.refactor()
        for row, limit in changed.items():
            lp.set_limit(row, limit)
        for column in barred:
            lp.bar(2 * lp.rows + column, True)
        for _ in range(100):
            if lp.solve(PIVOTS):
                break
        else:
            raise ArithmeticError("the pivots ran out")
        answers.append(shown(lp))
    return answers
