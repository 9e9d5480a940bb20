"""A mixed problem taken apart: a class ready for the core, a node less room, a domain shut."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from msgspec.structs import replace

from extender.search.core.branch_and_bound import BranchAndBound
from extender.search.core.columns import Columns
from extender.search.core.multi_class_bound import MultiClassBound
from extender.search.problem import MOST_MEMBERS, Cap, MemberClass, Problem, Vector
from extender.search.problem.seat_regions import is_wide
from extender.search.problem.stop import Stop
from extender.search.problem.types import restated
from extender.search.several.reductions import alone, common_caps, largest


class OneClass:
    """One class on its own, ready for the core."""

    def __init__(self, problem: Problem, cls: int, need: int) -> None:
        self.cls = cls
        self.problem = alone(problem, cls, need)
        self.columns = Columns(self.problem)
        self.domain_limits = domain_limits(problem, cls)
        """The rule over domains that the core keeps: domains, and members in each at most."""

    def core(
        self, inside: bytes, extra: int, gone: Iterable[int] = (), kept: Iterable[int] = ()
    ) -> BranchAndBound:
        """The core's search of one region and branch; arguments as BranchAndBound's."""
        limits = self.domain_limits or ()
        return BranchAndBound(self.columns, inside, extra, gone, kept, -1, *limits)


class Together:
    """All classes at once, each member in need of a seat, ready for the core."""

    def __init__(self, problem: Problem) -> None:
        classes = problem.classes
        self.counts = [cls.count for cls in classes]
        self.requests = [cls.request for cls in classes]
        self.allowed = [cls.allowed for cls in classes]
        caps = common_caps(problem)
        whole = restated(
            problem,
            classes=(largest(problem),),
            gangs=problem.gangs,
            budgets=problem.budgets,
            caps=tuple(replace(cap, classes=(0,)) for cap in caps),
        )
        self.columns = Columns(whole)
        self.most = array("i", [problem.need]) * len(problem.nodes)
        """(N,) members that the caps on everybody leave to one node."""
        for cap in caps:
            for n, domain in enumerate(cap.domain):
                if domain >= 0:
                    self.most[n] = min(self.most[n], cap.limit)

    def relax(
        self, inside: bytes, extra: int, gone: Iterable[int], kept: Iterable[int], stop: Stop
    ) -> tuple[Vector, list[int], list[int]] | tuple[()] | None:
        """As MultiClassBound.search, for one region and one branch. Raises OutOfTime."""
        several = MultiClassBound(
            self.columns,
            inside,
            extra,
            gone,
            kept,
            self.requests,
            self.counts,
            self.allowed,
            self.most,
        )
        found = several.search(stop.deadline, stop.cancel)
        if found == ():
            stop.check()
        return found


def needs(problem: Problem) -> list[int]:
    """Seats each class needs for itself, whatever the others get."""
    total = sum(cls.count for cls in problem.classes)
    return [max(cls.least, problem.need - (total - cls.count)) for cls in problem.classes]


def domain_limits(problem: Problem, cls: int) -> tuple[array[int], tuple[int, ...]] | None:
    """Of the rules that limit the class in a domain the one that leaves fewest seats.

    A spread rule lets a domain be so much fuller than each other one; as all members
    have to sit somewhere, none can be fuller than what then remains for it.
    """
    found: list[tuple[array[int], tuple[int, ...]]] = [
        (cap.domain, (min(cap.limit, MOST_MEMBERS),) * (1 + max(cap.domain)))
        for cap in problem.caps
        if cls in cap.classes and is_wide(cap.domain)
    ]
    for rule in problem.spreads:
        if cls in rule.bound and cls in rule.counted and rule.most:
            members = sum(problem.classes[c].count for c in set(rule.counted))
            slack = [rule.max_skew - most for most in rule.most]
            limits = (
                slack
                if rule.from_zero
                else [
                    (members + sum(rule.fewest) - rule.fewest[d] + (len(slack) - 1) * slack[d])
                    // len(slack)
                    for d in range(len(slack))
                ]
            )
            found.append((rule.domain, tuple(min(max(0, limit), MOST_MEMBERS) for limit in limits)))
    return min(found, key=lambda rule: sum(rule[1]), default=None)


def binds_several(cap: Cap, nodes: Iterable[int]) -> bool:
    """Whether the cap binds over more than one of these nodes."""
    return is_wide(cap.domain[n] for n in nodes)


def seated(problem: Problem, rule: MemberClass, seats: Iterable[tuple[int, int]]) -> Problem:
    """The problem once so many members of the class sit on these nodes."""
    free = tuple(array("q", column) for column in problem.free)
    for n, members in seats:
        for column, amount in zip(free, rule.request, strict=True):
            column[n] -= amount * members
    return replace(problem, free=free)


def without(problem: Problem, node: int, rule: MemberClass) -> Problem:
    """The problem once a member of the class sits on the node."""
    free = tuple(array("q", column) for column in problem.free)
    for column, amount in zip(free, rule.request, strict=True):
        column[node] -= amount
    return replace(problem, free=free)


def shut(problem: Problem, cap: Cap, domain: int, seats: Iterable[tuple[int, int]]) -> Problem:
    """Keep of a full domain only the nodes of these seats, up to the cap's limit."""
    left = cap.limit
    kept: dict[int, int] = {}
    for n, members in seats:
        if left:
            kept[n] = min(left, members)
            left -= kept[n]
    allowed = bytearray(problem.classes[0].allowed)
    caps = list(problem.caps)
    for n in range(len(problem.nodes)):
        if cap.domain[n] == domain:
            if n not in kept:
                allowed[n] = 0
            else:
                only = array("i", [-1]) * len(problem.nodes)
                only[n] = 0
                caps.append(replace(cap, classes=(0,), domain=only, limit=kept[n]))
    return replace(
        problem,
        classes=(replace(problem.classes[0], allowed=bytes(allowed)),),
        caps=tuple(caps),
    )
