"""Branch and bound over units inside one set of nodes: what the plain search does there.

``room`` is moved from one set of chosen units to the next; whether the gang fits is asked of
it alone. The core's search of several classes is the same with another bound and more ways to
a first answer (several/mixed.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.search.problem import Problem, Vector
from extender.search.problem.cost import broken_budgets, cost_of, is_free
from extender.search.problem.stop import OutOfTime, Stop
from extender.search.reference.best_answer import BestAnswer
from extender.search.reference.node_bounds import NodeBounds
from extender.search.seating.patterns import TooWide, Ways
from extender.search.seating.room import Room


class Region:
    """The search inside one set of nodes."""

    hurries = True
    """Whether first answers of several classes end with the time."""

    def __init__(
        self,
        problem: Problem,
        nodes: Sequence[int],
        *,
        scattered: bool,
        stop: Stop,
        ways: Ways | None = None,
    ) -> None:
        """Raises TooWide once ``ways`` are used up."""
        self.problem = problem
        self.scattered = scattered
        self.room = self.room_of(problem, nodes, ways)
        self.open: list[Vector] = []
        """Bounds of what was not looked at."""
        self.at_least = cost_of(problem, (), scattered=scattered)
        """Bound of what ``branch`` looks at now."""
        everything = [u for u in range(len(problem.units)) if self.room.relevant(u)]
        self.free = [u for u in everything if is_free(problem, u)]
        self.units = sorted(
            set(everything).difference(self.free),
            key=lambda u: (problem.units[u].cost, problem.units[u].uid),
        )
        self.room.choose(everything)
        self.possible = self._may_fit(stop)
        self.room.ways_known()
        self.stack: list[tuple[frozenset[int], frozenset[int], Vector]] = []
        """(chosen, kept, bound) of what ``branch`` has still to look at."""

    def _may_fit(self, stop: Stop) -> bool:
        """Whether the gang may fit with everybody gone: yes where the end comes before the
        answer, since packing several classes may take longer than all the rest."""
        self.room.stop = stop
        try:
            return not self.room.hopeless()
        except OutOfTime:
            return True
        finally:
            self.room.stop = None

    @staticmethod
    def room_of(problem: Problem, nodes: Sequence[int], ways: Ways | None) -> Room:
        """The room to try moves in."""
        return Room(problem, nodes, ways)

    def settle(self, best: BestAnswer, stop: Stop) -> Vector | None:
        """As ``branch``, and where the time runs out within a step."""
        self.room.stop = stop
        try:
            return self.branch(best, stop)
        except (OutOfTime, TooWide) as early:
            stop.wide = stop.wide or isinstance(early, TooWide)
            self.open = [self.at_least, *(entry[2] for entry in self.stack)]
            return min(self.open)
        finally:
            self.room.stop = None

    def price(self, chosen: Sequence[int] | frozenset[int] | set[int]) -> Vector:
        """Cost of these units for an answer in this region."""
        return cost_of(self.problem, chosen, scattered=self.scattered)

    def first_answers(self, best: BestAnswer, stop: Stop) -> None:
        """Put units back from "all chosen" in several orders; offer each outcome.

        Raises TooWide where that takes longer than there is, since packing several classes
        takes plain Python long: another way has a first answer sooner (alike.py).
        """
        if best.beaten_by(self.price(())):
            return
        problem = self.problem
        every = frozenset(self.room.chosen)

        def whole(u: int) -> Vector:
            unit = problem.units[u]
            if unit.gang < 0:
                return unit.cost
            broken = problem.gangs[unit.gang].break_cost
            return tuple(a + b for a, b in zip(unit.cost, broken, strict=True))

        tight = set(broken_budgets(problem, self.units))
        orders: list[Callable[[int], tuple[object, ...]]] = [
            lambda u: (problem.units[u].cost, problem.units[u].uid),
            lambda u: (whole(u), problem.units[u].uid),
            lambda u: (
                any(b in tight for b, _ in problem.units[u].budgets),
                whole(u),
                problem.units[u].uid,
            ),
        ]
        if self.hurries and stop.hurried and len(problem.classes) > 1:
            self.room.stop = stop
        try:
            self.room.put_back(self.units)
            if self.room.fits():
                best.offer(self.price(self.room.chosen), frozenset(self.room.chosen), self)
                self.room.choose(self.units)
                return
            self.room.choose(self.units)
            for order in orders:
                stop.check_first()
                if best.cost is not None and stop.over():
                    return
                self._reduce(sorted(self.units, key=order, reverse=True))
                chosen = frozenset(self.room.chosen)
                if not broken_budgets(problem, chosen):
                    best.offer(self.price(chosen), chosen, self)
                self.room.choose(every - chosen)
        except OutOfTime:
            if not self.hurries or self.room.stop is None:
                raise
            if best.cost is None:
                raise TooWide from None
        finally:
            if self.hurries:
                self.room.stop = None
                self.room.choose(every - self.room.chosen)

    def _reduce(self, order: Sequence[int]) -> None:
        """Put back, in this order, every unit that is not needed given the earlier ones.

        Runs of unneeded units are found by doubling, so that the question
        whether the gang still fits is asked seldom. When OutOfTime is raised here,
        the gang fits as the room is then.
        """
        position, run = 0, 1
        while position < len(order):
            if self.room.stop is not None:
                self.room.stop.check()
            batch = order[position : position + run]
            self.room.put_back(batch)
            try:
                fits = self.room.fits()
            except (OutOfTime, TooWide):
                self.room.choose(batch)
                raise
            if fits:
                position += len(batch)
                run *= 2
            else:
                self.room.choose(batch)
                if run == 1:
                    position += 1
                else:
                    run = max(1, len(batch) // 2)

    def branch(self, best: BestAnswer, stop: Stop) -> Vector | None:
        """Search until nothing is open or the budget ends; the region's lower bound.

        None when there is no answer in the region. Depth first without
        recursion: an entry is (chosen, kept, bound); ``room`` is moved from one
        entry to the next by difference.
        """
        zero = self.price(())
        if best.beaten_by(zero):
            return zero
        if stop.over():
            self.open = [zero]
            return zero
        relaxation = NodeBounds(self.problem, self.room, self.units, zero)
        self.room.put_back(self.units)
        nobody: frozenset[int] = frozenset()
        stack = self.stack = [(nobody, nobody, zero)]
        while stack:
            chosen, kept, at_least = stack.pop()
            self.at_least = at_least
            if best.beaten_by(at_least):
                continue
            if not stop.spend():
                self.open = [at_least, *(entry[2] for entry in stack)]
                return min(self.open)
            self._move_to(chosen)
            if self.room.fits():
                taken = frozenset(self.room.chosen)
                best.offer(self.price(taken), taken, self)
                continue
            undecided = [u for u in self.units if u not in chosen and u not in kept]
            relaxed = relaxation.relax(chosen, undecided, stop)
            if relaxed is None or best.beaten_by(max(at_least, relaxed.bound)):
                continue
            at_least = max(at_least, relaxed.bound)
            self._try(relaxed.units, best)
            if best.beaten_by(at_least) or not self._hopeful(undecided):
                continue
            unit = relaxed.first
            if unit is None:
                continue
            stack.append((chosen, kept | {unit}, at_least))
            if not broken_budgets(self.problem, (*chosen, unit)):
                stack.append((chosen | {unit}, kept, at_least))
        return best.cost

    def _hopeful(self, undecided: Sequence[int]) -> bool:
        """Whether the gang fits with everything undecided gone."""
        self.room.choose(undecided)
        fits = not self.room.hopeless()
        self.room.put_back(undecided)
        return fits

    def _try(self, units: Sequence[int], best: BestAnswer) -> None:
        """Offer the room's units with these, less what is not needed, where the gang fits."""
        before = frozenset(self.room.chosen)
        self.room.choose(units)
        if self.room.fits():
            every = sorted(
                self.room.chosen - set(self.free),
                key=lambda u: (self.problem.units[u].cost, self.problem.units[u].uid),
                reverse=True,
            )
            try:
                self._reduce(every)
            finally:  # out of time as well: the gang fits, perhaps with less gone
                taken = frozenset(self.room.chosen)
                if not broken_budgets(self.problem, taken):
                    best.offer(self.price(taken), taken, self)
        self.room.put_back(self.room.chosen - before)
        self.room.choose(before - self.room.chosen)

    def _move_to(self, chosen: frozenset[int]) -> None:
        now = self.room.chosen - set(self.free)
        self.room.put_back(now - chosen)
        self.room.choose(chosen - now)

    def reduce(self, chosen: frozenset[int]) -> frozenset[int] | None:
        """These units without any that can be put back here; None where they do not do."""
        self._move_to(frozenset())
        self.room.put_back(set(self.room.chosen))
        self.room.choose(chosen)
        if not self.room.fits():
            return None
        units = self.problem.units
        self._reduce(sorted(chosen, key=lambda u: (units[u].cost, units[u].uid), reverse=True))
        return frozenset(self.room.chosen)
