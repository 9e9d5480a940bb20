"""Answers class by class: each takes the units that are cheapest for it, given what those
before it took. They prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.search.problem import Problem, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.stop import Stop, at_once
from extender.search.several.parts import OneClass, seated

FIRST = 40
"""Branches of the core for one class of an answer."""

NO_TIME = at_once(None, None)
"""For what asks no clock."""


class ClassSeating:
    """Seats the classes of a problem one after the other, in one region."""

    def __init__(
        self, problem: Problem, parts: Sequence[OneClass], inside: bytes, extra: int
    ) -> None:
        self.problem = problem
        self.parts = parts
        self.inside, self.extra = inside, extra

    def orders(self) -> list[tuple[int, ...]]:
        """Classes: who asks for most first; the most members first; the fewest first."""
        classes = self.problem.classes
        size = [(sum(map(bool, cls.request)), cls.request) for cls in classes]
        down = sorted(self.parts, key=lambda p: (size[p.cls], p.cls), reverse=True)
        many = sorted(self.parts, key=lambda p: (-p.problem.need, p.cls))
        few = many[::-1]
        return list(dict.fromkeys(tuple(p.cls for p in order) for order in (down, many, few)))

    def units(
        self,
        order: Sequence[int],
        gone: frozenset[int],
        kept: frozenset[int],
        stop: Stop,
        learn: Callable[[Vector], None] | None = None,
    ) -> frozenset[int] | None:
        """The units to take, ``gone`` among them; None where one of the classes finds no seats.

        ``gone`` are taken already, ``kept`` stay. ``learn``, where nobody is either: is told what
        the first class's seats cost at least, and so everybody's. Raises OutOfTime, but not of
        NO_TIME.
        """
        problem = self.problem
        parts = {part.cls: part for part in self.parts}
        for cls in order:
            part = parts[cls]
            if problem is not self.problem:
                part = OneClass(problem, cls, part.problem.need)
            core = part.core(self.inside, self.extra, gone, kept)
            if not core.possible:
                return None
            if core.settled_free:
                chosen: list[int] | None = core.free_answer()
            else:
                chosen, bound, closed, _ = core.search(None, FIRST, stop.deadline, stop.cancel)
                if closed and chosen is not None:
                    bound = cost_of(self.problem, chosen, scattered=self.extra >= 0)
                if learn is not None and problem is self.problem and bound is not None:
                    learn(bound)
                if not closed and stop is not NO_TIME:
                    stop.check()
            if chosen is None:
                return None
            seats = core.seats(chosen, fill=False)
            gone |= frozenset(chosen)
            problem = seated(problem, self.problem.classes[cls], seats)
        return gone
