"""Gangs the compiled core does not cover: several classes, caps over several nodes.

Leave all but one class out, and of the rules over several nodes keep the one that is
tightest: what remains is a problem of the core, and its optimum is a lower bound. The
units it chooses are then tried on the true problem, exactly (room.py). When the members
of all classes fit, and every rule holds, that answer is the optimum of the whole.
Otherwise repairs look for an answer (ask for a few seats more, let every member ask what
the largest asks, close a domain that is full), a class of one member is tried on each of
its nodes, and branch and bound over the units goes on with the core as its bound.
Rules over several nodes are relaxed in a way of their own as well (by_domain.py).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from itertools import chain, combinations

from msgspec import Struct
from msgspec.structs import replace

from extender.search.core import one_class
from extender.search.core.branch_and_bound import BranchAndBound
from extender.search.core.columns import Doubtful
from extender.search.core.one_class import mask
from extender.search.kinds import alike
from extender.search.problem import (
    Cap,
    Infeasible,
    Limits,
    MemberClass,
    Problem,
    Solution,
    Vector,
)
from extender.search.problem.cost import add, broken_budgets, cost_of
from extender.search.problem.seat_regions import is_wide
from extender.search.problem.stop import Flag, OutOfTime, Stop, at_once
from extender.search.reference.best_answer import BestAnswer, Found
from extender.search.reference.region import Region
from extender.search.reference.search import answer, open_regions
from extender.search.seating.patterns import TooWide, Ways
from extender.search.seating.spread import splits
from extender.search.several.by_domain import ByDomain, Split
from extender.search.several.packed_room import UNKNOWN, PackedRoom
from extender.search.several.parts import OneClass, Together, needs, seated, shut, without
from extender.search.several.reductions import joint, largest

COSTLY_UNITS = 70
"""From so many units on a branch counts as several: Python moves them all, and
asks anew for each of them whether it is needed."""
REPAIRS = 16
"""Domains closed one after the other, and seats asked in addition, at most."""

QUESTIONS = (300, 1_000, 3_000, 10_000)
"""Branches of the core for one question of a search that has an end: at first, and each time
that did not settle the whole. Counts, and no shares of the time, so that a search with more
time goes the same way, further."""
QUICK = 2
"""Answers near the best one are looked for after the question of this number."""

FIRST = 40
"""Branches of the core for one class of a first answer."""

TURNS = 60
"""Times that a part of the best answer is taken away and seated anew."""

SEATS = 400
"""Seats of a class of one member that are tried one by one, at most."""

WAYS = 10
"""Units on a node whose sets are looked at one by one, at most."""

NO_TIME = at_once(None, None)


class BranchBound(Struct, frozen=True):
    """What the core says about a branch."""

    bound: Vector
    chosen: tuple[frozenset[int], ...]
    """Per class on its own, and per rule over several nodes: the units it chooses."""
    torn: frozenset[int] = frozenset()
    """Units chosen in some of their domains only."""


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
    parts = [OneClass(problem, c, need) for c, need in enumerate(needs(problem)) if need]
    together = Together(problem) if _all_needed(problem) else None
    one = OneClass(joint(problem), 0, problem.need) if len(parts) > 1 else None
    regions = open_regions(
        problem,
        stop,
        best,
        lambda nodes, far: MixedRegion(
            problem, nodes, parts, together, one, scattered=far, ways=ways
        ),
    )
    return answer(problem, regions, best, stop)


def _last_resort(problem: Problem, cancel: Flag | None) -> Found | None:
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


def _all_needed(problem: Problem) -> bool:
    """Whether every member of several classes needs a seat, and nobody is in the way."""
    return (
        len(problem.classes) > 1
        and problem.need == sum(cls.count for cls in problem.classes)
        and not problem.blockers
    )


class MixedRegion(Region):
    """The plain search's region with the core as its relaxation."""

    room: PackedRoom
    hurries = False

    def __init__(
        self,
        problem: Problem,
        nodes: Sequence[int],
        parts: Sequence[OneClass],
        together: Together | None,
        one: OneClass | None,
        *,
        scattered: bool,
        ways: Ways | None = None,
    ) -> None:
        super().__init__(problem, nodes, scattered=scattered, ways=ways)
        self.parts = parts
        self.inside = mask(problem, nodes)
        self.stop: Stop | None = None
        self.extra = problem.domain_level if scattered else -1
        self.together, self.joint = together, one
        self.by_domain = [rule for part in parts for rule in self._by_domain(part)]
        self.question = 0
        self.cut_short = False
        """Whether the core could have said more to a question, given more branches."""
        self.dear: tuple[Vector | None, frozenset[int]] = (None, frozenset())
        self.price_of_branch = (len(self.units) // COSTLY_UNITS) ** 2

    def _by_domain(self, part: OneClass) -> Iterator[ByDomain]:
        """One relaxation for each rule that binds this class over several nodes."""
        problem, cls = self.problem, part.cls
        rules: list[tuple[array[int], Sequence[Split]]] = [
            (cap.domain, [{d: (0, cap.limit) for d in set(cap.domain) if d >= 0}])
            for cap in problem.caps
            if cls in cap.classes and self._binds_nodes(cap)
        ]
        rules += [
            (rule.domain, splits(problem, index, cls, self.room.cases))
            for index, rule in enumerate(problem.spreads)
        ]
        for domain, ways in rules:
            try:
                relaxation = ByDomain(part.problem, domain, ways, self.room.region)
            except Doubtful:
                continue  # shares of the costs are too wide: the other bounds remain
            if relaxation.worthwhile:
                yield relaxation

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
        before = best.cost
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
            if stop.hurried and not stop.over():
                self._until_better(best, stop)
        except (OutOfTime, TooWide) as early:
            stop.wide = stop.wide or isinstance(early, TooWide)
        finally:
            self.room.stop = None
            self.room.choose(set(self.units) - self.room.chosen)
            if self.room.packs and best.cost is not None:
                best.last_resort = None  # these quick ways asked no clock

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
        nobody: frozenset[int] = frozenset()
        before = best.cost
        for order in self._orders():
            self._seat(order, nobody, nobody, best, stop)
            if best.cost != before:
                break

    def _orders(self) -> list[tuple[int, ...]]:
        """Classes: who asks for most first; the most members first; the fewest first."""
        classes = self.problem.classes
        size = [(sum(map(bool, cls.request)), cls.request) for cls in classes]
        down = sorted(self.parts, key=lambda p: (size[p.cls], p.cls), reverse=True)
        many = sorted(self.parts, key=lambda p: (-p.problem.need, p.cls))
        few = many[::-1]
        return list(dict.fromkeys(tuple(p.cls for p in order) for order in (down, many, few)))

    def _seat(
        self,
        order: Sequence[int],
        gone: frozenset[int],
        kept: frozenset[int],
        best: BestAnswer,
        stop: Stop,
    ) -> None:
        """Seat one class after the other: each takes the units that are cheapest for it, given
        what those before it took. ``gone`` are taken already, ``kept`` stay."""
        problem = self.problem
        parts = {part.cls: part for part in self.parts}
        for cls in order:
            part = parts[cls]
            if problem is not self.problem:
                part = OneClass(problem, cls, part.problem.need)
            core = BranchAndBound(
                part.columns, self.inside, self.extra, gone, kept, -1, *(part.domain_limits or ())
            )
            if not core.possible:
                return
            if core.settled_free:
                chosen: list[int] | None = core.free_answer()
            else:
                chosen, _, closed, _ = core.search(None, FIRST, stop.deadline, stop.cancel)
                if not closed and stop is not NO_TIME:
                    stop.check()
            if chosen is None:
                return
            seats = core.seats(chosen, fill=False)
            gone |= frozenset(chosen)
            problem = seated(problem, self.problem.classes[cls], seats)
        self._try([u for u in gone if u not in self.room.chosen], best)

    def _improve(self, at_least: Vector, best: BestAnswer, stop: Stop) -> None:
        """Take some units of the best answer away and seat the classes anew in what is left,
        in a fixed sequence. It proves nothing.

        Only against the clock: without one the work goes into the proof.
        """
        if not stop.hurried:
            return
        orders = self._orders()
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
        zero = self.price(())
        if best.beaten_by(zero):
            return zero
        self.room.put_back(self.units)
        nobody: frozenset[int] = frozenset()
        stack = self.stack = [(nobody, nobody, zero)]
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
            relaxed = self._relax(gone, kept, stop)
            if relaxed is None:
                continue
            at_least = self.at_least = max(at_least, relaxed.bound)
            if best.beaten_by(at_least):
                continue
            self._propose(relaxed, best)
            if first and not self.room.packs and not best.beaten_by(at_least):
                best.resort(self)
            short = stop.hurried and self.cut_short and self.question + 1 < len(QUESTIONS)
            if short and not gone and self.question != QUICK and not best.beaten_by(at_least):
                self.question, self.cut_short = self.question + 1, False
                stack.append((gone, kept, at_least))
                continue
            if first:
                first = False
                if not best.beaten_by(at_least):
                    self._repair(relaxed, best, stop)
                if not best.beaten_by(at_least):
                    self._improve(at_least, best, stop)
                if not best.beaten_by(at_least):
                    at_least = max(at_least, self._seat_leaders(at_least, best, stop))
                self.question, self.cut_short = QUICK + 1, False
                if not best.beaten_by(at_least) and (short or not self._too_dear(best) <= kept):
                    stack.append((gone, kept, at_least))  # once more, with less to look at
                    continue
            undecided = [u for u in self.units if u not in gone and u not in kept]
            if best.beaten_by(at_least):
                continue
            if not undecided:
                if self.room.verdict() == UNKNOWN:
                    unknown.append(at_least)
                continue
            if not self._hopeful(undecided):
                continue
            unit = self._pivot(undecided, relaxed, best)
            stack.append((gone, kept | {unit}, at_least))
            if not broken_budgets(self.problem, (*gone, unit)):
                stack.append((gone | {unit}, kept, at_least))
        if unknown:
            self.open = unknown
            return min(unknown)
        return best.cost

    def _too_dear(self, best: BestAnswer) -> frozenset[int]:
        """Units that alone cost more than the best answer: no better one takes them."""
        if best.cost != self.dear[0]:
            cost, units = best.cost, self.problem.units
            dear = frozenset(u for u in self.units if cost is not None and units[u].cost > cost)
            self.dear = (cost, dear)
        return self.dear[1]

    def _relax(self, gone: frozenset[int], kept: frozenset[int], stop: Stop) -> BranchBound | None:
        """Every class on its own; None when one of them cannot be seated."""
        bound = self.price(gone)
        sets: list[frozenset[int]] = []
        torn: frozenset[int] = frozenset()
        for part in self.parts:
            found = self._ask(part, gone, kept, stop, binds=True)
            if found is None:
                return None
            bound = max(bound, found[0])
            self.at_least = max(self.at_least, bound)
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
        """Bounds that see all classes at once, as ``_ask``."""
        if self.together is not None:
            found = self.together.relax(self.inside, self.extra, gone, kept, stop)
            if found is None:
                yield None
            elif found:
                yield add(cost_of(self.problem, gone), found[0]), gone | frozenset(found[1])
                return
            self.together = None  # too many members, or kinds of them
        if self.joint is not None:
            yield self._ask(self.joint, gone, kept, stop)

    def _ask(
        self,
        part: OneClass,
        gone: frozenset[int],
        kept: frozenset[int],
        stop: Stop,
        *,
        binds: bool = False,
    ) -> tuple[Vector, frozenset[int]] | None:
        """(lower bound, units with ``gone``) for one class; None when it cannot be seated.

        ``binds``: what is asked bounds this branch, also where the end cuts the question off.
        Raises OutOfTime.
        """
        core = BranchAndBound(
            part.columns, self.inside, self.extra, gone, kept, -1, *(part.domain_limits or ())
        )
        if not core.possible:
            return None
        if core.settled_free:
            return self.price(gone), gone | frozenset(core.free_answer())
        stop.check()
        most = max(1, stop.left)
        chosen, bound, closed, branches = core.search(
            None,
            min(most, QUESTIONS[self.question]) if stop.hurried else most,
            stop.deadline,
            stop.cancel,
        )
        self.cut_short = self.cut_short or not closed
        if binds and bound is not None:
            self.at_least = max(self.at_least, add(cost_of(self.problem, gone), bound))
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

    def _seat_leaders(self, at_least: Vector, best: BestAnswer, stop: Stop) -> Vector:
        """A bound that knows what a class of one member takes from the other classes.

        The member sits on one of its nodes, with some least set of units gone there; the
        others are asked for their seats in what is left. The least of these bounds holds
        for every answer; all is given up once one is no dearer than what is known.
        """
        raised, tries = at_least, 0
        for leader in self.parts:
            others = [part for part in self.parts if part is not leader]
            cls = self.problem.classes[leader.cls]
            if cls.count > 1 or not others:
                continue
            lowest: Vector | None = None
            for n in self.room.region:
                stop.check()
                sets = list(self._ways(n, cls, leader.cls)) if cls.allowed[n] else []
                sets = [gone for gone in sets if not best.beaten_by(self.price(gone))]
                if not sets:
                    continue
                rest = [
                    OneClass(without(self.problem, n, cls), p.cls, p.problem.need) for p in others
                ]
                for gone in sets:
                    tries += 1
                    if tries > SEATS or not stop.spend():
                        return raised
                    found = [self._ask(part, gone, frozenset(), stop) for part in rest]
                    answers = [answer for answer in found if answer is not None]
                    if len(answers) < len(found):
                        continue
                    every = gone.union(*(units for _, units in answers))
                    self._try([u for u in every if u not in self.room.chosen], best)
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

    def _propose(self, relaxed: BranchBound, best: BestAnswer) -> None:
        """Try what each class chooses, and all of it together."""
        every: frozenset[int] = frozenset().union(*relaxed.chosen)
        for units in dict.fromkeys([*relaxed.chosen, every]):
            self._try([u for u in units if u not in self.room.chosen], best)

    def _pivot(self, undecided: Sequence[int], relaxed: BranchBound, best: BestAnswer) -> int:
        """What to decide next: what is chosen in some of its domains only, before what the
        best answer takes and the core does not, before what the core takes, before the
        rest; the dearest of them."""
        taken: frozenset[int] = frozenset().union(*relaxed.chosen)
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
        nobody: frozenset[int] = frozenset()
        for changed in chain(self._roomier(), self._closed(stop)):
            found = self._ask(changed, nobody, nobody, stop)
            if found is not None:
                every = found[1].union(*relaxed.chosen)
                for units in (found[1], every):
                    self._try([u for u in units if u not in self.room.chosen], best)
            if best.beaten_by(relaxed.bound):
                return

    def _roomier(self) -> Iterator[OneClass]:
        """All members as one class that asks the most of each; then seats for the others
        asked for in each class."""
        problem = self.problem
        classes = problem.classes
        if len(classes) == 1:
            return
        one = largest(problem)
        total = one.count
        yield OneClass(replace(problem, classes=(one,), blockers=(), caps=(), spreads=()), 0, total)
        for part in self.parts:
            others = total - part.problem.need
            for more in range(1, min(REPAIRS, others) + 1):
                yield OneClass(problem, part.cls, part.problem.need + more)

    def _closed(self, stop: Stop) -> Iterator[OneClass]:
        """The first class's problem with the full domains of its caps closed, step by step."""
        wide = [cap for cap in self.problem.caps if self._binds_nodes(cap)]
        for part in self.parts:
            for cap in wide:
                if part.cls in cap.classes:
                    yield from self._close(part, cap, stop)

    def _binds_nodes(self, cap: Cap) -> bool:
        return is_wide(cap.domain[n] for n in self.room.region)

    def _close(self, part: OneClass, cap: Cap, stop: Stop) -> Iterator[OneClass]:
        current = part
        done: set[int] = set()
        for _ in range(REPAIRS):
            core = BranchAndBound(
                current.columns, self.inside, self.extra, (), (), -1, *(current.domain_limits or ())
            )
            if not core.possible:
                return
            chosen: list[int] | None
            if core.settled_free:
                chosen = core.free_answer()
            else:
                chosen, _, _, _ = core.search(None, 200, stop.deadline, stop.cancel)
            if chosen is None:
                return
            loads: dict[int, list[tuple[int, int]]] = {}
            for n, members in core.seats(chosen, fill=False):
                loads.setdefault(cap.domain[n], []).append((n, members))
            full = [
                d
                for d, seats in loads.items()
                if d >= 0 and d not in done and sum(m for _, m in seats) > cap.limit
            ]
            if not full:
                return
            closed = current.problem
            for domain in full:
                done.add(domain)
                closed = shut(closed, cap, domain, loads[domain])
            current = OneClass(closed, 0, closed.need)
            yield current
