from extender.search.core.packed_cost cimport i64

cdef struct Cover:
    # the question: items sorted by cost ascending
    int items
    int resources
    int w
    const i64* amounts       # items * resources
    const i64* costs         # items * w
    const i64* need          # resources
    i64 branches_left        # set to those allowed
    # work space, see cover.pyx
    i64* left                # (items + 2) * resources: still needed, per depth
    i64* paid                # (items + 2) * w: cost of what is taken, per depth
    i64* bound               # w
    i64* sums                # resources
    i64* largest             # resources
    int* state               # items: open, taken, or left out
    int depth
    # the answer
    i64* best                # w
    int* taken               # items
    int taken_count
    bint exact
    i64 work

cdef i64 cover_space(int items, int resources, int w) noexcept nogil
cdef void cover_lay(Cover* c, i64* space) noexcept nogil
cdef void cover_solve(Cover* c, i64* bound) noexcept nogil
