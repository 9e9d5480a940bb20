"""The search in plain Python: the specification, and the fall-back.

Placement and victims are chosen together. A branch decides one unit (chosen or
kept); a set of chosen units is an answer as soon as the gang fits, since more
units never cost less. A branch is given up when the gang cannot fit even with
every undecided unit chosen, or when a lower bound of its cost (bounds.py) reaches
the best answer known. The relaxation behind that bound also proposes units; tried
as an answer they are often the best one at once. When nothing is left open the
best answer is proved; when the limit on branches ends the search first, the least
bound of what is still open is a valid bound of every answer.

Steps, per region (the whole cluster, or one topology domain after the other):

1. Units that can never cost anything are chosen (their room comes free anyway).
2. If the gang fits now, no victim is needed and that is the answer.
3. If it does not fit with every unit chosen, there is no answer here.
4. First answers: choose all, then put units back, dearest first.
5. Branch and bound, first on what the relaxation splits over nodes.
6. Put back what the best answer does not need, and place the members.

Ties: the first answer found stays; units are ordered by (cost, uid), nodes by index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from extender.search.bounds import Relaxation
from extender.search.cost import broken_budgets, cost_of, is_free
from extender.search.explain import infeasible
from extender.search.packing import TooWide, Ways
from extender.search.problem import Infeasible, Limits, Problem, Solution, Vector
from extender.search.room import Room
from extender.search.spread import settled
from extender.search.stop import Flag, OutOfTime, Stop

Space = TypeVar("Space", bound="Region")
Found = tuple[Vector, tuple[int, ...], tuple[tuple[int, int, int], ...]]
"""Cost, units, seats of an answer."""


class Incumbent:
    """The best answer so far, over all regions."""

    def __init__(self) -> None:
        self.cost: Vector | None = None
        self.chosen: frozenset[int] = frozenset()
        self.search: Region | None = None
        self.seats: tuple[tuple[int, int, int], ...] = ()
        self.last_resort: Callable[[], Found | None] | None = None
        """A quick way to an answer that asks no clock, where the searches have none of their
        own: taken once, before the exact search goes beyond its first relaxation, or at the
        end that comes before that. So a search with more time is never worse."""

    def resort(self, search: Region) -> None:
        """Take the last resort, unless it was."""
        ask, self.last_resort = self.last_resort, None
        found = ask() if ask is not None else None
        if found is not None and (self.cost is None or found[0] < self.cost):
            self.cost, self.chosen, self.seats = found[0], frozenset(found[1]), found[2]
            self.search = search

    def offer(self, cost: Vector, chosen: frozenset[int], search: Region) -> bool:
        """Keep it when it is cheaper than what is known; the region's room holds it now."""
        if self.cost is not None and self.cost <= cost:
            return False
        self.seats = search.room.place()
        self.cost, self.chosen, self.search = cost, chosen, search
        return True

    def beaten_by(self, bound: Vector) -> bool:
        """Whether nothing at or above this bound can be better."""
        return self.cost is not None and bound >= self.cost


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """The cheapest seats and victims, or why there are none.

    Without a deadline only ``limits.branch_nodes`` bounds the work: the same problem
    gives the same answer on every machine. The problem is taken to be well-formed
    (``validate``).
    """
    problem = settled(problem)
    stop, ways = Stop(limits, deadline, cancel), Ways()
    best = Incumbent()
    searches = open_regions(
        problem, stop, best, lambda nodes, far: Region(problem, nodes, scattered=far, ways=ways)
    )
    return answer(problem, searches, best, stop)


def open_regions(
    problem: Problem,
    stop: Stop,
    best: Incumbent,
    region: Callable[[Sequence[int], bool], Space],
) -> Iterator[Space]:
    """One search for each set of nodes that all seats may lie in, as far as time allows.

    Sets that are surely too small are left out while another one is left; what is not
    looked at for lack of time, or since there are too many ways there, is said by
    ``stop.wide``. Until there is an answer sets are looked at whatever the time is.
    """
    for nodes, scattered in promising(problem, regions_of(problem)):
        if best.cost is not None and stop.over():
            stop.wide = True
            return
        stop.check_first()
        try:
            yield region(nodes, scattered)
        except TooWide:
            if best.cost is None:
                raise
            stop.wide = True


def promising(
    problem: Problem, spaces: list[tuple[tuple[int, ...], bool]]
) -> list[tuple[tuple[int, ...], bool]]:
    """Return the spaces that could seat the gang were each node for each class alone.

    Where none could, the one that comes nearest, to tell what it lacks.
    """
    if len(spaces) < 2:
        return spaces
    room = [list(column) for column in problem.free]
    for unit in problem.units:
        for n, amounts in unit.releases:
            for column, amount in zip(room, amounts, strict=True):
                column[n] += amount
    wanted = max(problem.need, sum(cls.least for cls in problem.classes))
    seats = [0] * len(problem.nodes)
    for cls in problem.classes:
        asked = [(column, ask) for column, ask in zip(room, cls.request, strict=True) if ask > 0]
        for n, ok in enumerate(cls.allowed):
            if ok:
                fits = min((max(0, column[n]) // ask for column, ask in asked), default=cls.count)
                seats[n] += min(cls.count, fits)
    held = [sum(seats[n] for n in nodes) for nodes, _ in spaces]
    able = [space for space, seated in zip(spaces, held, strict=True) if seated >= wanted]
    return able or [spaces[held.index(max(held))]]


def answer(
    problem: Problem, searches: Iterable[Region], best: Incumbent, stop: Stop
) -> Solution | Infeasible:
    """Search region after region with one incumbent and one Stop (steps 2 to 6).

    The first answers come whatever the time is: a search that is over early has those.
    What comes after them does not depend on when the end is, so more time is never worse.
    """
    able: list[Region] = []
    rooms = []
    for search in searches:
        rooms.append(search.room)
        if search.possible:
            able.append(search)
            if best.cost is None or not stop.over():
                search.first_answers(best, stop)
    if not able:
        return infeasible(problem, rooms)
    bounds = [search.settle(best, stop) for search in able]
    unseen = stop.wide or any(search.open for search in able)
    if unseen:
        best.resort(able[0])
    if best.cost is None:
        return no_answer(
            problem, min((b for b in bounds if b), default=None), stop, unproved=unseen
        )
    chosen, seats = tuple(sorted(best.chosen)), best.seats
    if not stop.over():
        chosen, seats = _least(able, best, stop)
    cost = cost_of(problem, chosen, scattered=scattered_seats(problem, seats))
    bound = min([cost, *(bound for bound in bounds if bound is not None)])
    if stop.wide or not all(room.exact for room in rooms):
        bound = min(bound, (0,) * len(problem.levels))
    return Solution(
        seats=seats,
        chosen=chosen,
        cost=cost,
        bound=bound,
        optimal=bound == cost,
        branch_nodes=stop.used,
        cut="" if bound == cost else stop.why(),
    )


def regions_of(problem: Problem) -> list[tuple[tuple[int, ...], bool]]:
    """(nodes, scattered): where all seats may lie, and whether that costs a level."""
    everywhere = tuple(range(len(problem.nodes)))
    if problem.domain is None:
        return [(everywhere, False)]
    if problem.need == 0 and not any(cls.least for cls in problem.classes):
        return [(everywhere, False)]
    inside: dict[int, list[int]] = {}
    for n in everywhere:
        if problem.domain[n] >= 0:
            inside.setdefault(problem.domain[n], []).append(n)
    regions = [(tuple(inside[domain]), False) for domain in sorted(inside)]
    return regions if problem.domain_required else [*regions, (everywhere, True)]


def _least(
    able: Sequence[Region], best: Incumbent, stop: Stop
) -> tuple[tuple[int, ...], tuple[tuple[int, int, int], ...]]:
    """The units and seats of the best answer, less every unit that can be put back at no cost.

    A unit may be needed in the region where the answer was found and not in
    another one (a free seat elsewhere instead of a terminating pod's). Where that takes
    too long the answer stays as it is.
    """
    assert best.cost is not None
    winner, chosen = best.search, best.chosen
    shrunk = True
    for search in able:
        search.room.stop = stop
    try:
        while shrunk:
            shrunk = False
            for search in able:
                less = search.reduce(chosen)
                if less is None or search.price(less) > best.cost:
                    continue
                if len(less) < len(chosen):
                    winner, chosen, shrunk = search, less, True
        assert winner is not None
        winner.reduce(chosen)
        return tuple(sorted(chosen)), winner.room.place()
    except (OutOfTime, TooWide):
        return tuple(sorted(best.chosen)), best.seats
    finally:
        for search in able:
            search.room.stop = None


def scattered_seats(problem: Problem, seats: Sequence[tuple[int, int, int]]) -> bool:
    """Whether these seats leave one topology domain, where there is such a rule."""
    if problem.domain is None:
        return False
    domains = {problem.domain[n] for _, n, _ in seats}
    return len(domains) > 1 or -1 in domains


def no_answer(problem: Problem, bound: Vector | None, stop: Stop, *, unproved: bool) -> Infeasible:
    """With everybody gone there is room, but no answer was found: the hard budgets do not
    let enough units go, or the search was cut."""
    names = ", ".join(budget.name for budget in problem.budgets if budget.hard)
    if not unproved:
        text = f"room can be made only by exceeding a disruption budget ({names})"
        return Infeasible(proved=True, reasons=(text,))
    within = f" within the disruption budgets ({names})" if names else ""
    least = ", ".join(
        f"{level} {amount}"
        for level, amount in zip(problem.levels, bound or (), strict=False)
        if amount
    )
    text = (
        f"the search was cut before it found an answer{within}: "
        f"{stop.why() or 'what is left was too wide'}; "
        f"any answer costs at least {least or 'nothing'}"
    )
    return Infeasible(proved=False, reasons=(text,))


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
        self.units = sorted(
            (u for u in everything if not is_free(problem, u)),
            key=lambda u: (problem.units[u].cost, problem.units[u].uid),
        )
        self.free = [u for u in everything if is_free(problem, u)]
        self.room.choose(everything)
        self.possible = not self.room.hopeless()
        self.room.ways_known()
        self.stack: list[tuple[frozenset[int], frozenset[int], Vector]] = []
        """(chosen, kept, bound) of what ``branch`` has still to look at."""

    @staticmethod
    def room_of(problem: Problem, nodes: Sequence[int], ways: Ways | None) -> Room:
        """The room to try moves in."""
        return Room(problem, nodes, ways)

    def settle(self, best: Incumbent, stop: Stop) -> Vector | None:
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

    def first_answers(self, best: Incumbent, stop: Stop) -> None:
        """Put units back from "all chosen" in several orders; offer each outcome.

        Raises TooWide where that takes longer than there is, since packing several classes
        takes plain Python long: another way has a first answer sooner (alike.py).
        """
        if best.beaten_by(self.price(())):
            return
        problem = self.problem
        every = frozenset(self.room.chosen)
        self.room.put_back(self.units)
        if self.room.fits():
            best.offer(self.price(self.room.chosen), frozenset(self.room.chosen), self)
            self.room.choose(self.units)
            return
        self.room.choose(self.units)

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

    def branch(self, best: Incumbent, stop: Stop) -> Vector | None:
        """Search until nothing is open or the budget ends; the region's lower bound.

        None when there is no answer in the region. Depth first without
        recursion: an entry is (chosen, kept, bound); ``room`` is moved from one
        entry to the next by difference.
        """
        zero = self.price(())
        if best.beaten_by(zero):
            return zero
        relaxation = Relaxation(self.problem, self.room, self.units, zero)
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

    def _try(self, units: Sequence[int], best: Incumbent) -> None:
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
