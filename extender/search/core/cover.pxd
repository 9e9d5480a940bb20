from extender.search.core.limbs cimport i64

cdef struct Cover:
    # the question: items sorted by cost ascending
    int items
    int resources
    int w
    const i64* amounts       # items * resources
    const i64* costs         # items * w
    i64 patience             # branches allowed
    # work space, see cover.pyx
    i64* need
    i64* suffix_sum
    i64* suffix_most
    i64* prefix_cost
    int* trail
    int* skipped
    int depth
    int skips
    i64* paid
    # the answer
    i64* best
    int* taken
    int taken_count
    bint exact
    i64 work

cdef i64 cover_space(int items, int resources, int w) noexcept nogil
cdef void cover_lay(Cover* c, i64* space) noexcept nogil
cdef void cover_solve(Cover* c, i64* bound) noexcept nogil
