# distutils: language = c++
"""The covering and the multiple-choice knapsack of the core, from the outside."""

from libcpp.vector cimport vector

from extender.search.core.clock cimport Clock, start_clock
from extender.search.core.cover cimport Cover, cover_lay, cover_solve, cover_space
from extender.search.core.mckp cimport Mckp, MckpStatus, mckp_settle, mckp_solve
from extender.search.core.packed_cost cimport PackedCost, i64, is_never, never


def cover(list amounts, list costs, list need, i64 branches):
    """(cost or None, items taken, whether that is exact, lower bound or None).

    amounts (items, resources), costs (items, w) ascending, need (resources).
    """
    cdef Cover c
    cdef vector[i64] flat_amounts, flat_costs, flat_need, space
    cdef PackedCost bound
    cdef int i
    for row in amounts:
        for amount in row:
            flat_amounts.push_back(amount)
    for row in costs:
        for amount in row:
            flat_costs.push_back(amount)
    for amount in need:
        flat_need.push_back(amount)
    c.items = len(amounts)
    c.resources = len(need)
    c.w = len(costs[0])
    c.amounts = flat_amounts.data()
    c.costs = flat_costs.data()
    c.need = flat_need.data()
    c.branches_left = branches
    c.work = 0
    space.resize(cover_space(c.items, c.resources, c.w))
    cover_lay(&c, space.data())
    cover_solve(&c, bound)
    best = None if is_never(c.best) else tuple([c.best[i] for i in range(c.w)])
    least = None if is_never(bound) else tuple([bound[i] for i in range(c.w)])
    return best, [c.taken[i] for i in range(c.taken_count)], c.exact != 0, least


def choose(list groups, i64 demand, cutoff, i64 most_states, settle_below):
    """(status, picks, value, bound, settled rows per group).

    groups: per group the cost (w) of 0, 1, ... seats, None where there is no way.
    ``cutoff`` and ``settle_below``: costs (w) or None.
    """
    cdef Mckp c
    cdef Clock clock
    cdef vector[vector[i64]] rows
    cdef vector[i64] row, limit
    cdef vector[int] settled
    cdef PackedCost nothing
    cdef int g, i, w = len(groups[0][0])
    cdef MckpStatus status
    start_clock(&clock, 0, None)
    c.clock = &clock
    c.w = w
    c.demand = demand
    c.most_states = most_states
    c.work = 0
    never(nothing, w)
    rows.resize(len(groups))
    for g in range(<int>rows.size()):
        for cost in groups[g]:
            for i in range(w):
                rows[g].push_back(nothing[i] if cost is None else cost[i])
        c.most.push_back(len(groups[g]) - 1)
        c.rows.push_back(rows[g].data())
    if cutoff is not None:
        limit = cutoff
    status = mckp_solve(&c, limit.data() if limit.size() else NULL)
    picks, value, bound = list(c.picks), tuple(c.value), tuple(c.bound)
    if settle_below is not None and status > 0:
        limit = settle_below
        mckp_settle(&c, limit.data(), &settled)
    return int(status), picks, value, bound, list(settled)
