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
    columns = Columns(problem)
    spaces = promising(problem, regions_of(problem))
    regions: list[BranchAndBound] = []
    best: tuple[Vector, list[int], int] | None = None

    def look_at_next() -> None:
        nonlocal best
        nodes, scattered = spaces[len(regions)]
        level = problem.domain_level if scattered else -1
        region = BranchAndBound(columns, mask(problem, nodes), level)
        regions.append(region)
        if region.possible and region.settled_free and (best is None or any(best[0])):
            waiting = region.free_answer()
            cost = cost_of(problem, waiting, scattered=scattered)
            if best is None or cost < best[0]:
                best = (cost, waiting, len(regions) - 1)

    while len(regions) < len(spaces) and not (regions and stop.over()):
        look_at_next()
    bounds: list[Vector] = []
    answered = False
    """Whether what is known is no dearer than what a search without any time answers."""
    for at, (_, scattered) in enumerate(spaces):
        floor = cost_of(problem, (), scattered=scattered)
        if at >= len(regions):
            if best is not None:
                # Of what is not looked at only this is known: nobody goes for less than nothing.
                bounds.append(floor)
                continue
            stop.check_first()
            look_at_next()
        if not regions[at].possible or (best is not None and best[0] <= floor):
            continue
        if answered and stop.over():
            bounds.append(floor)
            continue
        chosen, bound, closed, branches = regions[at].search(
            None if best is None else best[0],
            stop.left,
            stop.deadline,
            stop.cancel,
        )
        stop.used += branches
        if bound is not None:
            bounds.append(bound)
        if chosen is not None:
            cost = cost_of(problem, chosen, scattered=scattered)
            if best is None or cost < best[0]:
                best = (cost, chosen, at)
        answered = answered or regions[at].found_first or (closed and best is not None)
    if not any(region.possible for region in regions):
        return refuse(problem, spaces, regions)
    if bounds and not answered:
        # As quick as a first answer, and part of every search that needs it: more time is no worse.
        best = _within(problem, spaces, regions, best, stop)
    if best is None:
        return no_answer(problem, min(bounds, default=None), stop, unproved=bool(bounds))
    able = [
        (region, scattered, at)
        for at, (region, (_, scattered)) in enumerate(zip(regions, spaces, strict=False))
        if region.possible
    ]
    return _finish(problem, able, best, bounds, stop)


def _within(
    problem: Problem,
    spaces: Sequence[tuple[tuple[int, ...], bool]],
    regions: Sequence[BranchAndBound],
    best: tuple[Vector, list[int], int] | None,
    stop: Stop,
) -> tuple[Vector, list[int], int] | None:
    """The better one of ``best`` and what is found where hard budgets are spared."""
    for at, (nodes, scattered) in enumerate(spaces[:REGIONS]):
        if at < len(regions) and regions[at].possible:
            found = within_budgets(problem, nodes, stop)
            if found is not None:
                cost = cost_of(problem, found[1], scattered=scattered)
                if best is None or cost < best[0]:
                    best = (cost, list(found[1]), at)
    return best


def _finish(
    problem: Problem,
    able: Sequence[tuple[BranchAndBound, bool, int]],
    best: tuple[Vector, list[int], int],
    bounds: Sequence[Vector],
    stop: Stop,
) -> Solution:
    """Put back what another region does not need either, and seat the members."""
    cost, chosen, winner = best
    shrunk = len(able) > 1
    while shrunk:
        shrunk = False
        for region, scattered, at in able:
            less = region.least(chosen)
            if (
                less is not None
                and len(less) < len(chosen)
                and cost_of(problem, less, scattered=scattered) <= cost
            ):
                chosen, winner, shrunk = less, at, True
    place = next(region for region, _, at in able if at == winner)
    seats = tuple((0, n, members) for n, members in place.seats(chosen, problem.fill))
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


def refuse(
    problem: Problem,
    spaces: Sequence[tuple[tuple[int, ...], bool]],
    regions: Sequence[BranchAndBound],
) -> Infeasible:
    """The reasons, from what the core counted with every unit chosen."""
    offers = []
    for (nodes, _), region in zip(spaces, regions, strict=True):
        seated, allowed, seats, lacking = region.shortage()
        offers.append(Nearest((seated,), (Shortage(allowed, seats, tuple(lacking)),), nodes))
    return refusal(problem, offers, proved=True)
