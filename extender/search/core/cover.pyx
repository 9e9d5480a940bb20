"""The cheapest of a node's units that make a given amount of room there.

A covering knapsack with several resources and a lexicographic cost, solved by
depth-first search. Each branch looks at the resource whose need is dearest to
meet (at least so many more units, at the cheapest prices among those that release
it), and takes one of its units or leaves it out for good. A unit is not taken
where a cheaper one that releases no less was left out.
"""

from extender.search.core.packed_cost cimport (
    PackedCost, i64, never, order, order_of_sum, plus, put, zero,
)

cdef enum:
    OPEN = 0
    TAKEN = 1
    LEFT = 2          # LEFT + d: left out by the branch at depth d

cdef enum:
    COVERED = -1      # nothing is needed any more
    TOO_FEW = -2      # the open units do not cover what is needed


cdef i64 cover_space(int items, int resources, int w) noexcept nogil:
    """int64 words of work space that ``cover_lay`` needs."""
    cdef i64 rows = items + 2
    return rows * (resources + w) + 2 * resources + 2 * w + 2 * rows


cdef void cover_lay(Cover* c, i64* space) noexcept nogil:
    """Cut the work space up; items, resources and w are set."""
    cdef i64 rows = c.items + 2
    c.left = space
    space += rows * c.resources
    c.paid = space
    space += rows * c.w
    c.bound = space
    space += c.w
    c.best = space
    space += c.w
    c.sums = space
    space += c.resources
    c.largest = space
    space += c.resources
    c.taken = <int*>space
    space += rows
    c.state = <int*>space


cdef void cover_solve(Cover* c, i64* bound) noexcept nogil:
    """Fill best, taken and exact for ``need``; bound gets w limbs.

    best is NEVER where all units together do not cover. With exact False the
    branches ran out: best is then an answer, bound a valid lower bound.
    """
    cdef int i, r
    c.exact = True
    c.taken_count = 0
    c.depth = 0
    never(c.best, c.w)
    zero(c.paid, c.w)
    for i in range(c.items):
        c.state[i] = OPEN
    for r in range(c.resources):
        c.left[r] = c.need[r]
    r = measure(c, c.left)
    if r == TOO_FEW:
        never(bound, c.w)
        return
    put(bound, c.bound, c.w)
    greedy(c)
    if order(bound, c.best, c.w) == 0:
        return
    descend(c)
    if c.exact:
        put(bound, c.best, c.w)


cdef int measure(Cover* c, const i64* left) noexcept nogil:
    """The needed resource that is dearest to meet with the open units; bound is its price.

    COVERED (bound is zero) or TOO_FEW where there is none.
    """
    cdef int i, r, best = -1, resources = c.resources, w = c.w
    cdef i64 count, amount
    cdef bint some = False
    cdef PackedCost price
    zero(c.bound, w)
    for r in range(resources):
        c.sums[r] = 0
        c.largest[r] = 0
        if left[r] > 0:
            some = True
    if not some:
        return COVERED
    for i in range(c.items):
        if c.state[i] == OPEN:
            for r in range(resources):
                amount = c.amounts[i * resources + r]
                c.sums[r] += amount
                if amount > c.largest[r]:
                    c.largest[r] = amount
    c.work += c.items
    for r in range(resources):
        if left[r] > 0 and c.sums[r] < left[r]:
            return TOO_FEW
    for r in range(resources):
        if left[r] <= 0:
            continue
        count = (left[r] + c.largest[r] - 1) // c.largest[r]
        zero(price, w)
        for i in range(c.items):
            if count == 0:
                break
            if c.state[i] == OPEN and c.amounts[i * resources + r] > 0:
                plus(price, c.costs + i * w, w)
                count -= 1
        if count > 0:
            return TOO_FEW
        if best < 0 or order(price, c.bound, w) > 0:
            best = r
            put(c.bound, price, w)
    return best


cdef void greedy(Cover* c) noexcept nogil:
    """A first answer: cheapest units until covered, then the dearest unneeded ones back."""
    cdef int i, j, r, resources = c.resources, kept = 0
    cdef bint covered, useful
    cdef i64* left = c.left + resources
    for r in range(resources):
        left[r] = c.need[r]
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


cdef void descend(Cover* c) noexcept nogil:
    """Search below what is taken and left out so far; undoes its own marks."""
    cdef int i, r, s, level = c.depth, resources = c.resources, w = c.w
    cdef i64* left = c.left + level * resources
    cdef i64* paid = c.paid + level * w
    cdef bint dominated
    if c.branches_left <= 0:
        c.exact = False
        return
    c.branches_left -= 1
    r = measure(c, left)
    if r == TOO_FEW or order_of_sum(paid, c.bound, c.best, w) >= 0:
        return
    if r == COVERED:
        put(c.best, paid, w)
        c.taken_count = 0
        for i in range(c.items):
            if c.state[i] == TAKEN:
                c.taken[c.taken_count] = i
                c.taken_count += 1
        return
    for i in range(c.items):
        if c.state[i] != OPEN or c.amounts[i * resources + r] == 0:
            continue
        dominated = False
        for s in range(i):
            if c.state[s] >= LEFT and no_less(
                c.amounts + s * resources, c.amounts + i * resources, left, resources
            ):
                dominated = True
                break
        if not dominated:
            if order_of_sum(paid, c.costs + i * w, c.best, w) >= 0:
                break
            for s in range(resources):
                left[resources + s] = left[s] - c.amounts[i * resources + s]
            put(paid + w, paid, w)
            plus(paid + w, c.costs + i * w, w)
            c.state[i] = TAKEN
            c.depth = level + 1
            descend(c)
            c.depth = level
        c.state[i] = LEFT + level
        if not c.exact:
            break
    for i in range(c.items):
        if c.state[i] == LEFT + level:
            c.state[i] = OPEN


cdef inline bint no_less(
    const i64* a, const i64* b, const i64* need, int resources
) noexcept nogil:
    """Whether a releases at least as much as b of everything still needed."""
    cdef int r
    for r in range(resources):
        if need[r] > 0 and a[r] < b[r]:
            return False
    return True
