"""The core's door for Python: which problems it takes, and region by region.

It decides gangs of one class. Several classes that share nodes, and caps and spread rules that
bind over more than one node, are for ``several``, which asks the core's parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from extender.search.core.branch_and_bound import BranchAndBound
from extender.search.core.columns import Columns, Doubtful
from extender.search.problem import Infeasible, Limits, Problem, Solution, Vector
from extender.search.problem.cost import cost_of
from extender.search.problem.seat_regions import is_wide, promising, regions_of, scattered_seats
from extender.search.problem.stop import Flag, Stop
from extender.search.problem.types import states_only
from extender.search.problem.unanswered import Nearest, Shortage, no_answer, refusal
from extender.search.seating.within_budgets import within_budgets

REGIONS = 8
"""Domains in which members are seated within hard budgets, at most."""

__all__ = ["Doubtful", "solve", "takes"]

KEPT = frozenset(
    ("gangs", "budgets", "blockers", "caps", "domain", "domain_required", "domain_level", "fill")
)
"""The RULES that the core knows; a cap only where it binds on one node."""


def takes(problem: Problem) -> bool:
    """Whether the core covers every rule of the (settled) problem."""
    if len(problem.classes) != 1 or not states_only(problem, KEPT):
        return False
    cls = problem.classes[0]
    most = cls.count if problem.fill else max(problem.need, cls.least)
    for cap in problem.caps:
        if 0 in cap.classes and cap.limit < most and is_wide(cap.domain):
            return False
    return True


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As reference.solve, for a problem that ``takes`` accepts.

    Raises Doubtful when a unit is malformed, or its numbers are too wide.
    """
    stop = Stop(limits, deadline, cancel)
    searches = Searches(problem)
    while searches.unopened and not (searches.opened and stop.over()):
        searches.open_next()
    bounds = searches.run(stop)
    if not any(search.possible for search in searches.opened):
        return refuse(problem, searches)
    if bounds and not searches.answered:
        # As quick as a first answer, and part of every search that needs it: more time is no worse.
        searches.spare_budgets(stop)
    if searches.best is None:
        return no_answer(problem, min(bounds, default=None), stop, unproved=bool(bounds))
    return searches.solution(bounds, stop)


class Searches:
    """One search a region where all seats may lie, and the best answer of all of them."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.regions = promising(problem, regions_of(problem))
        self.opened: list[BranchAndBound] = []
        """Of the first regions, in their order."""
        self.best: tuple[Vector, list[int], int] | None = None
        """(cost, units, region) of the best answer."""
        self.answered = False
        """Whether what is known is no dearer than what a search without any time answers."""
        self._columns = Columns(problem)

    @property
    def unopened(self) -> bool:
        """Whether there are regions without a search."""
        return len(self.opened) < len(self.regions)

    def open_next(self) -> None:
        """Open the next region's search; what nobody has to go for is an answer."""
        nodes, scattered = self.regions[len(self.opened)]
        level = self.problem.domain_level if scattered else -1
        search = BranchAndBound(self._columns, mask(self.problem, nodes), level)
        self.opened.append(search)
        if search.possible and search.settled_free and (self.best is None or any(self.best[0])):
            self._offer(search.free_answer(), len(self.opened) - 1)

    def run(self, stop: Stop) -> list[Vector]:
        """Search the regions one after the other; return bounds of those that are not closed,
        each (levels,)."""
        bounds: list[Vector] = []
        for at, (_, scattered) in enumerate(self.regions):
            floor = cost_of(self.problem, (), scattered=scattered)
            if at >= len(self.opened):
                if self.best is not None:
                    # Of what is not looked at only this is known: nobody goes for less than
                    # nothing.
                    bounds.append(floor)
                    continue
                stop.check_first()
                self.open_next()
            search, best = self.opened[at], self.best
            if not search.possible or (best is not None and best[0] <= floor):
                continue
            if self.answered and stop.over():
                bounds.append(floor)
                continue
            chosen, bound, closed, branches = search.search(
                None if best is None else best[0], stop.left, stop.deadline, stop.cancel
            )
            stop.used += branches
            if bound is not None:
                bounds.append(bound)
            if chosen is not None:
                self._offer(chosen, at)
            closed_with_answer = closed and self.best is not None
            self.answered = self.answered or search.found_first or closed_with_answer
        return bounds

    def spare_budgets(self, stop: Stop) -> None:
        """Look for an answer where hard budgets are spared."""
        for at, (search, (nodes, _)) in enumerate(
            zip(self.opened[:REGIONS], self.regions, strict=False)
        ):
            if search.possible:
                found = within_budgets(self.problem, nodes, stop)
                if found is not None:
                    self._offer(list(found[1]), at)

    def _offer(self, chosen: list[int], at: int) -> None:
        cost = cost_of(self.problem, chosen, scattered=self.regions[at][1])
        if self.best is None or cost < self.best[0]:
            self.best = (cost, chosen, at)

    def solution(self, bounds: Sequence[Vector], stop: Stop) -> Solution:
        """Seat the members of the best answer; there must be one. ``bounds`` as from ``run``."""
        assert self.best is not None
        problem, (cost, chosen, winner) = self.problem, self.best
        able = [at for at, search in enumerate(self.opened) if search.possible]
        shrunk = len(able) > 1
        while shrunk:
            # What another region does not need either is put back.
            shrunk = False
            for at in able:
                less = self.opened[at].least(chosen)
                if (
                    less is not None
                    and len(less) < len(chosen)
                    and cost_of(problem, less, scattered=self.regions[at][1]) <= cost
                ):
                    chosen, winner, shrunk = less, at, True
        placed = self.opened[winner].seats(chosen, problem.fill)
        seats = tuple((0, n, members) for n, members in placed)
        cost = cost_of(problem, chosen, scattered=scattered_seats(problem, seats))
        bound = min([cost, *bounds])
        return Solution(
            seats=seats,
            chosen=tuple(sorted(chosen)),
            cost=cost,
            bound=bound,
            optimal=bound == cost,
            branch_nodes=stop.used,
            cut="" if bound == cost else stop.why(),
        )


def mask(problem: Problem, nodes: Sequence[int]) -> bytes:
    """(N,) 1 for these nodes."""
    inside = bytearray(len(problem.nodes))
    for n in nodes:
        inside[n] = 1
    return bytes(inside)


def refuse(problem: Problem, searches: Searches) -> Infeasible:
    """The reasons, from what the core counted with every unit chosen."""
    offers = []
    for (nodes, _), search in zip(searches.regions, searches.opened, strict=True):
        seated, allowed, seats, lacking = search.shortage()
        offers.append(Nearest((seated,), (Shortage(allowed, seats, tuple(lacking)),), nodes))
    return refusal(problem, offers, proved=True)
