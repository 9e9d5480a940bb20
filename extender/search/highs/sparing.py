"""Levels at which an answer may lose nothing at all.

Most optima lose nothing at the most important levels. A program that has only such answers is far
smaller, and its optimum is the optimum: whatever loses something there is dearer.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.search.problem import Problem, Solution, Vector


def prefixes(problem: Problem, before: Solution, first: int) -> Iterator[int]:
    """Ends of the levels from ``first`` on at which an answer may lose nothing, as far as room
    tells, and where the one before does; the most levels first."""
    for end in range(len(problem.levels) - 1, first, -1):
        if any(before.cost[first:end]) and _has_room(problem, first, end):
            yield end


def nothing_lost(sure: Vector, end: int) -> list[int]:
    """The levels that cost nothing: of the proved ones (their costs are ``sure``), and all after
    them up to ``end``."""
    return [*(level for level, cost in enumerate(sure) if not cost), *range(len(sure), end)]


def _has_room(problem: Problem, first: int, end: int) -> bool:
    """Whether each class, alone, has room with all units gone that cost nothing at these levels."""
    room = [list(amounts) for amounts in problem.free]
    for unit in problem.units:
        if not any(unit.cost[first:end]):
            for n, amounts in unit.releases:
                for r, amount in enumerate(amounts):
                    room[r][n] += amount
    for cls in problem.classes:
        asked = [(room[r], amount) for r, amount in enumerate(cls.request) if amount]
        left = cls.count
        for n, allowed in enumerate(cls.allowed):
            if left <= 0:
                break
            if allowed:
                left -= max(0, min((has[n] // amount for has, amount in asked), default=left))
        if left > 0:
            return False
    return True
