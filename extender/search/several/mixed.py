"""Gangs the compiled core does not cover: several classes, caps over several nodes.

The core bounds each branch (class_bounds.py), and the units that it chooses are tried on the
true problem, exactly (room.py). When the members of all classes fit, and every rule holds,
that answer is the optimum of the whole. Otherwise repairs look for an answer (repairs.py), a
class of one member is tried on each of its nodes (leaders.py), and branch and bound over the
units goes on. First answers come class by class (class_seating.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.search.core import one_class
from extender.search.core.columns import Doubtful
from extender.search.core.one_class import mask
from extender.search.kinds import alike
from extender.search.problem import Infeasible, Limits, Problem, Solution, Vector
from extender.search.problem.cost import broken_budgets
from extender.search.problem.stop import Flag, OutOfTime, Stop, at_once
from extender.search.reference.best_answer import BestAnswer, BestFound
from extender.search.reference.region import Region
from extender.search.reference.search import answer, open_regions
from extender.search.seating.patterns import TooWide, Ways
from extender.search.several.class_bounds import BranchBound, ClassBounds, Classes, Learn
from extender.search.several.class_seating import NO_TIME, ClassSeating
from extender.search.several.leaders import Leaders
from extender.search.several.packed_room import UNKNOWN, PackedRoom
from extender.search.several.repairs import Repairs

COSTLY_UNITS = 70
"""From so many units on a branch counts as several: Python moves them all, and
asks anew for each of them whether it is needed."""

TURNS = 60
"""Times that a part of the best answer is taken away and seated anew."""

NOBODY: frozenset[int] = frozenset()


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As reference.solve. Raises Doubtful when a unit is malformed or too wide, TooWide where
    the classes have more ways to share the nodes than are looked at."""
    stop, ways, best = Stop(limits, deadline, cancel), Ways(), BestAnswer()
    best.last_resort = lambda: _last_resort(problem, cancel)
    classes = Classes(problem)
    regions = open_regions(
        problem,
        stop,
        best,
        lambda nodes, far: MixedRegion(classes, nodes, scattered=far, stop=stop, ways=ways),
    )
    return answer(problem, regions, best, stop)


def _last_resort(problem: Problem, cancel: Flag | None) -> BestFound | None:
    """Members seated one after the other, and near classes taken for one: no clock is asked."""
    stop = at_once(None, cancel)

    def exact(one: Problem, limits: Limits, **_: object) -> Solution | Infeasible:
        core = one_class.solve if one_class.takes(one) else solve
        return core(one, limits, deadline=stop.deadline, cancel=stop.cancel)

    try:
        found = alike.solve(problem, exact, deadline=stop.deadline, cancel=stop.cancel)
    except Doubtful:
        return None
    return (found.cost, found.chosen, found.seats) if isinstance(found, Solution) else None


class MixedRegion(Region):
    """The plain search's region with the core as its relaxation."""

    room: PackedRoom
    hurries = False

    def __init__(
        self,
        classes: Classes,
        nodes: Sequence[int],
        *,
        scattered: bool,
        stop: Stop,
        ways: Ways | None = None,
    ) -> None:
        problem, parts = classes.problem, classes.alone
        super().__init__(problem, nodes, scattered=scattered, stop=stop, ways=ways)
        inside = mask(problem, nodes)
        self.stop: Stop | None = None
        self.bounds = ClassBounds(classes, self.room, inside, scattered=scattered)
        self.seating = ClassSeating(problem, parts, inside, self.bounds.extra)
        self.repairs = Repairs(problem, parts, self.room.region, inside, self.bounds.extra)
        self.leaders = Leaders(problem, self.bounds, self.room, self.units)
        self.dear: tuple[Vector | None, frozenset[int]] = (None, frozenset())
        self.price_of_branch = (len(self.units) // COSTLY_UNITS) ** 2

    @staticmethod
    def room_of(problem: Problem, nodes: Sequence[int], ways: Ways | None) -> PackedRoom:
        """A room that the core packs."""
        return PackedRoom(problem, nodes, ways)

    def first_answers(self, best: BestAnswer, stop: Stop) -> None:
        """The answer without victims; else the classes seated one after the other, each at
        least cost; else everybody gone, and put back as far as they are not needed.

        The time counts only where packing may take long: rules over several nodes.
        """
        if best.beaten_by(self.price(())):
            return
        before, quick = best.cost, False
        self.stop = stop
        if not self.room.packs:
            self.room.stop = stop
        try:
            self.room.put_back(self.units)
            if self.room.fits():
                best.offer(self.price(self.room.chosen), frozenset(self.room.chosen), self)
                return
            if stop.hurried:
                # As if no time were left, whatever there is: what a search without any time
                # answers, a search with some time has too.
                self._at_once(best, stop)
            else:
                self._until_better(best, stop)
            if best.cost == before:
                self._move_to(frozenset())
                self.room.choose(self.units)
                super().first_answers(best, stop)
                self._move_to(frozenset())
            # The quick ways up to here asked no clock: what they have found, every search has.
            quick = self.room.packs and best.cost is not None
            if stop.hurried and not stop.over():
                self._until_better(best, stop)
        except (OutOfTime, TooWide) as early:
            stop.wide = stop.wide or isinstance(early, TooWide)
        finally:
            self.room.stop = None
            if quick:
                best.last_resort = None

    def _try(self, units: Sequence[int], best: BestAnswer) -> None:
        """As Region._try; where the time may run out meanwhile, what fits is kept first."""
        if self.room.stop is None and self.stop is not None:
            before = frozenset(self.room.chosen)
            self.room.choose(units)
            taken = frozenset(self.room.chosen)
            if self.room.fits() and not broken_budgets(self.problem, taken):
                best.offer(self.price(taken), taken, self)
                self.room.stop = self.stop
            self.room.put_back(self.room.chosen - before)
            try:
                super()._try(units, best)
            finally:
                self.room.stop = None
            return
        super()._try(units, best)

    def _at_once(self, best: BestAnswer, stop: Stop) -> None:
        """Seat one class after the other, in several orders until one of them does, and ask
        no clock."""
        self.stop, watching = NO_TIME, self.room.stop
        try:
            self._until_better(best, NO_TIME)
        except OutOfTime:
            self.room.stop = watching  # where rules span nodes the room asks the clock itself
        finally:
            self.stop = stop
            self._move_to(frozenset())

    def _until_better(self, best: BestAnswer, stop: Stop) -> None:
        before = best.cost
        for order in self.seating.orders():
            self._seat(order, NOBODY, NOBODY, best, stop, self._learn)
            if best.cost != before:
                break

    def _seat(
        self,
        order: Sequence[int],
        gone: frozenset[int],
        kept: frozenset[int],
        best: BestAnswer,
        stop: Stop,
        learn: Learn | None = None,
    ) -> None:
        """Seat one class after the other, as ClassSeating.units, and try that."""
        units = self.seating.units(order, gone, kept, stop, learn)
        if units is not None:
            self._offer(units, best)

    def _offer(self, units: Iterable[int], best: BestAnswer) -> None:
        """Try the room's units with these, in this order."""
        self._try([u for u in units if u not in self.room.chosen], best)

    def _improve(self, at_least: Vector, best: BestAnswer, stop: Stop) -> None:
        """Take some units of the best answer away and seat the classes anew in what is left,
        in a fixed sequence. It proves nothing.

        Only against the clock: without one the work goes into the proof.
        """
        if not stop.hurried:
            return
        orders = self.seating.orders()
        seed = 12345
        on_node: dict[int, list[int]] = {}
        for u in self.units:
            for n in self.room.touched(u):
                on_node.setdefault(n, []).append(u)
        for turn in range(TURNS):
            stop.check()
            mine = sorted(best.chosen.intersection(self.units))
            if best.search is not self or best.beaten_by(at_least) or not mine:
                return
            seed = (seed * 1664525 + 1013904223) % (1 << 32)
            start = mine[(seed >> 8) % len(mine)]
            away = {start}
            for n in self.room.touched(start):
                away.update(u for u in on_node[n] if u in best.chosen)
            for _ in range((seed >> 4) % (1 + len(mine) // 3)):
                seed = (seed * 1664525 + 1013904223) % (1 << 32)
                away.add(mine[(seed >> 8) % len(mine)])
            kept = frozenset((start,)) if turn % 3 else frozenset()
            left = frozenset(mine) - away
            self._seat(orders[turn % len(orders)], left, kept, best, stop)

    def branch(self, best: BestAnswer, stop: Stop) -> Vector | None:
        """As Region.branch, with the core's bounds."""
        zero = self.at_least  # the first answers may have told more than that nobody has to go
        if best.beaten_by(zero):
            return zero
        if stop.over():
            self.open = [zero]
            return zero
        self._move_to(NOBODY)
        stack = self.stack = [(NOBODY, NOBODY, zero)]
        unknown: list[Vector] = []
        first = True
        while stack:
            gone, kept, at_least = stack.pop()
            self.at_least = at_least
            if best.beaten_by(at_least):
                continue
            if not stop.spend():
                self.open = [at_least, *(entry[2] for entry in stack), *unknown]
                return min(self.open)
            stop.used += self.price_of_branch
            self._move_to(gone)
            if self.room.fits():
                taken = frozenset(self.room.chosen)
                best.offer(self.price(taken), taken, self)
                continue
            kept |= self._too_dear(best) - gone
            relaxed = self.bounds.relax(gone, kept, stop, self._learn)
            if relaxed is None:
                continue
            at_least = self.at_least = max(at_least, relaxed.bound)
            if best.beaten_by(at_least):
                continue
            self._propose(relaxed, best)
            if first and not self.room.packs and not best.beaten_by(at_least):
                best.resort(self)
            short = stop.hurried and self.bounds.may_say_more
            if short and not gone and not self.bounds.quick and not best.beaten_by(at_least):
                self.bounds.ask_more()
                stack.append((gone, kept, at_least))
                continue
            if first:
                first = False
                at_least = self._at_root(relaxed, at_least, best, stop)
                if not best.beaten_by(at_least) and (short or not self._too_dear(best) <= kept):
                    stack.append((gone, kept, at_least))  # once more, with less to look at
                    continue
            undecided = [u for u in self.units if u not in gone and u not in kept]
            if best.beaten_by(at_least):
                continue
            if not undecided and self.room.verdict() == UNKNOWN:
                unknown.append(at_least)
            if not undecided or not self._hopeful(undecided):
                continue
            pivot = self._pivot(undecided, relaxed, best)
            stack += self._children(gone, kept, pivot, at_least)
        if unknown:
            self.open = unknown
            return min(unknown)
        return best.cost

    def _children(
        self, gone: frozenset[int], kept: frozenset[int], unit: int, at_least: Vector
    ) -> list[tuple[frozenset[int], frozenset[int], Vector]]:
        """The branch where the unit stays and, last and so looked at first, where it goes."""
        children = [(gone, kept | {unit}, at_least)]
        if not broken_budgets(self.problem, (*gone, unit)):
            children.append((gone | {unit}, kept, at_least))
        return children

    def _at_root(
        self, relaxed: BranchBound, at_least: Vector, best: BestAnswer, stop: Stop
    ) -> Vector:
        """Do once, before anything is decided, what finds answers and raises the bound
        ``at_least``; return that. (levels,)"""
        if not best.beaten_by(at_least):
            self._repair(relaxed, best, stop)
        if not best.beaten_by(at_least):
            self._improve(at_least, best, stop)
        if not best.beaten_by(at_least):
            led = self.leaders.bound(at_least, best, stop, lambda units: self._offer(units, best))
            at_least = max(at_least, led)
        self.bounds.ask_all()
        return at_least

    def _learn(self, bound: Vector) -> None:
        """The bound holds of what is looked at now, whatever is found of it later."""
        self.at_least = max(self.at_least, bound)

    def _too_dear(self, best: BestAnswer) -> frozenset[int]:
        """Units that alone cost more than the best answer: no better one takes them."""
        if best.cost != self.dear[0]:
            cost, units = best.cost, self.problem.units
            dear = frozenset(u for u in self.units if cost is not None and units[u].cost > cost)
            self.dear = (cost, dear)
        return self.dear[1]

    def _propose(self, relaxed: BranchBound, best: BestAnswer) -> None:
        """Try what each class chooses, and all of it together."""
        every = NOBODY.union(*relaxed.chosen)
        for units in dict.fromkeys([*relaxed.chosen, every]):
            self._offer(units, best)

    def _pivot(self, undecided: Sequence[int], relaxed: BranchBound, best: BestAnswer) -> int:
        """What to decide next: what is chosen in some of its domains only, before what the
        best answer takes and the core does not, before what the core takes, before the
        rest; the dearest of them."""
        taken = NOBODY.union(*relaxed.chosen)
        units = self.problem.units
        return max(
            undecided,
            key=lambda u: (
                u in relaxed.torn,
                u in best.chosen and u not in taken,
                u in taken,
                units[u].cost,
                u,
            ),
        )

    def _repair(self, relaxed: BranchBound, best: BestAnswer, stop: Stop) -> None:
        """Look for answers near the core's when its own did not fit."""
        for changed in self.repairs.changed(stop):
            found = self.bounds.ask(changed, NOBODY, NOBODY, stop)
            if found is not None:
                self._offer(found[1], best)
                self._offer(found[1].union(*relaxed.chosen), best)
            if best.beaten_by(relaxed.bound):
                return
