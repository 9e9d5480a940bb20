# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The cheapest of a node's units that make a given amount of room there.

A covering knapsack with several resources and a lexicographic cost, solved by
depth-first search over the units in ascending cost. Three cuts keep it short:
the units left must be able to cover; at least so many more units are needed,
and the next ones are the cheapest; a unit is not taken where an earlier,
cheaper one that releases no less was left out.
"""

from extender.search.core.limbs cimport (
    i64, is_never, minus, never, order, order_of_sum, plus, put, zero,
)


cdef i64 cover_space(int items, int resources, int w) noexcept nogil:
    """int64 words of work space that ``cover_lay`` needs."""
    cdef i64 n = items + 2
    return n * resources * 3 + n * w * 2 + w + 3 * n + 8


cdef void cover_lay(Cover* c, i64* space) noexcept nogil:
    """Cut the work space up; items, resources and w are set."""
    cdef i64 n = c.items + 2
    c.need = space
    space += n * c.resources
    c.suffix_sum = space
    space += n * c.resources
    c.suffix_most = space
    space += n * c.resources
    c.prefix_cost = space
    space += n * c.w
    c.paid = space
    space += n * c.w
    c.best = space
    space += c.w
    c.trail = <int*>space
    space += n
    c.skipped = <int*>space
    space += n
    c.taken = <int*>space


cdef void cover_solve(Cover* c, i64* bound) noexcept nogil:
    """Fill best, taken and exact for ``need`` (its first row); bound gets w limbs.

    best is NEVER where all units together do not cover. With exact False the
    branches ran out: best is then an answer, bound a valid lower bound.
    """
    cdef int i, r, items = c.items, resources = c.resources, w = c.w
    cdef i64 most
    c.exact = True
    c.taken_count = 0
    never(c.best, w)
    for r in range(resources):
        c.suffix_sum[items * resources + r] = 0
        c.suffix_most[items * resources + r] = 0
    for i in range(items - 1, -1, -1):
        for r in range(resources):
            most = c.amounts[i * resources + r]
            c.suffix_sum[i * resources + r] = c.suffix_sum[(i + 1) * resources + r] + most
            if most < c.suffix_most[(i + 1) * resources + r]:
                most = c.suffix_most[(i + 1) * resources + r]
            c.suffix_most[i * resources + r] = most
    for r in range(resources):
        if c.suffix_sum[r] < c.need[r]:
            never(bound, w)
            return
    zero(c.prefix_cost, w)
    for i in range(items):
        put(c.prefix_cost + (i + 1) * w, c.prefix_cost + i * w, w)
        plus(c.prefix_cost + (i + 1) * w, c.costs + i * w, w)
    i = fewest(c, 0, 0)
    put(bound, c.prefix_cost + i * w, w)
    greedy(c)
    if order(bound, c.best, w) == 0:
        return
    zero(c.paid, w)
    c.depth = 0
    c.skips = 0
    descend(c, 0)
    if c.exact:
        put(bound, c.best, w)


cdef int fewest(Cover* c, int level, int start) noexcept nogil:
    """At least so many of the units from ``start`` on cover what is needed at ``level``.

    0 when nothing is needed; more than there are when they cannot cover.
    """
    cdef int r, resources = c.resources
    cdef i64 count, most, need, result = 0
    for r in range(resources):
        need = c.need[level * resources + r]
        if need > 0:
            if c.suffix_sum[start * resources + r] < need:
                return c.items + 1
            most = c.suffix_most[start * resources + r]
            count = (need + most - 1) // most
            if count > result:
                result = count
    if result > c.items - start:
        return c.items + 1
    return <int>result


cdef void greedy(Cover* c) noexcept nogil:
    """A first answer: cheapest units until covered, then the dearest unneeded ones back."""
    cdef int i, j, r, resources = c.resources, kept
    cdef bint covered, useful
    cdef i64* left = c.need + resources
    for r in range(resources):
        left[r] = c.need[r]
    kept = 0
    for i in range(c.items):
        covered = True
        useful = False
        for r in range(resources):
            if left[r] > 0:
                covered = False
                if c.amounts[i * resources + r] > 0:
                    useful = True
        if covered:
            break
        if useful:
            for r in range(resources):
                left[r] -= c.amounts[i * resources + r]
            c.taken[kept] = i
            kept += 1
    for j in range(kept - 1, -1, -1):
        i = c.taken[j]
        covered = True
        for r in range(resources):
            if left[r] + c.amounts[i * resources + r] > 0:
                covered = False
        if covered:
            for r in range(resources):
                left[r] += c.amounts[i * resources + r]
            c.taken[j] = -1
    zero(c.best, c.w)
    c.taken_count = 0
    for j in range(kept):
        if c.taken[j] >= 0:
            i = c.taken[j]
            c.taken[c.taken_count] = i
            c.taken_count += 1
            plus(c.best, c.costs + i * c.w, c.w)


cdef void descend(Cover* c, int i) noexcept nogil:
    """Decide unit i and the later ones; depth units are taken, need row depth is left."""
    cdef int r, s, more, resources = c.resources, w = c.w, level = c.depth, skips = c.skips
    cdef bint useful, dominated
    cdef i64* need = c.need + level * resources
    cdef i64* paid = c.paid + level * w
    cdef const i64* amounts
    while True:
        c.work += 1
        if c.patience <= 0:
            c.exact = False
            break
        c.patience -= 1
        more = fewest(c, level, i)
        if more == 0:
            if order(paid, c.best, w) < 0:
                put(c.best, paid, w)
                c.taken_count = level
                for s in range(level):
                    c.taken[s] = c.trail[s]
            break
        if more > c.items - i:
            break
        put(c.paid + (level + 1) * w, c.prefix_cost + (i + more) * w, w)
        minus(c.paid + (level + 1) * w, c.prefix_cost + i * w, w)
        if order_of_sum(paid, c.paid + (level + 1) * w, c.best, w) >= 0:
            break
        amounts = c.amounts + i * resources
        useful = False
        for r in range(resources):
            if need[r] > 0 and amounts[r] > 0:
                useful = True
        dominated = False
        for s in range(c.skips):
            if no_less(c.amounts + c.skipped[s] * resources, amounts, need, resources):
                dominated = True
                break
        if useful and not dominated:
            for r in range(resources):
                need[resources + r] = need[r] - amounts[r]
            put(c.paid + (level + 1) * w, paid, w)
            plus(c.paid + (level + 1) * w, c.costs + i * w, w)
            c.trail[level] = i
            c.depth = level + 1
            descend(c, i + 1)
            c.depth = level
            if not c.exact:
                break
            c.skipped[c.skips] = i
            c.skips += 1
        i += 1
    c.skips = skips


cdef inline bint no_less(
    const i64* a, const i64* b, const i64* need, int resources
) noexcept nogil:
    """Whether a releases at least as much as b of everything still needed."""
    cdef int r
    for r in range(resources):
        if need[r] > 0 and a[r] < b[r]:
            return False
    return True
