# distutils: language = c++
"""Arithmetic of packed costs (core/packed_cost.pxd, core/levels.pyx), from the outside."""

from libcpp.vector cimport vector

from extender.search.core.columns cimport Columns
from extender.search.core.levels cimport Levels
from extender.search.core.packed_cost cimport (
    i64, is_never, minus, never, order, order_of_rates, order_of_sum, plus,
)
from extender.search.core.space cimport Space


def compare(vector[i64] a, vector[i64] b):
    """-1, 0 or 1."""
    return order(a.data(), b.data(), <int>a.size())


def compare_sum(vector[i64] a, vector[i64] more, vector[i64] b):
    """The order of a + more against b."""
    return order_of_sum(a.data(), more.data(), b.data(), <int>a.size())


def compare_rates(vector[i64] a, i64 per_a, vector[i64] b, i64 per_b):
    """The order of a / per_a against b / per_b."""
    return order_of_rates(a.data(), per_a, b.data(), per_b, <int>a.size())


def added(vector[i64] a, vector[i64] b):
    """a + b, and that less b."""
    cdef vector[i64] back
    plus(a.data(), b.data(), <int>a.size())
    back = a
    minus(back.data(), b.data(), <int>a.size())
    return list(a), list(back)


def none_plus(vector[i64] more):
    """Whether a cost that cannot be had, and the same with ``more``, is known for one."""
    cdef vector[i64] cost
    cdef bint before
    cost.resize(more.size())
    never(cost.data(), <int>cost.size())
    before = is_never(cost.data())
    plus(cost.data(), more.data(), <int>cost.size())
    return before and is_never(cost.data()), is_never(more.data()) != 0


cdef class Packing:
    """The packed levels of a problem of one class whose units are all wanted."""

    cdef Levels levels

    def __init__(self, Columns columns, bytes inside):
        cdef Space space = Space(columns, inside, (), (), -1, None, ())
        self.levels = Levels(space)
        self.levels.pack_levels(-1)

    def limbs(self):
        """Words of a cost."""
        return self.levels.full

    def most(self):
        """(L,) the most that can be paid at each level; 0 where nothing is."""
        return list(self.levels.level_most)

    def pack(self, cost):
        """As Levels.pack."""
        return self.levels.pack(cost)

    def unpack(self, vector[i64] value):
        """As Levels.unpack."""
        return self.levels.unpack(value.data())

    def raised(self, vector[i64] value):
        """As Levels.raise_fields."""
        self.levels.raise_fields(value.data())
        return list(value)
