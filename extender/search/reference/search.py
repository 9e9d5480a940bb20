"""The search in plain Python: the specification, and the fall-back.

Placement and victims are chosen together. A branch decides one unit (chosen or
kept); a set of chosen units is an answer as soon as the gang fits, since more
units never cost less. A branch is given up when the gang cannot fit even with
every undecided unit chosen, or when a lower bound of its cost (node_bounds.py) reaches
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

from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.problem.cost import cost_of
from extender.search.problem.seat_regions import promising, regions_of, scattered_seats
from extender.search.problem.stop import Flag, OutOfTime, Stop
from extender.search.problem.unanswered import no_answer
from extender.search.reference.best_answer import BestAnswer
from extender.search.reference.region import Region
from extender.search.reference.shortages import infeasible
from extender.search.seating.patterns import TooWide, Ways
from extender.search.seating.spread import settled

Space = TypeVar("Space", bound=Region)


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As solver.solve, without HiGHS, of a problem taken to be well-formed (``validate``)."""
    problem = settled(problem)
    stop, ways = Stop(limits, deadline, cancel), Ways()
    best = BestAnswer()
    searches = open_regions(
        problem,
        stop,
        best,
        lambda nodes, far: Region(problem, nodes, scattered=far, stop=stop, ways=ways),
    )
    return answer(problem, searches, best, stop)


def open_regions(
    problem: Problem,
    stop: Stop,
    best: BestAnswer,
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


def answer(
    problem: Problem, searches: Iterable[Region], best: BestAnswer, stop: Stop
) -> Solution | Infeasible:
    """Search region after region with one best answer and one Stop (steps 2 to 6).

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


def _least(
    able: Sequence[Region], best: BestAnswer, stop: Stop
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
