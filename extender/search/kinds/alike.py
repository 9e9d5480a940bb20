"""Many kinds of members, taken for few: an answer and a bound where the exact search has no end.

Classes that are nearly alike become one. If each member asks the *most* that one of its
class asks, and may use only what all of them may, seats for these are seats for the true
members: an answer. If each asks the *least*, and may use whatever one of them may, every
true answer is an answer here too: its least cost is a bound. One class is always solved
(the compiled core has no trouble with it); more, while there is time, bring both nearer
to each other. Where the members' masks have too little in common for that, they are
seated one after the other (first_fit).

The work is bounded by counts and not by time, so that the same problem gets the same
answer on every machine, unless a deadline comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from extender.model.texts import counted
from extender.search.problem import (
    Blocker,
    Cap,
    Infeasible,
    Limits,
    MemberClass,
    Problem,
    Solution,
    Spread,
    Vector,
)
from extender.search.problem.cost import cost_of
from extender.search.problem.seat_regions import is_wide, promising, regions_of, scattered_seats
from extender.search.problem.stop import Flag, Stop, at_once
from extender.search.problem.types import Seats, Solve, restated
from extender.search.problem.unanswered import no_answer
from extender.search.problem.verify import verify
from extender.search.seating.first_fit import first_fit
from extender.search.seating.patterns import TooWide
from extender.search.seating.within_budgets import within_budgets

MOST_KINDS = 8
"""Classes that are solved as they are."""
STEPS = (1, 3, 6)
"""So many groups of classes, one after the other, until answer and bound meet."""
BRANCHES = 2_000
"""Branches of one question where there is more than one: about several groups, or before an end."""
REGIONS = 8
"""Domains in which members are seated one after the other, at most."""
SAME = ("gangs", "budgets", "domain", "domain_required", "domain_level", "fill")
"""The RULES that say nothing of classes."""

Group = tuple[int, ...]
"""Indices of classes."""


def many(problem: Problem) -> bool:
    """Whether the classes are more than are solved as they are."""
    return len(problem.classes) > MOST_KINDS


def solve(
    problem: Problem,
    exact: Solve,
    limits: Limits | None = None,
    *,
    deadline: float | None = None,
    cancel: Flag | None = None,
) -> Solution | Infeasible:
    """As solver.solve, with an answer that may cost more than the bound that it states.

    ``exact(problem, limits, deadline=, cancel=)`` solves a problem with few classes; where
    it raises TooWide too many ways are left even then. Raises OutOfTime only when even a first
    answer is not waited for.
    """
    stop = Stop(limits, deadline, cancel)
    first: Solution | None = None
    if stop.hurried:
        # What a search without any time answers, a search with some time has too.
        found = _solve(problem, exact, at_once(limits, cancel), None)
        if stop.over() or (isinstance(found, Infeasible) and found.proved):
            return found
        first = found if isinstance(found, Solution) else None
    return _solve(problem, exact, stop, first)


def _solve(
    problem: Problem, exact: Solve, stop: Stop, first: Solution | None
) -> Solution | Infeasible:
    bound: Vector = cost_of(problem, ())
    best: _AlikeAnswer | None = None
    if first is not None:
        best = _AlikeAnswer(first.cost, first.seats, first.chosen)
    groups_before: list[Group] = []
    # Rules over several nodes are what no bound of work is known for: first without.
    whole = relaxed(problem, grouped(problem, 1))
    bare = _ask(_without_rules(whole), exact, stop, few=True) if _has_rules(whole) else None
    if isinstance(bare, Infeasible) and bare.proved:
        return _refused(problem, grouped(problem, 1), bare)
    if isinstance(bare, Solution):
        bound = max(bound, bare.bound)
        best = _better(best, _seated(problem, bare.chosen, stop))
    for most in STEPS:
        if len(problem.classes) == 1 or (best is not None and best.cost <= bound):
            break
        groups = grouped(problem, most)
        if groups == groups_before or (groups_before and stop.over()):
            break
        groups_before = groups
        below = _ask(relaxed(problem, groups), exact, stop, few=most == 1)
        if isinstance(below, Infeasible):
            if below.proved:
                return _refused(problem, groups, below)
        elif below is None:
            break
        else:
            bound = max(bound, below.bound)
            best = _better(best, _seated(problem, below.chosen, stop))
        above = _ask(tightened(problem, groups), exact, stop, few=most == 1)
        if isinstance(above, Solution):
            best = _better(best, _checked(problem, _shared_out(problem, groups, above), above))
    if best is None:
        best = _seated(problem, (), stop) or _within(problem, stop)
    if best is None:
        stop.wide = True
        return no_answer(problem, bound, stop, unproved=True)
    bound = min(bound, best.cost)
    return Solution(
        seats=best.seats,
        chosen=best.chosen,
        cost=best.cost,
        bound=bound,
        optimal=bound == best.cost,
        cut="" if bound == best.cost else stop.why() or _why(problem),
    )


def _why(problem: Problem) -> str:
    return (
        f"its members are of {counted(len(problem.classes), 'kind')}, more than are weighed one by "
        "one: the bound takes near kinds for the least that one of them asks"
    )


class _AlikeAnswer(Struct, frozen=True):
    cost: Vector
    seats: Seats
    chosen: tuple[int, ...]


def _better(one: _AlikeAnswer | None, other: _AlikeAnswer | None) -> _AlikeAnswer | None:
    if one is None or other is None:
        return one or other
    return other if other.cost < one.cost else one


def _ask(problem: Problem, exact: Solve, stop: Stop, *, few: bool) -> Solution | Infeasible | None:
    """None where there are too many ways even so, or where the end cut the question off: it
    might propose something else a moment later, and something worse."""
    left, past = max(1, stop.left), stop.over()
    limits = Limits(left if few and not stop.hurried else min(BRANCHES, left))
    try:
        found = exact(problem, limits, deadline=stop.deadline, cancel=stop.cancel)
    except TooWide:
        return None
    finally:
        stop.check_first()
    closed = found.optimal if isinstance(found, Solution) else found.proved
    return found if closed or past or not stop.over() else None


def _seated(problem: Problem, hint: Sequence[int], stop: Stop) -> _AlikeAnswer | None:
    """Members seated one after the other, in the first domain in which all of them sit."""
    for nodes, _ in promising(problem, regions_of(problem))[:REGIONS]:
        found = first_fit(problem, nodes, hint, stop)
        if found is not None:
            answer = _checked(problem, found[0], found[1])
            if answer is not None:
                return answer
    return None


def _within(problem: Problem, stop: Stop) -> _AlikeAnswer | None:
    """Members seated where that takes least of the hard budgets."""
    for nodes, _ in promising(problem, regions_of(problem))[:REGIONS]:
        found = within_budgets(problem, nodes, stop)
        if found is not None:
            return _checked(problem, *found)
    return None


def _checked(
    problem: Problem, seats: Seats, chosen: Solution | tuple[int, ...]
) -> _AlikeAnswer | None:
    """The answer, if it is one: rules that differ inside a group were not all asked."""
    units = chosen.chosen if isinstance(chosen, Solution) else chosen
    cost = cost_of(problem, units, scattered=scattered_seats(problem, seats))
    nothing = (0,) * len(cost)
    solution = Solution(seats, units, cost, nothing, optimal=cost == nothing)
    return None if verify(problem, solution) else _AlikeAnswer(cost, seats, units)


def _refused(problem: Problem, groups: Sequence[Group], below: Infeasible) -> Infeasible:
    if len(groups) == len(problem.classes):
        return below
    text = (
        f"its {counted(len(problem.classes), 'kind')} of members do not fit even if near kinds ask "
        "the least that one of them asks"
    )
    return Infeasible(proved=True, reasons=(text, *below.reasons))


# -- groups ------------------------------------------------------------------------------


def grouped(problem: Problem, most: int) -> list[Group]:
    """The classes in at most so many groups, the nearest together.

    Kinds that other rules tell apart (nodes, caps, spread) are put together last; inside
    them the widest gap between two requests is cut first.
    """
    alike: dict[object, list[int]] = {}
    for c in range(len(problem.classes)):
        alike.setdefault(_signature(problem, c), []).append(c)
    groups = sorted(tuple(group) for group in alike.values())
    if len(groups) > most:
        order = [c for group in groups for c in group]
        size = -(-len(order) // most)
        return [tuple(order[at : at + size]) for at in range(0, len(order), size)]
    while len(groups) < most:
        gap, at, parts = max(
            ((*_cut(problem, group),) for group in groups if len(group) > 1),
            default=(0.0, (), ()),
        )
        if gap <= 0:
            break
        groups.remove(at)
        groups += parts
    return sorted(groups)


def _signature(problem: Problem, c: int) -> object:
    cls = problem.classes[c]
    return (
        tuple(ask > 0 for ask in cls.request),
        cls.allowed,
        tuple(c in cap.classes for cap in problem.caps),
        tuple((c in rule.bound, c in rule.counted) for rule in problem.spreads),
    )


def _cut(problem: Problem, group: Group) -> tuple[float, Group, tuple[Group, ...]]:
    """(the widest gap between neighbours as a share of the larger, group, its two parts)."""
    best: tuple[float, Group, tuple[Group, ...]] = (0.0, group, ())
    for r in range(len(problem.resources)):
        order = sorted(group, key=lambda c: (problem.classes[c].request[r], c))
        for at in range(1, len(order)):
            low = problem.classes[order[at - 1]].request[r]
            high = problem.classes[order[at]].request[r]
            gap = (high - low) / high if high else 0.0
            # Of gaps that are alike the one in the middle.
            gap *= 1 + min(at, len(order) - at) / len(order)
            if gap > best[0]:
                parts = (tuple(sorted(order[:at])), tuple(sorted(order[at:])))
                best = (gap, group, parts)
    return best


# -- the two problems ----------------------------------------------------------------------


def relaxed(problem: Problem, groups: Sequence[Group]) -> Problem:
    """Every member asks, and is forbidden, the least of its group: who answers the problem
    answers this one."""
    return _merged(problem, groups, loose=True)


def tightened(problem: Problem, groups: Sequence[Group]) -> Problem:
    """Every member asks, and is forbidden, the most of its group. Spread rules that hold for
    a part of a group are left out: an answer has to be verified."""
    return _merged(problem, groups, loose=False)


def _has_rules(problem: Problem) -> bool:
    """Whether rules tie nodes together, one domain for all seats among them."""
    wide = any(is_wide(cap.domain) for cap in problem.caps)
    return wide or bool(problem.spreads) or problem.domain is not None


def _without_rules(problem: Problem) -> Problem:
    """Without rules that tie nodes together, one domain for all seats among them."""
    return replace(
        problem,
        caps=tuple(cap for cap in problem.caps if not is_wide(cap.domain)),
        spreads=(),
        domain=None,
    )


def _merged(problem: Problem, groups: Sequence[Group], *, loose: bool) -> Problem:
    pick = min if loose else max
    mask = max if loose else min
    classes = []
    for group in groups:
        of = [problem.classes[c] for c in group]
        name = of[0].name if len(of) == 1 else f"{counted(len(of), 'kind')} like {of[0].name}"
        classes.append(
            MemberClass(
                name=name,
                request=tuple(map(pick, zip(*(cls.request for cls in of), strict=True))),
                count=sum(cls.count for cls in of),
                allowed=_folded([cls.allowed for cls in of], mask),
                least=sum(cls.least for cls in of),
            )
        )
    return restated(
        problem,
        classes=tuple(classes),
        **{name: getattr(problem, name) for name in SAME},
        blockers=tuple(_blockers(problem, groups, loose=loose)),
        caps=tuple(_caps(problem, groups, loose=loose)),
        spreads=tuple(_spreads(problem, groups)),
    )


def _folded(masks: Sequence[bytes], mask: Callable[[int, int], int]) -> bytes:
    found = masks[0]
    for other in masks[1:]:
        if other != found:
            found = bytes(map(mask, found, other))
    return found


def _blockers(problem: Problem, groups: Sequence[Group], *, loose: bool) -> Iterator[Blocker]:
    if not problem.blockers:
        return
    units: dict[tuple[int, int], set[int]] = {}
    for blocker in problem.blockers:
        units.setdefault((blocker.cls, blocker.node), set()).update(blocker.units)
    nodes = sorted({blocker.node for blocker in problem.blockers})
    for g, group in enumerate(groups):
        for n in nodes:
            found = [units.get((c, n), set()) for c in group]
            together = set.intersection(*found) if loose else set.union(*found)
            if together:
                yield Blocker(g, n, tuple(sorted(together)))


def _caps(problem: Problem, groups: Sequence[Group], *, loose: bool) -> Iterator[Cap]:
    for cap in problem.caps:
        counted = set(cap.classes)
        inside = [
            g
            for g, group in enumerate(groups)
            if (counted.issuperset(group) if loose else not counted.isdisjoint(group))
        ]
        if inside:
            yield replace(cap, classes=tuple(inside))


def _spreads(problem: Problem, groups: Sequence[Group]) -> Iterator[Spread]:
    for rule in problem.spreads:
        whole = True
        parts: list[tuple[int, ...]] = []
        for named in (set(rule.bound), set(rule.counted)):
            inside = [g for g, group in enumerate(groups) if named.issuperset(group)]
            whole = whole and sum(len(groups[g]) for g in inside) == len(named)
            parts.append(tuple(inside))
        if whole:
            yield replace(rule, bound=parts[0], counted=parts[1])


def _shared_out(problem: Problem, groups: Sequence[Group], found: Solution) -> Seats:
    """The seats of each group given to its classes: first as many as each must have."""
    seated = [0] * len(groups)
    for g, _, members in found.seats:
        seated[g] += members
    seats: dict[tuple[int, int], int] = {}
    for g, group in enumerate(groups):
        left = {c: problem.classes[c].least for c in group}
        more = seated[g] - sum(left.values())
        for c in group:
            extra = min(max(0, more), problem.classes[c].count - left[c])
            left[c] += extra
            more -= extra
        for h, n, members in found.seats:
            if h != g:
                continue
            for c in group:
                here = min(members, left[c])
                if here:
                    seats[c, n] = seats.get((c, n), 0) + here
                    left[c] -= here
                    members -= here
    return tuple(sorted((c, n, members) for (c, n), members in seats.items()))
