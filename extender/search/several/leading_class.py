"""Gangs of several classes of which one decides the cost.

A leader asks for a little CPU, its workers for whole nodes of GPUs: where the workers sit
decides who goes, and the leader fits in somewhere. Seats for one class alone cost no more
than seats for all, so when the cheapest answer for that class leaves room for the others
too, it is the cheapest answer for everybody, whatever units only the others could use.
Hence a caller may leave such units out of the problem, which is most of a large cluster.

Where the classes are much alike none of them decides alone. Then the class to lead is a
made-up one: all members, each asking the least that any of them asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from extender.search.problem import Limits, Problem, Solution
from extender.search.problem.seat_regions import is_wide
from extender.search.problem.stop import Flag, OutOfTime, Stop, part_of
from extender.search.problem.types import Solve, states_only
from extender.search.problem.validate import check_frame
from extender.search.several.reductions import alone, joint

SHARE = 0.3
"""Of the time that is left one leading class gets so much: where it decides it does so soon."""

JOINT = -1
"""In place of a class's index: all classes as one."""

KEPT = frozenset(
    ("gangs", "budgets", "blockers", "caps", "domain_required", "domain_level", "fill")
)
"""The RULES that are looked at here, or say nothing without a domain."""


def leads(problem: Problem) -> bool:
    """Whether the problem is one for ``solve``: everybody is needed, no rule binds nodes together
    other than units, gangs and budgets."""
    total = sum(cls.count for cls in problem.classes)
    return (
        len(problem.classes) > 1
        and problem.need == total
        and states_only(problem, KEPT)
        and not any(cap.limit < total and is_wide(cap.domain) for cap in problem.caps)
    )


def single_problem(problem: Problem, lead: int) -> Problem:
    """The leading class's own problem."""
    return joint(problem) if lead == JOINT else alone(problem, lead, problem.classes[lead].count)


def solve(
    problem: Problem,
    lead: int,
    search: Solve,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | None:
    """The optimum, when it is the class's (or JOINT's) own; None: another way is needed.

    ``leads(problem)`` holds; ``search`` is asked about the one class. Units
    that make no seat for the leading class may be missing.
    Raises InvalidInput for a malformed problem.
    """
    check_frame(problem)
    single = single_problem(problem, lead)
    found = search(single, limits, deadline=part_of(deadline, SHARE), cancel=cancel)
    if not isinstance(found, Solution) or not found.optimal:
        return None
    try:
        seats = _AllSeats(problem, single, lead, found, Stop(limits, deadline, cancel)).place()
    except OutOfTime:
        return None
    return None if seats is None else replace(found, seats=seats)


class _AllSeats:
    """Seats for all classes with these units gone, one class after the other.

    Each seat of another class may take seats of the leading class with it: where it takes
    none (for JOINT, none but its own) it goes first, else as long as enough are left.
    """

    def __init__(
        self, problem: Problem, single: Problem, lead: int, found: Solution, stop: Stop
    ) -> None:
        self.problem = problem
        self.stop = stop
        self.lead = lead
        self.leader = single.classes[0]
        self.own = 1 if lead == JOINT else 0
        self.room = [list(column) for column in problem.free]
        gone = set(found.chosen)
        self.freed: set[int] = set()
        for u in gone:
            for n, amounts in problem.units[u].releases:
                self.freed.add(n)
                for column, amount in zip(self.room, amounts, strict=True):
                    column[n] += amount
        self.shut = {
            (b.cls, b.node) for b in problem.blockers if any(u not in gone for u in b.units)
        }
        self.loads: dict[tuple[int, int], int] = {}
        self.seats: dict[tuple[int, int], int] = {}
        self.open = {n: seats for n in range(len(problem.nodes)) if (seats := self._led(n))}
        self.spare = sum(self.open.values()) - self.leader.count

    def place(self) -> tuple[tuple[int, int, int], ...] | None:
        """Seats (class, node, members); None where some member finds none. Raises OutOfTime."""
        for cls in self._others():
            if not self._seat(cls):
                return None
        if self.lead != JOINT:
            left = self.leader.count
            for n in sorted(self.open, key=lambda n: (n not in self.freed, -self.open[n], n)):
                members = min(left, self.open[n])
                if members:
                    self.seats[self.lead, n] = members
                    left -= members
            if left:
                return None
        return tuple(sorted((cls, n, members) for (cls, n), members in self.seats.items()))

    def _others(self) -> Iterator[int]:
        """All classes but the leading one, those that ask most first."""
        classes = self.problem.classes
        order = sorted(range(len(classes)), key=lambda c: classes[c].request, reverse=True)
        return (c for c in order if c != self.lead and classes[c].count)

    def _seat(self, cls: int) -> bool:
        left = self.problem.classes[cls].count
        dear: list[tuple[int, int]] = []
        for n in range(len(self.problem.nodes)):
            if n % 64 == 0:
                self.stop.check_first()
            while left and self._fits(cls, n):
                loss = self._loss(cls, n)
                if loss:
                    dear.append((loss, n))
                    break
                self._take(cls, n, 0)
                left -= 1
            if not left:
                return True
        for _, n in sorted(dear):
            self.stop.check_first()
            while left and self._fits(cls, n):
                loss = self._loss(cls, n)
                if loss > self.spare:
                    break
                self._take(cls, n, loss)
                left -= 1
        return not left

    def _loss(self, cls: int, n: int) -> int:
        """Seats of the leading class that one more member there would cost, its own aside."""
        before = self.open.get(n, 0)
        if not before:
            return 0
        self._move(cls, n, 1)
        after = self._led(n)
        self._move(cls, n, -1)
        return before - after - self.own

    def _take(self, cls: int, n: int, loss: int) -> None:
        self._move(cls, n, 1)
        self.seats[cls, n] = self.seats.get((cls, n), 0) + 1
        if n in self.open:
            self.open[n] = self._led(n)
        self.spare -= loss

    def _move(self, cls: int, n: int, sign: int) -> None:
        request = self.problem.classes[cls].request
        for column, amount in zip(self.room, request, strict=True):
            column[n] -= sign * amount
        for index, cap in enumerate(self.problem.caps):
            if cls in cap.classes and cap.domain[n] >= 0:
                at = (index, cap.domain[n])
                self.loads[at] = self.loads.get(at, 0) + sign

    def _fits(self, cls: int, n: int) -> bool:
        """Whether one more member of the class fits on the node."""
        rule = self.problem.classes[cls]
        return (
            bool(rule.allowed[n])
            and (cls, n) not in self.shut
            and self._within(rule.request, n) > 0
            and self._uncapped(n, (cls,)) > 0
        )

    def _led(self, n: int) -> int:
        """Seats of the leading class on the node now."""
        if not self.leader.allowed[n] or (self.lead, n) in self.shut:
            return 0
        most = self._within(self.leader.request, n)
        if not most:
            return 0
        every = range(len(self.problem.classes))
        return min(most, self._uncapped(n, every if self.lead == JOINT else (self.lead,)))

    def _within(self, request: Sequence[int], n: int) -> int:
        most = self.leader.count
        for column, amount in zip(self.room, request, strict=True):
            if amount > 0:
                if column[n] < amount:
                    return 0  # of most nodes
                most = min(most, column[n] // amount)
        return most

    def _uncapped(self, n: int, classes: Iterable[int]) -> int:
        """How many more the caps leave that bind all of these classes there."""
        wanted = set(classes)
        left = 1 << 30
        for index, cap in enumerate(self.problem.caps):
            if wanted <= set(cap.classes) and cap.domain[n] >= 0:
                left = min(left, cap.limit - self.loads.get((index, cap.domain[n]), 0))
        return max(0, left)
