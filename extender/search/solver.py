"""The one entry of the search: check the problem, ask by the table, and against a deadline again.

Who answers which problem stands in extender/search/dispatcher.py. Here is what time makes of it:
a small problem is answered outright, and what the project's own search leaves open before a
deadline HiGHS is asked, where it is installed.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from extender.search import census, highs
from extender.search.dispatcher import BACKEND, backend_for, by_table, merged, proved
from extender.search.floor import raised, seconds
from extender.search.kinds import alike
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.problem.stop import Countdown, Flag, Stop, part_of, sooner
from extender.search.problem.validate import check_frame
from extender.search.seating.spread import settled
from extender.search.several import leading_class
from extender.search.several.reductions import largest

if TYPE_CHECKING:
    from extender.search.core.census import Census as CompiledCensus

__all__ = ["BACKEND", "backend_for", "load", "open_census", "search", "solve", "solve_led"]

FEW_NODES, FEW_UNITS, FEW_MEMBERS = 8, 16, 32
"""A problem of so many is small: whatever its rules, it is answered in milliseconds."""
OWN_SECONDS, OWN_SHARE = 0.1, 0.3
"""The own search gets so much time before HiGHS is asked; of a deadline below a third of a second a
share. From there on it is no share: HiGHS begins with the own search's answer, and a longer search
is the same one that goes on."""
ASKS = 3_000
"""So often a small problem's search goes on before its deadline counts."""


def solve(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """The cheapest seats and victims with proof or bound, or why there are none.

    ``limits.branch_nodes`` bounds the work, so that the same problem gets the
    same answer on every machine. ``deadline`` (a ``time.monotonic`` value) and
    ``cancel`` (``array('b', [0])``; non-zero ends the search) stop it early with the
    best answer so far and its bound; a first answer is looked for in any case. With a
    deadline HiGHS, where it is installed, is asked what the own search leaves open.
    Raises InvalidInput for a malformed problem.
    """
    check_frame(problem)
    problem = settled(problem)
    led = _with_leader(problem, limits, deadline=deadline, cancel=cancel)
    if led is not None:
        return led
    # A bound for what is cut has a part of the time, or none where there is hardly any.
    last = seconds(problem)
    bounded = last < OWN_SHARE * Stop(None, deadline, cancel).seconds
    until = deadline - last if deadline and bounded else deadline
    answer = _solved(problem, limits, deadline=until, cancel=cancel)
    if not isinstance(answer, Solution) or answer.optimal or not bounded:
        return answer
    if cancel is not None and cancel[0] > 1:
        return answer
    return raised(problem, answer, Stop(None, sooner(inf, last) if deadline else None))


def _with_leader(problem: Problem, limits: Limits | None, **end: Any) -> Solution | None:
    """The optimum of a leader and its workers, where that is quickly told."""
    if BACKEND == "reference" or _is_small(problem):
        return None
    from extender.search.several import with_leader

    return with_leader.solve(problem, limits, **end) if with_leader.takes(problem) else None


def _solved(
    problem: Problem, limits: Limits | None, *, deadline: float | None, cancel: Flag | None
) -> Solution | Infeasible:
    """As ``solve``, of a settled problem, with the bound that the search itself has proved."""
    if deadline is None or isinstance(cancel, Countdown) or not highs.takes(problem):
        return _own(problem, limits, deadline=deadline, cancel=cancel)
    first = _own(problem, limits, deadline=_own_part(deadline), cancel=cancel)
    if proved(first) or Stop(None, deadline, cancel).over():
        return first
    better = highs.improve(problem, first, deadline, cancel, _node_sets(problem))
    if proved(better) or Stop(None, deadline - OWN_SECONDS, cancel).over():
        return better  # what the own search does before it asks a clock would not be over
    return merged(better, _own(problem, limits, deadline=deadline, cancel=cancel))


def load() -> None:
    """Load what a search may ask: HiGHS takes some 0.1 s, for which no question should wait."""
    highs.available()


def search(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As ``solve``, by the project's own search alone."""
    check_frame(problem)
    return _own(settled(problem), limits, deadline=deadline, cancel=cancel)


def solve_led(
    problem: Problem,
    lead: int,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | None:
    """As leading_class.solve: the optimum of all classes, where one of them (or JOINT) decides."""
    return leading_class.solve(problem, lead, search, limits, deadline=deadline, cancel=cancel)


def _node_sets(problem: Problem) -> highs.Sets | None:
    """What finds the sets of units that nodes have, where it was built and holds the numbers."""
    if BACKEND == "reference":
        return None
    from extender.search.core.columns import Columns, Doubtful
    from extender.search.core.node_sets import NodeSets

    several = len(problem.classes) > 1
    try:
        Columns(replace(problem, classes=(largest(problem),)) if several else problem)
    except Doubtful:
        return None
    return NodeSets


def _own_part(deadline: float) -> float | None:
    """When the own search makes room for HiGHS."""
    return part_of(sooner(deadline, OWN_SECONDS / OWN_SHARE), OWN_SHARE)


def _own(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As ``solve``, of a settled problem, without HiGHS."""
    first: Solution | None = None
    hurried = deadline is not None or cancel is not None
    if hurried and _is_small(problem) and (cancel is None or cancel[0] < 2):
        found = by_table(problem, limits, cancel=Countdown(ASKS))
        if isinstance(found, Solution):
            first = found
        if proved(found):
            return found
    found = by_table(problem, limits, deadline=deadline, cancel=cancel)
    if first is not None and (isinstance(found, Infeasible) or first.cost < found.cost):
        return first
    return found


def _is_small(problem: Problem) -> bool:
    """Whether it is solved outright, sooner than a clock has to be asked."""
    return (
        len(problem.nodes) <= FEW_NODES
        and len(problem.units) <= FEW_UNITS
        and not alike.many(problem)
        and problem.need <= FEW_MEMBERS
    )


def open_census() -> census.Census | CompiledCensus:
    """An empty census: the compiled one, or the specification where it was not built."""
    if BACKEND == "reference":
        return census.Census()
    from extender.search.core.census import Census

    return Census()
