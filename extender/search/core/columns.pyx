# distutils: language = c++
"""A problem's units as flat arrays, copied and checked in one pass."""

from libc.stdint cimport int64_t
from libcpp.vector cimport vector

from extender.search.core.packed_cost cimport i64

cdef double LARGEST_SUM = 2.0e18
cdef i64 MOST_PODS = 1 << 30


class Doubtful(Exception):
    """A unit is malformed, which validate.check_units tells, or too large for this core.

    Too large: a request, or what one node or one cost level adds up to, beyond 2e18, so
    that room plus one more request stays an int64; budgets' pods beyond 2^30 in all.
    """


cdef cppclass ColumnSums:
    # What the units read so far add up to, and where they were.
    vector[int] kept_at      # resource -> its place among those that are asked for, -1
    vector[int] seen_on      # node, and
    vector[int] seen_budget  # budget -> the last unit there
    vector[double] paid      # per level
    vector[double] freed     # per resource
    i64 taken                # pods from all budgets


cdef int take_releases(Columns c, ColumnSums* sums, int u, tuple releases) except -1:
    """What the unit frees on its nodes, of the resources that are asked for."""
    cdef int r, node, resources = <int>sums.kept_at.size()
    cdef i64 amount
    cdef tuple amounts
    for node, amounts in releases:
        if node < 0 or node >= c.nodes or sums.seen_on[node] == u:
            raise ValueError("releases")
        if len(amounts) != resources:
            raise ValueError("releases")
        sums.seen_on[node] = u
        c.entry_node.push_back(node)
        for r in range(resources):
            amount = amounts[r]
            if amount < 0:
                raise ValueError("releases")
            sums.freed[r] += amount
            if sums.kept_at[r] >= 0:
                c.releases.push_back(amount)
    return 0


cdef int take_cost(Columns c, ColumnSums* sums, tuple cost) except -1:
    """What the unit costs, level by level."""
    cdef int level
    cdef i64 amount
    if len(cost) != c.levels:
        raise ValueError("cost")
    for level in range(c.levels):
        amount = cost[level]
        if amount:
            if amount < 0:
                raise ValueError("cost")
            sums.paid[level] += amount
            c.cost_level.push_back(level)
            c.cost_amount.push_back(amount)
    return 0


cdef int take_uses(Columns c, ColumnSums* sums, int u, tuple uses) except -1:
    """The unit's pods of each budget."""
    cdef int budget, pods, budgets = <int>sums.seen_budget.size()
    for budget, pods in uses:
        if budget < 0 or budget >= budgets or pods < 1 or sums.seen_budget[budget] == u:
            raise ValueError("budgets")
        sums.seen_budget[budget] = u
        c.use_budget.push_back(budget)
        c.use_pods.push_back(pods)
        sums.taken += pods
    return 0


cdef int check_sums(Columns c, ColumnSums* sums, problem) except -1:
    """Whether everything added up stays in range."""
    cdef int level, r, k
    cdef i64 amount
    cdef double most
    for level in range(c.levels):
        for elastic in problem.gangs:
            sums.paid[level] += <double>elastic.break_cost[level]
        if sums.paid[level] + <double>sums.taken > LARGEST_SUM:
            raise ValueError("cost")
    if sums.taken > MOST_PODS:
        raise ValueError("budgets")
    for r in range(<int>sums.kept_at.size()):
        most = sums.freed[r]
        for k in range(c.nodes):
            if sums.kept_at[r] >= 0:
                amount = c.free[k * c.resources + sums.kept_at[r]]
                if abs(<double>amount) + sums.freed[r] > most:
                    most = abs(<double>amount) + sums.freed[r]
        if most > LARGEST_SUM:
            raise ValueError("releases")
    if any(wanted > LARGEST_SUM for wanted in problem.classes[0].request):
        raise ValueError("request")
    return 0


cdef class Columns:
    """A problem of one class as flat arrays; shared by all regions."""

    def __init__(self, problem):
        """Copy the columns. The frame is valid (check_frame), there is one class, no wide cap.

        Raises Doubtful where check_units would complain, or a number leaves int64.
        """
        cls = problem.classes[0]
        request = cls.request
        kept = [r for r in range(len(request)) if request[r] > 0]
        self.kept = kept
        self.nodes = len(problem.nodes)
        self.resources = len(kept)
        self.levels = len(problem.levels)
        self.need = max(problem.need, cls.least)
        self.count = cls.count
        cdef int r, n, k, entry
        cdef i64 amount
        try:
            for r in kept:
                self.request.push_back(request[r])
        except OverflowError as error:
            raise Doubtful("request") from error
        self.free.resize(self.nodes * self.resources)
        cdef const int64_t[::1] column
        k = 0
        for r in kept:
            column = problem.free[r]
            for n in range(self.nodes):
                self.free[n * self.resources + k] = column[n]
            k += 1
        cdef const unsigned char[::1] allowed = cls.allowed
        cdef int most = min(cls.count, 1 << 30)
        self.limit.resize(self.nodes)
        for n in range(self.nodes):
            self.limit[n] = 0
            if allowed[n]:
                self.limit[n] = most
        for cap in problem.caps:
            if 0 in cap.classes:
                most = min(cap.limit, 1 << 30)
                for n in range(self.nodes):
                    if cap.domain[n] >= 0 and self.limit[n] > most:
                        self.limit[n] = most
        try:
            self._take_units(problem, kept)
        except (TypeError, ValueError, OverflowError) as error:
            raise Doubtful(str(error)) from error
        self._take_rules(problem)

    cdef _take_units(self, problem, list kept):
        """Copy and check the units; the checks are those of validate.check_units."""
        cdef int k, gang, u = 0, gangs = len(problem.gangs)
        cdef ColumnSums sums
        sums.taken = 0
        sums.kept_at.assign(len(problem.resources), -1)
        for k in range(len(kept)):
            sums.kept_at[kept[k]] = k
        sums.seen_on.assign(self.nodes, -1)
        sums.seen_budget.assign(len(problem.budgets), -1)
        sums.paid.assign(self.levels, 0.0)
        sums.freed.assign(len(problem.resources), 0.0)
        self.units = len(problem.units)
        self.unit_first.reserve(self.units + 1)
        self.cost_first.reserve(self.units + 1)
        self.use_first.reserve(self.units + 1)
        self.unit_gang.reserve(self.units)
        self.entry_node.reserve(self.units + self.units // 4)
        self.releases.reserve((self.units + self.units // 4) * self.resources)
        for unit in problem.units:
            self.unit_first.push_back(<int>self.entry_node.size())
            self.cost_first.push_back(<int>self.cost_level.size())
            self.use_first.push_back(<int>self.use_budget.size())
            take_releases(self, &sums, u, unit.releases)
            take_cost(self, &sums, unit.cost)
            gang = unit.gang
            if gang < -1 or gang >= gangs:
                raise ValueError("gang")
            self.unit_gang.push_back(gang)
            take_uses(self, &sums, u, unit.budgets)
            u += 1
        self.unit_first.push_back(<int>self.entry_node.size())
        self.cost_first.push_back(<int>self.cost_level.size())
        self.use_first.push_back(<int>self.use_budget.size())
        if len({unit.uid for unit in problem.units}) != self.units:
            raise ValueError("uid")
        check_sums(self, &sums, problem)

    cdef _take_rules(self, problem):
        cdef int level, number
        self.gangs = len(problem.gangs)
        for gang in problem.gangs:
            number = min(gang.surplus, 1 << 30)
            self.surplus.push_back(number)
            self.broken_first.push_back(<int>self.broken_level.size())
            for level in range(self.levels):
                if gang.break_cost[level]:
                    self.broken_level.push_back(level)
                    self.broken_amount.push_back(gang.break_cost[level])
        self.broken_first.push_back(<int>self.broken_level.size())
        self.budgets = len(problem.budgets)
        for budget in problem.budgets:
            number = min(budget.allowed, 1 << 30)
            self.allowed_pods.push_back(number)
            number = 0
            if budget.hard:
                number = 1
            self.hard.push_back(number)
            self.budget_level.push_back(budget.level)
        self.waiting.assign(self.nodes, 0)
        blocked = {}
        for blocker in problem.blockers:
            blocked.setdefault(blocker.node, set()).update(blocker.units)
        lifts = {}
        for node, units in blocked.items():
            self.waiting[node] = len(units)
            for unit in units:
                lifts.setdefault(unit, []).append(node)
        for unit in range(self.units):
            self.lift_first.push_back(<int>self.lift_node.size())
            for node in lifts.get(unit, ()):
                self.lift_node.push_back(node)
        self.lift_first.push_back(<int>self.lift_node.size())
