"""Which kind of problem goes to which solver, and why: a table, and what follows it.

A line answers a problem when it is the first that takes it. Where its solver finds that the
problem is not one for it after all, the table says as well who is asked instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from extender.search import reference
from extender.search.kinds import alike
from extender.search.problem import Infeasible, Limits, Problem, Solution
from extender.search.problem.stop import PAST, Countdown, Flag, OutOfTime, Stop
from extender.search.problem.types import Solve
from extender.search.problem.validate import check_units
from extender.search.seating.patterns import TooWide
from extender.search.seating.spread import settled

try:
    from extender.search.core import one_class
    from extender.search.core.columns import Columns, Doubtful
    from extender.search.several import mixed
except ImportError:
    BACKEND = "reference"
else:
    BACKEND = "compiled"
"""Which solver is there: "compiled", or "reference" where no extension was built."""


class Line(Struct, frozen=True):
    """One kind of problem."""

    name: str
    takes: Callable[[Problem], bool]
    solve: Solve
    why: str
    """Why these problems, and why this solver."""
    otherwise: Mapping[type[Exception], str] = {}
    """What the solver raises where the problem is not for it: the line that answers instead."""
    in_doubt: str = ""
    """The line that answers where this one refuses without proof what has several classes."""


def _any(_: Problem) -> bool:
    return True


def _plain(problem: Problem, *limits: Limits | None, **end: Any) -> Solution | Infeasible:
    """The reference, of units that nobody has looked at. Raises InvalidInput, TooWide."""
    check_units(problem)
    return reference.solve(problem, *limits, **end)


def _many(problem: Problem, *limits: Limits | None, **end: Any) -> Solution | Infeasible:
    return alike.solve(problem, exact, *limits, **end)


REFERENCE = Line(
    "reference",
    _any,
    _plain,
    "the core was not built, or a number exceeds its int64 fields",
    otherwise={TooWide: "alike"},
    in_doubt="alike",
)
TABLE: tuple[Line, ...] = (
    Line(
        "alike",
        alike.many,
        _many,
        "the ways in which classes share nodes multiply, so similar ones are treated as one",
    ),
    REFERENCE,
)
if BACKEND == "compiled":
    TABLE = (
        TABLE[0],
        Line(
            "compiled",
            one_class.takes,
            one_class.solve,
            "one class, no rule over several nodes: exact, without the interpreter's lock",
            otherwise={Doubtful: "reference"},
        ),
        Line(
            "mixed",
            _any,
            mixed.solve,
            "the rest: the core bounds, Python places the members",
            otherwise={Doubtful: "reference", TooWide: "alike"},
            in_doubt="alike",
        ),
        REFERENCE,
    )
"""From the top, the first line that takes a (settled) problem answers it."""

EXACT = tuple(line for line in TABLE if line.name != "alike")
"""Whose answers prove what they say unless they are cut."""


def line_of(problem: Problem, lines: tuple[Line, ...] = TABLE) -> Line:
    """Who answers this settled problem first."""
    return next(line for line in lines if line.takes(problem))


def by_table(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As solver.solve, of a settled problem whose frame was checked, by the project's own
    solvers. Raises InvalidInput for a malformed unit."""
    try:
        if deadline is not None and not isinstance(cancel, Countdown) and _is_plain(problem):
            return _alike_first(problem, limits, deadline=deadline, cancel=cancel)
        return _follow(problem, TABLE, limits, deadline=deadline, cancel=cancel)
    except OutOfTime:
        text = "the search was stopped before it found an answer: its time was up"
        return Infeasible(proved=False, reasons=(text,))


def _is_plain(problem: Problem) -> bool:
    """Whether several classes are the reference's to answer: not built, or numbers too wide."""
    if len(problem.classes) == 1 or alike.many(problem):
        return False
    if BACKEND == "reference":
        return True
    try:
        Columns(problem)
    except Doubtful:
        return True
    return False


def _alike_first(problem: Problem, limits: Limits | None, **end: Any) -> Solution | Infeasible:
    """The reference before a deadline: what near classes taken for one answer comes before it,
    since it may find nothing until the end, and this way would begin only then."""
    check_units(problem)
    first = alike.solve(problem, exact, limits, deadline=PAST, cancel=end["cancel"])
    if proved(first) or Stop(limits, **end).over():
        return first
    try:
        return merged(first, _follow(problem, EXACT, limits, **end))
    except (OutOfTime, TooWide):
        if Stop(limits, **end).over():
            return first
    return merged(first, alike.solve(problem, exact, limits, **end))


def proved(found: Solution | Infeasible) -> bool:
    """Whether no search has to go on."""
    return found.optimal if isinstance(found, Solution) else found.proved


def merged(one: Solution | Infeasible, other: Solution | Infeasible) -> Solution | Infeasible:
    """The better answer of two to the same problem, with the higher bound."""
    if isinstance(one, Infeasible) or proved(other):
        return other
    if isinstance(other, Infeasible):
        return one
    best = other if other.cost < one.cost else one
    bound = max(one.bound, other.bound)
    optimal = bound == best.cost
    return replace(best, bound=bound, optimal=optimal, cut="" if optimal else other.cut)


def exact(
    problem: Problem,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As ``by_table``, class by class. Raises TooWide where they have too many ways, OutOfTime
    where not even a first answer is waited for."""
    return _follow(problem, EXACT, limits, deadline=deadline, cancel=cancel)


def _follow(
    problem: Problem, lines: tuple[Line, ...], limits: Limits | None, **end: Any
) -> Solution | Infeasible:
    named = {line.name: line for line in lines}
    line = line_of(problem, lines)
    while True:
        try:
            found = line.solve(problem, limits, **end)
        except tuple(line.otherwise) as other:
            following = named.get(line.otherwise[type(other)])
            if following is None:
                raise
        else:
            if isinstance(found, Solution) or found.proved or len(problem.classes) == 1:
                return found
            if line.in_doubt not in named:
                return found
            following = named[line.in_doubt]
        line = following


def backend_for(problem: Problem) -> str:
    """Which exact solver answers this problem: the name of its line."""
    return line_of(settled(problem), EXACT).name
