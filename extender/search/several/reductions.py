"""Of a problem with several classes the problem of one: a class alone, or all taken for one.

Whatever answers the whole answers these as well, so their optimum is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from extender.search.problem import Blocker, Cap, MemberClass, Problem, Vector
from extender.search.problem.types import restated


def alone(problem: Problem, cls: int, need: int) -> Problem:
    """The problem of one class, ``need`` seats; what binds several nodes or classes is kept
    only where it binds this class on each node."""
    rule = problem.classes[cls]
    return restated(
        problem,
        classes=(replace(rule, count=need, least=0),),
        need=need,
        gangs=problem.gangs,
        budgets=problem.budgets,
        blockers=tuple(Blocker(0, b.node, b.units) for b in problem.blockers if b.cls == cls),
        caps=tuple(replace(c, classes=(0,)) for c in problem.caps if cls in c.classes),
    )


def joint(problem: Problem) -> Problem:
    """All members as one class that asks, and forbids, the least that any of them does."""
    classes = problem.classes
    cls = MemberClass(
        name="all members",
        request=least_request([rule.request for rule in classes]),
        count=everybody(problem),
        allowed=bytes(map(max, *(rule.allowed for rule in classes))),
    )
    return restated(
        problem,
        classes=(cls,),
        need=cls.count,
        gangs=problem.gangs,
        budgets=problem.budgets,
        caps=tuple(replace(cap, classes=(0,)) for cap in common_caps(problem)),
    )


def largest(problem: Problem) -> MemberClass:
    """All members as one class that asks the most that any does, and may use what all may."""
    classes = problem.classes
    return MemberClass(
        name="largest",
        request=tuple(map(max, *(rule.request for rule in classes))),
        count=everybody(problem),
        allowed=bytes(map(min, *(rule.allowed for rule in classes))),
    )


def everybody(problem: Problem) -> int:
    """Members who have to sit."""
    return max(problem.need, sum(rule.least for rule in problem.classes))


def common_caps(problem: Problem) -> list[Cap]:
    """The caps that count every class."""
    return [cap for cap in problem.caps if len(set(cap.classes)) == len(problem.classes)]


def least_request(requests: Sequence[Vector]) -> Vector:
    """(R,) of each resource the least that one of (C, R) requests asks."""
    return tuple(map(min, *requests))
