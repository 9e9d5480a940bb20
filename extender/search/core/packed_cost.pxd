"""Cost vectors packed into a few int64 limbs; arithmetic for loops without the GIL.

Several cost levels share a limb, each in a field wide enough for the sum over
everything that may be paid, so that adding limbs adds fields and no carry can
cross into the next field. Comparing limb by limb, first limb first, is then the
lexicographic order of the levels. ``w`` is the number of limbs.
"""

from libc.stdint cimport int64_t, INT64_MAX

ctypedef int64_t i64

cdef extern from *:
    """
    typedef __int128 pgx_wide;
    """
    ctypedef long long wide "pgx_wide"

cdef enum:
    MOST_LIMBS = 6

ctypedef i64 PackedCost[MOST_LIMBS]


cdef inline void put(i64* into, const i64* value, int w) noexcept nogil:
    cdef int i
    for i in range(w):
        into[i] = value[i]


cdef inline void zero(i64* into, int w) noexcept nogil:
    cdef int i
    for i in range(w):
        into[i] = 0


cdef inline void never(i64* into, int w) noexcept nogil:
    """A cost that cannot be had: its first limb is beyond every real one."""
    zero(into, w)
    into[0] = INT64_MAX // 4


cdef inline bint is_never(const i64* value) noexcept nogil:
    return value[0] >= INT64_MAX // 8


cdef inline void plus(i64* into, const i64* value, int w) noexcept nogil:
    cdef int i
    for i in range(w):
        into[i] += value[i]


cdef inline void minus(i64* into, const i64* value, int w) noexcept nogil:
    cdef int i
    for i in range(w):
        into[i] -= value[i]


cdef inline int order(const i64* a, const i64* b, int w) noexcept nogil:
    """-1, 0 or 1 as a lies before, at or behind b."""
    cdef int i
    for i in range(w):
        if a[i] != b[i]:
            return -1 if a[i] < b[i] else 1
    return 0


cdef inline int order_of_sum(const i64* a, const i64* more, const i64* b, int w) noexcept nogil:
    """The order of a + more against b."""
    cdef int i
    cdef i64 total
    for i in range(w):
        total = a[i] + more[i]
        if total != b[i]:
            return -1 if total < b[i] else 1
    return 0


cdef inline int order_of_rates(
    const i64* a, i64 per_a, const i64* b, i64 per_b, int w
) noexcept nogil:
    """The order of a / per_a against b / per_b (per_a, per_b > 0), exact."""
    cdef int i
    cdef wide left, right
    for i in range(w):
        left = <wide>a[i] * <wide>per_b
        right = <wide>b[i] * <wide>per_a
        if left != right:
            return -1 if left < right else 1
    return 0
