"""What the core says about a branch: each class alone, all of them at once, each domain alone.

Leave all but one class out, and of the rules over several nodes keep the one that is
tightest: what remains is a problem of the core, and its optimum is a lower bound. The units
it chooses are a proposal. Rules over several nodes are relaxed in a way of their own as well
(by_domain.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from extender.search.core.columns import Doubtful
from extender.search.problem import Problem, Vector
from extender.search.problem.cost import add, cost_of
from extender.search.problem.stop import Stop
from extender.search.seating.spread import splits
from extender.search.several.by_domain import ByDomain, Split
from extender.search.several.packed_room import PackedRoom
from extender.search.several.parts import OneClass, Together, binds_several, needs
from extender.search.several.reductions import joint

QUESTIONS = (300, 1_000, 3_000, 10_000)
"""Branches of the core for one question of a search that has an end: at first, and each time
that did not settle the whole. Counts, and no shares of the time, so that a search with more
time goes the same way, further."""
QUICK = 2
"""Answers near the best one are looked for after the question of this number."""

Learn = Callable[[Vector], None]
"""Is told each bound of the branch as soon as it holds, also where the end cuts off the rest."""


class BranchBound(Struct, frozen=True):
    """What the core says about a branch."""

    bound: Vector
    chosen: tuple[frozenset[int], ...]
    """Per class on its own, and per rule over several nodes: the units it chooses."""
    torn: frozenset[int] = frozenset()
    """Units chosen in some of their domains only."""


class Classes:
    """A problem's classes, ready for the core; the same in all regions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.alone = [OneClass(problem, c, need) for c, need in enumerate(needs(problem)) if need]
        self.together = Together(problem) if _all_needed(problem) else None
        several = len(self.alone) > 1
        self.joint = OneClass(joint(problem), 0, problem.need) if several else None


def _all_needed(problem: Problem) -> bool:
    """Whether every member of several classes needs a seat, and nobody is in the way."""
    return (
        len(problem.classes) > 1
        and problem.need == sum(cls.count for cls in problem.classes)
        and not problem.blockers
    )


class ClassBounds:
    """Asks the core about the branches of one region."""

    def __init__(
        self, classes: Classes, room: PackedRoom, inside: bytes, *, scattered: bool
    ) -> None:
        self.problem = classes.problem
        self.parts = classes.alone
        self.inside = inside
        self.scattered = scattered
        self.extra = self.problem.domain_level if scattered else -1
        self.by_domain = [rule for part in self.parts for rule in self._by_domain(part, room)]
        self._together, self._joint = classes.together, classes.joint
        self._question = 0
        self._cut_short = False
        """Whether the core could have said more to a question, given more branches."""

    @property
    def may_say_more(self) -> bool:
        """Whether a longer question would tell more."""
        return self._cut_short and self._question + 1 < len(QUESTIONS)

    @property
    def quick(self) -> bool:
        """Whether the questions are as long as those that quick answers follow."""
        return self._question == QUICK

    def ask_more(self) -> None:
        """The next questions are longer."""
        self._question, self._cut_short = self._question + 1, False

    def ask_all(self) -> None:
        """The next questions are as long as they get."""
        self._question, self._cut_short = QUICK + 1, False

    def price(self, chosen: Sequence[int] | frozenset[int]) -> Vector:
        """Cost of these units for an answer in this region."""
        return cost_of(self.problem, chosen, scattered=self.scattered)

    def _by_domain(self, part: OneClass, room: PackedRoom) -> Iterator[ByDomain]:
        """One relaxation for each rule that binds this class over several nodes."""
        problem, cls = self.problem, part.cls
        rules: list[tuple[array[int], Sequence[Split]]] = [
            (cap.domain, [{d: (0, cap.limit) for d in set(cap.domain) if d >= 0}])
            for cap in problem.caps
            if cls in cap.classes and binds_several(cap, room.region)
        ]
        rules += [
            (rule.domain, splits(problem, index, cls, room.cases))
            for index, rule in enumerate(problem.spreads)
        ]
        for domain, ways in rules:
            try:
                relaxation = ByDomain(part.problem, domain, ways, room.region)
            except Doubtful:
                continue  # shares of the costs are too wide: the other bounds remain
            if relaxation.worthwhile:
                yield relaxation

    def relax(
        self, gone: frozenset[int], kept: frozenset[int], stop: Stop, learn: Learn
    ) -> BranchBound | None:
        """The bound of a branch; None when one of the classes cannot be seated.

        Raises OutOfTime.
        """
        bound = self.price(gone)
        sets: list[frozenset[int]] = []
        torn: frozenset[int] = frozenset()
        for part in self.parts:
            found = self.ask(part, gone, kept, stop, learn)
            if found is None:
                return None
            bound = max(bound, found[0])
            learn(bound)
            sets.append(found[1])
        for found in self._as_one(gone, kept, stop):
            if found is None:
                return None
            bound = max(bound, found[0])
            sets.append(found[1])
        for rule in self.by_domain:
            over = rule.relax(gone, kept, stop)
            if over is None:
                return None
            bound = max(bound, add(self.price(gone), over.bound))
            sets.append(gone | over.units)
            torn |= over.torn
        return BranchBound(bound, tuple(sets), torn)

    def _as_one(
        self, gone: frozenset[int], kept: frozenset[int], stop: Stop
    ) -> Iterator[tuple[Vector, frozenset[int]] | None]:
        """Bounds that see all classes at once, as ``ask``."""
        if self._together is not None:
            found = self._together.relax(self.inside, self.extra, gone, kept, stop)
            if found is None:
                yield None
            elif found:
                yield add(cost_of(self.problem, gone), found[0]), gone | frozenset(found[1])
                return
            self._together = None  # too many members, or kinds of them
        if self._joint is not None:
            yield self.ask(self._joint, gone, kept, stop)

    def ask(
        self,
        part: OneClass,
        gone: frozenset[int],
        kept: frozenset[int],
        stop: Stop,
        learn: Learn | None = None,
    ) -> tuple[Vector, frozenset[int]] | None:
        """(lower bound, units with ``gone``) for one class; None when it cannot be seated.

        ``learn``: where what is asked bounds the branch. Raises OutOfTime.
        """
        core = part.core(self.inside, self.extra, gone, kept)
        if not core.possible:
            return None
        if core.settled_free:
            return self.price(gone), gone | frozenset(core.free_answer())
        stop.check()
        most = max(1, stop.left)
        chosen, bound, closed, branches = core.search(
            None,
            min(most, QUESTIONS[self._question]) if stop.hurried else most,
            stop.deadline,
            stop.cancel,
        )
        self._cut_short = self._cut_short or not closed
        if learn is not None and bound is not None:
            learn(add(cost_of(self.problem, gone), bound))
        if not closed:
            stop.check()  # what the end cut off proposes nothing: later it may be something worse
        stop.used += branches - 1
        if chosen is None:
            if closed:
                return None
            return add(cost_of(self.problem, gone), bound or self.price(())), gone
        every = gone | frozenset(chosen)
        if closed:
            return self.price(every), every
        return add(cost_of(self.problem, gone), bound or self.price(())), every
