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
        cdef int level, r, k, node, budget, pods, gang, u = 0, width = self.levels
        cdef int resources = len(problem.resources), gangs = len(problem.gangs)
        cdef int budgets = len(problem.budgets)
        cdef i64 amount, taken = 0
        cdef double most
        cdef tuple releases, amounts, cost, uses
        cdef vector[int] kept_at, seen_on, seen_budget
        cdef vector[double] paid, freed
        kept_at.assign(resources, -1)
        for k in range(len(kept)):
            kept_at[kept[k]] = k
        seen_on.assign(self.nodes, -1)
        seen_budget.assign(budgets, -1)
        paid.assign(width, 0.0)
        freed.assign(resources, 0.0)
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
            releases = unit.releases
            for node, amounts in releases:
                if node < 0 or node >= self.nodes or seen_on[node] == u:
                    raise ValueError("releases")
                if len(amounts) != resources:
                    raise ValueError("releases")
                seen_on[node] = u
                self.entry_node.push_back(node)
                for r in range(resources):
                    amount = amounts[r]
                    if amount < 0:
                        raise ValueError("releases")
                    freed[r] += amount
                    if kept_at[r] >= 0:
                        self.releases.push_back(amount)
            cost = unit.cost
            if len(cost) != width:
                raise ValueError("cost")
            for level in range(width):
                amount = cost[level]
                if amount:
                    if amount < 0:
                        raise ValueError("cost")
                    paid[level] += amount
                    self.cost_level.push_back(level)
                    self.cost_amount.push_back(amount)
            gang = unit.gang
            if gang < -1 or gang >= gangs:
                raise ValueError("gang")
            self.unit_gang.push_back(gang)
            uses = unit.budgets
            for budget, pods in uses:
                if budget < 0 or budget >= budgets or pods < 1 or seen_budget[budget] == u:
                    raise ValueError("budgets")
                seen_budget[budget] = u
                self.use_budget.push_back(budget)
                self.use_pods.push_back(pods)
                taken += pods
            u += 1
        self.unit_first.push_back(<int>self.entry_node.size())
        self.cost_first.push_back(<int>self.cost_level.size())
        self.use_first.push_back(<int>self.use_budget.size())
        if len({unit.uid for unit in problem.units}) != self.units:
            raise ValueError("uid")
        for level in range(width):
            for elastic in problem.gangs:
                paid[level] += <double>elastic.break_cost[level]
            if paid[level] + <double>taken > LARGEST_SUM:
                raise ValueError("cost")
        if taken > MOST_PODS:
            raise ValueError("budgets")
        for r in range(resources):
            most = freed[r]
            for k in range(self.nodes):
                if kept_at[r] >= 0:
                    amount = self.free[k * self.resources + kept_at[r]]
                    if abs(<double>amount) + freed[r] > most:
                        most = abs(<double>amount) + freed[r]
            if most > LARGEST_SUM:
                raise ValueError("releases")
        cls = problem.classes[0]
        if any(wanted > LARGEST_SUM for wanted in cls.request):
            raise ValueError("request")

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
