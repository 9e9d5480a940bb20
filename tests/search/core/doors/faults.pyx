# distutils: language = c++
"""Mistakes made on purpose, each of which the checked builds have to end the process for."""

from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64, plus


def overflow(i64 a, i64 b):
    """The sum of two packed costs of one limb."""
    with nogil:
        plus(&a, &b, 1)
    return a


def divide(int a, int b):
    """The quotient as C has it."""
    return a // b


def shift(i64 a, int by):
    """``a`` times 2 ** by."""
    return a << by


def beyond_vector(int size, int place):
    """What lies at ``place`` of so many zeros."""
    cdef vector[int] numbers
    numbers.assign(size, 0)
    return numbers[place]


def beyond_view(const unsigned char[::1] numbers, int place):
    """What lies at ``place``."""
    return numbers[place]


def beyond_pointer(int size, int place):
    """What lies ``place`` behind a pointer into so many zeros."""
    cdef vector[int] numbers
    numbers.assign(size, 0)
    cdef const int* first = numbers.data()
    return first[place]
