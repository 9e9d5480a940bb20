# distutils: language = c++
"""How many seats each group of nodes gives, at least total cost.

Every group has a frontier: the least cost of 0, 1, 2, ... more seats there. One
row of every frontier is picked so that the rows add up to the demand: the
multiple-choice knapsack. Its linear relaxation takes the steps of the lower
convex hulls in the order of their rate (cost per seat); that bound, and the
answer found by rounding it, leave few rows that can still be part of a better
answer; dynamic programming over those decides.
"""

from libcpp.vector cimport vector

from extender.search.core.clock cimport late
from extender.search.core.packed_cost cimport (
    PackedCost, i64, is_never, minus, never, order, order_of_rates, order_of_sum, plus, put,
    wide, zero,
)


cdef int hull(Mckp* c, int group) noexcept nogil:
    """Append the group's hull steps (rates rising) to ``steps`` and ``rate``."""
    cdef int w = c.w, first = <int>c.steps.size(), k, last, i
    cdef const i64* rows = c.rows[group]
    cdef FrontierStep step
    cdef PackedCost delta
    for k in range(1, c.most[group] + 1):
        if is_never(rows + k * w):
            break
        if k < c.most[group] and order(rows + k * w, rows + (k + 1) * w, w) == 0:
            continue
        step.group = group
        step.top = rows + k * w
        last = <int>c.steps.size()
        step.base = rows
        step.seats = k
        if last > first:
            step.base = c.steps[last - 1].top
            step.seats = k - <int>((step.base - rows) // w)
        while True:
            put(delta, step.top, w)
            minus(delta, step.base, w)
            last = <int>c.steps.size() - 1
            if last < first or order_of_rates(
                &c.rate[last * w], c.steps[last].seats, delta, step.seats, w
            ) < 0:
                break
            step.base = c.steps[last].base
            step.seats += c.steps[last].seats
            c.steps.pop_back()
            c.rate.resize(last * w)
        c.steps.push_back(step)
        for i in range(w):
            c.rate.push_back(delta[i])
    return <int>c.steps.size() - first


cdef inline bint earlier(Mckp* c, int a, int b) noexcept nogil:
    """Step a is cheaper per seat than b; equal rates: the larger step, then the lower group."""
    cdef int o = order_of_rates(
        &c.rate[a * c.w], c.steps[a].seats, &c.rate[b * c.w], c.steps[b].seats, c.w
    )
    if o:
        return o < 0
    return a < b


cdef void arrange(Mckp* c) noexcept nogil:
    """Merge sort of the steps by rate."""
    cdef int n = <int>c.steps.size(), width = 1, lo, mid, hi, i, j, k
    cdef vector[int]* source = &c.order_
    cdef vector[int]* target = &c.scratch
    cdef vector[int]* swap
    c.order_.resize(n)
    c.scratch.resize(n)
    for i in range(n):
        c.order_[i] = i
    while width < n:
        lo = 0
        while lo < n:
            mid = min(lo + width, n)
            hi = min(lo + 2 * width, n)
            i = lo
            j = mid
            for k in range(lo, hi):
                if i < mid and (j >= hi or not earlier(c, source[0][j], source[0][i])):
                    target[0][k] = source[0][i]
                    i += 1
                else:
                    target[0][k] = source[0][j]
                    j += 1
            lo = hi
        swap = source
        source = target
        target = swap
        width *= 2
    if source != &c.order_:
        c.order_.swap(c.scratch)


cdef bint relax(Mckp* c) noexcept nogil:
    """The linear relaxation: base_pick, value (before the break step), breaking, rest.

    False when the groups together do not reach the demand.
    """
    cdef int group, at, s, w = c.w, groups = <int>c.most.size()
    cdef i64 reach = 0
    c.steps.clear()
    c.rate.clear()
    c.base_pick.assign(groups, 0)
    c.value.assign(w, 0)
    c.breaking = -1
    c.rest = c.demand
    if c.demand <= 0:
        return True
    for group in range(groups):
        hull(c, group)
    for s in range(<int>c.steps.size()):
        reach += c.steps[s].seats
    c.work += <i64>c.steps.size() * 4
    if reach < c.demand:
        return False
    arrange(c)
    for at in range(<int>c.order_.size()):
        s = c.order_[at]
        if c.steps[s].seats > c.rest:
            c.breaking = at
            return True
        c.rest -= c.steps[s].seats
        c.base_pick[c.steps[s].group] += c.steps[s].seats
        plus(&c.value[0], &c.rate[s * w], w)
        if c.rest == 0:
            return True
    return False


cdef void round_up(Mckp* c) noexcept nogil:
    """bound = value + rest / seats of the break step, as integers from below.

    The first limb that is not whole is rounded up, and what follows is left at
    nothing: a whole vector above the fraction is not below that.
    """
    cdef int i, w = c.w, s = c.order_[c.breaking]
    cdef wide part
    cdef i64 seats = c.steps[s].seats
    c.bound.assign(w, 0)
    for i in range(w):
        part = <wide>c.rate[s * w + i] * <wide>c.rest
        c.bound[i] = c.value[i] + <i64>(part // <wide>seats)
        part = part % <wide>seats
        if part != 0:
            if part > 0:
                c.bound[i] += 1
            return


cdef void complete(Mckp* c) noexcept nogil:
    """picks: the relaxation's steps, plus the cheapest single row that covers the rest."""
    cdef int group, best = -1, w = c.w, k
    cdef PackedCost least
    cdef PackedCost delta
    never(least, w)
    for group in range(<int>c.most.size()):
        k = c.base_pick[group] + <int>c.rest
        if k <= c.most[group] and not is_never(c.rows[group] + k * w):
            put(delta, c.rows[group] + k * w, w)
            minus(delta, c.rows[group] + c.base_pick[group] * w, w)
            if order(delta, least, w) < 0:
                put(least, delta, w)
                best = group
    c.picks = c.base_pick
    if best >= 0:
        c.picks[best] += <int>c.rest
        plus(&c.value[0], least, w)
        return
    k = c.order_[c.breaking]
    c.picks[c.steps[k].group] += c.steps[k].seats
    plus(&c.value[0], &c.rate[k * w], w)


cdef bint can_beat(
    Mckp* c, const i64* base, int group, int k, const i64* cutoff
) noexcept nogil:
    """Whether row k of the group may be part of an answer below the cutoff.

    base: value of the relaxation's whole steps. All limbs times the break
    step's seats: relaxation + penalty of the row against the cutoff.
    """
    cdef int i, s = c.order_[c.breaking], w = c.w
    cdef i64 seats = c.steps[s].seats
    cdef wide left, right
    cdef const i64* row = c.rows[group] + k * w
    cdef const i64* now = c.rows[group] + c.base_pick[group] * w
    cdef i64 moved = k - c.base_pick[group]
    if is_never(row):
        return False
    for i in range(w):
        left = (
            <wide>seats * <wide>(base[i] + row[i] - now[i])
            + <wide>(c.rest - moved) * <wide>c.rate[s * w + i]
        )
        right = <wide>seats * <wide>cutoff[i]
        if left != right:
            return left < right
    return False


cdef MckpStatus mckp_solve(Mckp* c, const i64* cutoff) noexcept nogil:
    """Pick rows; ``cutoff`` (w limbs, or NULL) is a value that must be undercut."""
    cdef int w = c.w, group, groups = <int>c.most.size()
    cdef vector[i64] base
    cdef const i64* limit = cutoff
    cdef MckpStatus status
    c.bound.assign(w, 0)
    if not relax(c):
        return IMPOSSIBLE
    if c.breaking < 0:
        c.picks = c.base_pick
        c.bound = c.value
        if cutoff != NULL and order(&c.bound[0], cutoff, w) >= 0:
            return CUT
        return EXACT
    round_up(c)
    if cutoff != NULL and order(&c.bound[0], cutoff, w) >= 0:
        return CUT
    base = c.value
    complete(c)
    if order(&c.value[0], &c.bound[0], w) <= 0:
        c.bound = c.value
        return EXACT
    if limit == NULL or order(&c.value[0], limit, w) < 0:
        limit = &c.value[0]
    status = decide(c, &base[0], limit)
    if status == CUT:
        # Nothing below the limit: the limit is either our own answer or the caller's.
        if cutoff != NULL and order(&c.value[0], cutoff, w) >= 0:
            return CUT
        c.bound = c.value
        return EXACT
    return status


cdef cppclass OpenRows:
    # What may still be part of an answer below the limit.
    vector[int] group        # groups with several such rows
    vector[int] first        # per such group, and the end
    vector[int] rows
    vector[int] fixed        # per group of all: its only such row, -1
    vector[i64] total        # w: cost of the fixed rows
    i64 demand               # seats that these leave to the others


cdef bint find_open_rows(
    Mckp* c, const i64* base, const i64* limit, OpenRows* left
) noexcept nogil:
    """Leave out the rows that cannot beat the limit; False where a group has no other."""
    cdef int w = c.w, group, k, alive, kept
    left.demand = c.demand
    left.fixed.assign(c.most.size(), -1)
    left.total.assign(w, 0)
    for group in range(<int>c.most.size()):
        alive = 0
        kept = -1
        left.first.push_back(<int>left.rows.size())
        for k in range(c.most[group] + 1):
            if k < c.most[group] and order(
                c.rows[group] + k * w, c.rows[group] + (k + 1) * w, w
            ) == 0:
                continue
            if can_beat(c, base, group, k, limit):
                alive += 1
                kept = k
                left.rows.push_back(k)
        c.work += c.most[group] + 1
        if alive == 0:
            return False
        if alive == 1:
            left.fixed[group] = kept
            left.rows.resize(left.first.back())
            left.first.pop_back()
            left.demand -= kept
            plus(&left.total[0], c.rows[group] + kept * w, w)
        else:
            left.group.push_back(group)
    left.first.push_back(<int>left.rows.size())
    if left.demand < 0:
        left.demand = 0
    return True


cdef bint add_up_rows(
    Mckp* c, const OpenRows* left, vector[i64]* now, vector[unsigned short]* trace
) noexcept nogil:
    """``now``: least cost (w) of 0, 1, ... seats from the open rows; False: time is up.

    ``trace``: per group and seats the row that the last step took.
    """
    cdef int w = c.w, g, i, k
    cdef i64 demand = left.demand, d, source
    cdef vector[i64] then
    cdef const int* rows = left.rows.data()
    cdef const i64* row
    now.assign((demand + 1) * w, 0)
    then.resize((demand + 1) * w)
    trace.resize(<i64>left.group.size() * (demand + 1))
    for d in range(1, demand + 1):
        never(&now[0][d * w], w)
    for g in range(<int>left.group.size()):
        if late(c.clock):
            return False
        for d in range(demand + 1):
            never(&then[d * w], w)
            for i in range(left.first[g], left.first[g + 1]):
                k = rows[i]
                source = d - k if d > k else 0
                if is_never(&now[0][source * w]):
                    continue
                row = c.rows[left.group[g]] + k * w
                if order_of_sum(&now[0][source * w], row, &then[d * w], w) < 0:
                    put(&then[d * w], &now[0][source * w], w)
                    plus(&then[d * w], row, w)
                    trace[0][g * (demand + 1) + d] = <unsigned short>k
        now.swap(then)
    return True


cdef MckpStatus decide(Mckp* c, const i64* base, const i64* limit) noexcept nogil:
    """Dynamic programming over the rows that can beat ``limit``; CUT when none do."""
    cdef int w = c.w, g, k
    cdef i64 d, states
    cdef OpenRows left
    cdef vector[i64] now
    cdef vector[unsigned short] trace
    cdef PackedCost limit_value
    put(limit_value, limit, w)
    if not find_open_rows(c, base, limit_value, &left):
        return CUT
    d = left.demand
    states = <i64>left.rows.size() * (d + 1)
    if states > c.most_states or c.demand > 60000:  # rows are traced in 16 bits
        return GAP
    c.work += states
    if not add_up_rows(c, &left, &now, &trace):
        return GAP
    if is_never(&now[d * w]) or order_of_sum(&now[d * w], &left.total[0], limit_value, w) >= 0:
        return CUT
    plus(&left.total[0], &now[d * w], w)
    c.picks = left.fixed
    for g in range(<int>left.group.size() - 1, -1, -1):
        k = trace[g * (left.demand + 1) + d]
        c.picks[left.group[g]] = k
        d = d - k if d > k else 0
    c.value = left.total
    c.bound = left.total
    return EXACT


cdef void mckp_settle(Mckp* c, const i64* cutoff, vector[int]* settled) noexcept nogil:
    """Per group the only row that an answer below the cutoff can use, ANY_ROW or NO_ROW.

    Uses the relaxation of the last ``mckp_solve``.
    """
    cdef int group, k, w = c.w, s, last
    cdef vector[i64] base
    settled.assign(c.most.size(), ANY_ROW)
    if c.breaking < 0 and c.order_.size() == 0:
        return
    relax(c)
    base = c.value
    if c.breaking < 0:
        # Integral: any step bounds the penalties; the last one taken is the break step.
        last = -1
        s = 0
        for k in range(<int>c.order_.size()):
            s += c.steps[c.order_[k]].seats
            if s == c.demand:
                last = k
                break
        if last < 0:
            return
        c.breaking = last
        c.rest = 0
    for group in range(<int>c.most.size()):
        settled[0][group] = NO_ROW
        for k in range(c.most[group] + 1):
            if k < c.most[group] and order(
                c.rows[group] + k * w, c.rows[group] + (k + 1) * w, w
            ) == 0:
                continue
            if can_beat(c, &base[0], group, k, cutoff):
                if settled[0][group] == NO_ROW:
                    settled[0][group] = k
                else:
                    settled[0][group] = ANY_ROW
                    break
