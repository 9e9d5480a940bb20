"""What a set of chosen units costs: the one definition every solver is held to.

The cost is a vector of L integers, most important level first, compared
lexicographically (which is how Python compares tuples). It never falls when a
unit is added, so an unneeded unit can always be put back.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.search.problem.types import Problem, Vector


def cost_of(problem: Problem, chosen: Iterable[int], *, scattered: bool = False) -> Vector:
    """(L,) cost of choosing these units.

    ``scattered`` says that the seats lie in more than one topology domain (or
    outside every domain); it counts only when the domain is preferred.
    """
    units = [problem.units[index] for index in chosen]
    total = [sum(level) for level in zip(*(unit.cost for unit in units), strict=True)]
    total = total or [0] * len(problem.levels)
    taken_of_gang = [0] * len(problem.gangs)
    taken_of_budget = [0] * len(problem.budgets)
    if problem.gangs or problem.budgets:
        for unit in units:
            if unit.gang >= 0:
                taken_of_gang[unit.gang] += 1
            for budget, pods in unit.budgets:
                taken_of_budget[budget] += pods
    for taken, gang in zip(taken_of_gang, problem.gangs, strict=True):
        if taken > gang.surplus:
            for level, amount in enumerate(gang.break_cost):
                total[level] += amount
    for taken, budget_rule in zip(taken_of_budget, problem.budgets, strict=True):
        if not budget_rule.hard and taken > budget_rule.allowed:
            total[budget_rule.level] += taken - budget_rule.allowed
    if scattered and problem.domain is not None and not problem.domain_required:
        total[problem.domain_level] += 1
    return tuple(total)


def broken_budgets(problem: Problem, chosen: Iterable[int]) -> tuple[int, ...]:
    """Indices of the hard budgets that these units exceed."""
    taken = [0] * len(problem.budgets)
    for index in chosen:
        for budget, pods in problem.units[index].budgets:
            taken[budget] += pods
    return tuple(
        index
        for index, budget in enumerate(problem.budgets)
        if budget.hard and taken[index] > budget.allowed
    )


def is_free(problem: Problem, index: int) -> bool:
    """Whether taking the unit can never cost anything (a pod already terminating)."""
    unit = problem.units[index]
    return not any(unit.cost) and unit.gang < 0 and not unit.budgets


def add(left: Vector, right: Vector) -> Vector:
    """Level by level sum."""
    return tuple(a + b for a, b in zip(left, right, strict=True))
