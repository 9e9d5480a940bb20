from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64


cdef class Columns:
    cdef int nodes, resources, units, gangs, budgets, levels
    cdef i64 need, count
    cdef vector[i64] request, free, releases, cost_amount, broken_amount
    cdef vector[int] limit
    cdef vector[int] unit_first, entry_node, cost_first, cost_level, unit_gang
    cdef vector[int] use_first, use_budget, use_pods
    cdef vector[int] lift_first, lift_node
    cdef vector[int] surplus, broken_first, broken_level
    cdef vector[int] allowed_pods, hard, budget_level
    cdef vector[int] waiting
    cdef list kept

    cdef _take_units(self, problem, list kept)
    cdef _take_rules(self, problem)
