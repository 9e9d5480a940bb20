"""Classes of one member (a leader): tried on each node, with each least set that makes room.

What a leader takes from the other classes is then known, which bounds above what each class
says by itself cannot know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from extender.search.problem import MemberClass, Problem, Vector
from extender.search.problem.cost import broken_budgets
from extender.search.problem.stop import Stop
from extender.search.reference.best_answer import BestAnswer
from extender.search.several.class_bounds import ClassBounds
from extender.search.several.packed_room import PackedRoom
from extender.search.several.parts import OneClass, without

SEATS = 400
"""Seats of a class of one member that are tried one by one, at most."""
WAYS = 10
"""Units on a node whose sets are looked at one by one, at most."""


class Leaders:
    """Seats the leaders of a problem in one region."""

    def __init__(
        self, problem: Problem, bounds: ClassBounds, room: PackedRoom, units: Sequence[int]
    ) -> None:
        self.problem = problem
        self.bounds = bounds
        self.room = room
        self.units = units

    def bound(
        self,
        at_least: Vector,
        best: BestAnswer,
        stop: Stop,
        offer: Callable[[Iterable[int]], None],
    ) -> Vector:
        """A bound that knows what a class of one member takes from the other classes.

        The member sits on one of its nodes, with some least set of units gone there; the
        others are asked for their seats in what is left. The least of these bounds holds
        for every answer; all is given up once one is no dearer than what is known.
        ``offer`` is told units that may be an answer. Raises OutOfTime.
        """
        raised, tries = at_least, 0
        for leader in self.bounds.parts:
            others = [part for part in self.bounds.parts if part is not leader]
            cls = self.problem.classes[leader.cls]
            if cls.count > 1 or not others:
                continue
            lowest: Vector | None = None
            for n in self.room.region:
                stop.check()
                sets = list(self._ways(n, cls, leader.cls)) if cls.allowed[n] else []
                sets = [gone for gone in sets if not best.beaten_by(self.bounds.price(gone))]
                if not sets:
                    continue
                rest = [
                    OneClass(without(self.problem, n, cls), p.cls, p.problem.need) for p in others
                ]
                for gone in sets:
                    tries += 1
                    if tries > SEATS or not stop.spend():
                        return raised
                    found = [self.bounds.ask(part, gone, frozenset(), stop) for part in rest]
                    answers = [answer for answer in found if answer is not None]
                    if len(answers) < len(found):
                        continue
                    offer(gone.union(*(units for _, units in answers)))
                    dearest = max(bound for bound, _ in answers)
                    lowest = dearest if lowest is None else min(lowest, dearest)
                    if lowest <= raised:
                        return raised
            raised = lowest or best.cost or raised
        return raised

    def _ways(self, n: int, cls: MemberClass, index: int) -> Iterator[frozenset[int]]:
        """The least sets of units that make room for one member of the class on the node;
        the empty set, which bounds them all, where they are many."""
        units, asked = self.problem.units, cls.request
        forced = frozenset(
            u
            for b in self.problem.blockers
            if (b.cls, b.node) == (index, n)
            for u in b.units
            if u in self.units
        )
        left = [max(0, ask - have) for ask, have in zip(asked, self.room.amounts(n), strict=True)]
        gives = {u: dict(units[u].releases).get(n, (0,) * len(left)) for u in self.units}
        items = [
            u
            for u, amounts in gives.items()
            if u not in forced and any(a and b for a, b in zip(amounts, left, strict=True))
        ]
        if len(items) > WAYS:
            yield frozenset()
            return
        found: list[frozenset[int]] = []
        for size in range(len(items) + 1):
            for some in combinations(items, size):
                gone = forced.union(some)
                if any(less <= gone for less in found) or broken_budgets(self.problem, gone):
                    continue
                if all(
                    sum(gives[u][r] for u in gone) >= lack for r, lack in enumerate(left) if lack
                ):
                    found.append(gone)
                    yield gone
