# distutils: language = c++
"""Bucket elimination of the core (core/elimination.pyx), from the outside."""

from extender.search.core.columns cimport Columns
from extender.search.core.effort cimport Effort
from extender.search.core.elimination cimport Elimination
from extender.search.core.frontiers cimport Frontiers
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport is_never
from extender.search.core.relations cimport Relations
from extender.search.core.space cimport Space
from extender.search.core.traced cimport Traced


def eliminated(Columns columns, bytes inside, int demand):
    """(frontiers of the groups, whether a bucket was split, couplers that were eliminated).

    A frontier: the cost (L) of 0, 1, ... more seats, None where there is no way. None where
    the gang fits already, or never does.
    """
    cdef Space space = Space(columns, inside, (), (), -1, None, ())
    cdef Levels levels = Levels(space)
    cdef Relations relations = Relations(space, levels)
    cdef Effort effort = Effort()
    cdef Traced traced = Traced(space, relations)
    cdef Frontiers frontiers = Frontiers(space, relations, effort, traced)
    cdef Elimination elimination = Elimination(space, relations, effort, frontiers, traced)
    cdef int g, k
    if space.settled_free or not space.possible:
        return None
    levels.pack_levels(-1)
    relations.relate(NULL)
    traced.lay()
    frontiers.lay_tables()
    effort.start(1 << 40, 0, None)
    frontiers.ask_for(demand)
    elimination.start_knapsack(0)
    if not elimination.eliminate():
        raise RuntimeError("the time was up")
    groups = []
    for g in range(<int>elimination.pick.most.size()):
        rows = []
        for k in range(elimination.pick.most[g] + 1):
            if is_never(elimination.pick.rows[g] + k * relations.W):
                rows.append(None)
            else:
                rows.append(tuple(levels.unpack(elimination.pick.rows[g] + k * relations.W)))
        groups.append(rows)
    return groups, elimination.was_split != 0, <int>elimination.r_var.size()
