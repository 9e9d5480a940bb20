"""What a cheaper plan would need: which victims could stay, with how much more elsewhere. Pure.

A number is told only if it was tried: with the other victims gone, all but so many members have a
seat.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress, count, islice
from operator import add

from msgspec import Struct
from msgspec.structs import replace

from extender.gang.incremental.victims import VictimUnit
from extender.gang.plan.any_answer import any_answer
from extender.gang.plan.built import Built
from extender.gang.plan.trial import Trial
from extender.gang.plan.victim_reasons import AFFINITY, ROOM, Reason
from extender.model.texts import counted, some
from extender.search.problem import Problem, Solution, Vector
from extender.search.problem.stop import OutOfTime, Stop

PREFIX = "cheaper only with "
"""How the sentence begins."""
MOST_TRIED = 2
"""Units of which it is tried what would spare them."""


class AvoidableVictims(Struct, frozen=True):
    """Victims that could stay if some members had a seat elsewhere."""

    unit: str
    """The gang that goes, or namespace/name of a pod alone."""
    pods: int
    seats: int
    """Members that would need a seat elsewhere, tried."""
    needs: tuple[str, ...]
    """What lacks: ROOM, "host port 80/TCP", "required anti-affinity"."""
    inside: str
    """Where the seats have to be, for the end of a sentence."""

    @property
    def words(self) -> str:
        """One sentence."""
        # A gang's key has a colon, which no namespace or pod has.
        gang = ":" in self.unit
        which = f"{counted(self.pods, 'pod')} of {self.unit}" if gang else f"pod {self.unit}"
        members = f"{self.seats} more {'member' if self.seats == 1 else 'members'}"
        room = "free room" if ROOM in self.needs else "a node"
        rules = some([need for need in self.needs if need != ROOM], by=" and ")
        apart = f" without that conflict ({rules})" if rules else ""
        return f"{PREFIX}{room} for {members}{self.inside}{apart}: {which} could stay then"


Again = Callable[[Built, Solution], Trial]
"""Tries a solution out on every rule. Raises OutOfTime."""


def easiest_to_spare(
    trial: Trial, reasons: Mapping[str, Reason], again: Again, stop: Stop
) -> AvoidableVictims | None:
    """Return the victims for which fewest members need another seat, of several the most urgent.

    The trial's solution is one that is proved least; otherwise a cheaper one may need nothing. None
    for none, and where topology spread or a preferred domain decides with the room.
    """
    built, solution = trial.built, trial.solution
    problem = built.problem
    everybody = sum(cls.count for cls in problem.classes)
    parts = any(cls.least for cls in problem.classes) and problem.need < everybody
    if problem.spreads or parts or not (problem.domain is None or problem.domain_required):
        return None
    if _is_plain(built):
        shorts: Iterable[tuple[VictimUnit, int]] = _least_without(built, solution)
    else:
        shorts = _tried(built, solution, again, stop)
    found = [
        (short, -max(pod.priority for pod in unit.pods), _name(unit), unit)
        for unit, short in shorts
    ]
    if not found:
        return None
    short, _, name, unit = min(found, key=lambda each: each[:3])
    needs = frozenset().union(*[reasons[pod.uid].needs for pod in unit.pods if pod.uid in reasons])
    if AFFINITY in needs:
        return None  # while these pods are there members may sit beside them, which is not tried
    inside = "" if problem.domain is None else " in the same topology domain"
    return AvoidableVictims(name, len(unit.pods), short, tuple(sorted(needs)), inside)


def _name(unit: VictimUnit) -> str:
    return str(unit.gang) if unit.whole else f"{unit.pods[0].namespace}/{unit.pods[0].name}"


def _is_plain(built: Built) -> bool:
    """Whether the members are alike, and only the room of victims decides."""
    problem = built.problem
    return (
        len(problem.classes) == 1
        and any(problem.classes[0].request)
        and problem.domain is None
        and not (problem.caps or problem.blockers)
        and all(isinstance(subject, VictimUnit) for subject in built.subjects)
    )


def _least_without(built: Built, solution: Solution) -> list[tuple[VictimUnit, int]]:
    """Return the units that go, each with the members that find no seat if it alone stays: those
    for which that is fewest."""
    problem = built.problem
    (cls,) = problem.classes
    columns = [(problem.free[r], r, amount) for r, amount in enumerate(cls.request) if amount]
    # Nodes of which little is free are seen by the scarcest resource.
    columns.sort(key=lambda each: sum(each[0]) // each[2])
    scarce, _, least = columns[0]
    units = [(built.subjects[at], problem.units[at].releases) for at in solution.chosen]
    gone: dict[int, Vector] = {}
    for _, releases in units:
        for node, amounts in releases:
            before = gone.get(node)
            gone[node] = amounts if before is None else tuple(map(add, before, amounts))
    seats = {
        node: max(0, min([(free[node] + amounts[r]) // amount for free, r, amount in columns]))
        for node, amounts in gone.items()
        if cls.allowed[node]
    }
    spare = sum(seats.values()) - problem.need
    for node in compress(count(), cls.allowed):
        if scarce[node] >= least and node not in seats:
            spare += max(0, min([free[node] // amount for free, _, amount in columns]))
    found: list[tuple[VictimUnit, int]] = []
    most = problem.need
    for unit, releases in units:
        short = -spare
        for node, amounts in releases:
            if short > most:
                break
            if not (there := seats.get(node)):
                continue
            short += there
            all_gone = gone[node]
            if all_gone is not amounts or scarce[node] >= least:
                left = [(free[node] + all_gone[r] - amounts[r]) // a for free, r, a in columns]
                short -= max(0, min(left))
        if 0 < short <= most and isinstance(unit, VictimUnit):
            found = [*found, (unit, short)] if short == most else [(unit, short)]
            most = short
    return found


def _tried(
    built: Built, solution: Solution, again: Again, stop: Stop
) -> Iterator[tuple[VictimUnit, int]]:
    """Yield some of the units with that number, found by searches and tried out."""
    beside = any(group[0].shape.affinity for group in built.classes)
    alone = not (beside or built.problem.blockers)
    """Nothing but what is on its node decides whether a member may sit there."""
    for at, unit, moved in islice(_candidates(built, solution), MOST_TRIED):
        gone = _gone(built, {each for each in solution.chosen if each != at}, at)
        left: Solution | None = replace(
            solution, seats=tuple([each for each in solution.seats if each not in moved])
        )
        short = sum(members for _, _, members in moved)
        same = alone and short == 1
        if short > 1:  # else all other seats are as they are: one that moves is the least
            short, left = _short(_inside(_without(built, gone), solution), stop)
        # A member may need another one beside it, which is in no problem. Where the other seats
        # are as they are, and their nodes, they need not be tried a second time.
        if left is not None and left.seats and not same:
            trial = again(built, replace(left, chosen=tuple(sorted(gone))))
            short = 0 if trial.failed else short
        if short:
            yield unit, short
        if short == 1:
            break


Seats = tuple[int, int, int]
"""Class, node, members."""


def _candidates(
    built: Built, solution: Solution
) -> Iterator[tuple[int, VictimUnit, frozenset[Seats]]]:
    """Yield the victim units that seats need, and the seats on their nodes, fewest first."""
    at_node: dict[int, list[Seats]] = {}
    for seat in solution.seats:
        at_node.setdefault(seat[1], []).append(seat)
    needs = {
        at: {seat for node, _ in built.problem.units[at].releases for seat in at_node.get(node, ())}
        for at in solution.chosen
    }
    for blocker in built.problem.blockers:
        those = {seat for seat in at_node.get(blocker.node, ()) if seat[0] == blocker.cls}
        for at in blocker.units if those else ():
            if at in needs:
                needs[at] |= those
    units = [
        (sum(members for _, _, members in seats), -max(pod.priority for pod in unit.pods), at, unit)
        for at, seats in needs.items()
        if seats and isinstance(unit := built.subjects[at], VictimUnit)
    ]
    for _, _, at, unit in sorted(units, key=lambda each: (*each[:2], each[3].uid)):
        yield at, unit, frozenset(needs[at])


def _gone(built: Built, chosen: set[int], spared: int) -> set[int]:
    """Return these units and all others that are no victims (terminating pods, seats that may be
    taken over) and cost less than the one that is spared."""
    problem = built.problem
    most = _first_level(problem.units[spared].cost)
    return chosen | {
        at
        for at, subject in enumerate(built.subjects)
        if not isinstance(subject, VictimUnit) and _first_level(problem.units[at].cost) > most
    }


def _without(built: Built, gone: set[int]) -> Problem:
    """Return the problem with these units gone. No other goes."""
    problem = built.problem
    free = [array("q", column) for column in problem.free]
    for at in gone:
        for node, amounts in problem.units[at].releases:
            for column, amount in zip(free, amounts, strict=True):
                column[node] += amount
    allowed = [bytearray(cls.allowed) for cls in problem.classes]
    for blocker in problem.blockers:
        if not gone.issuperset(blocker.units):
            allowed[blocker.cls][blocker.node] = 0
    return replace(
        problem,
        free=tuple(free),
        classes=tuple(
            replace(cls, allowed=bytes(mask), least=0)
            for cls, mask in zip(problem.classes, allowed, strict=True)
        ),
        units=(),
        gangs=(),
        budgets=(),
        blockers=(),
        fill=False,
    )


def _first_level(cost: Vector) -> int:
    """Return the first level at which something is lost; of two units the later one costs less,
    also together with others like it."""
    return next((at for at, amount in enumerate(cost) if amount), len(cost))


def _inside(problem: Problem, solution: Solution) -> Problem:
    """Return the problem with no seat outside the solution's topology domain."""
    if problem.domain is None:
        return problem
    domain = problem.domain[solution.seats[0][1]]
    inside = bytes(each == domain for each in problem.domain)
    return replace(
        problem,
        domain=None,
        classes=tuple(
            replace(cls, allowed=bytes(map(min, cls.allowed, inside))) for cls in problem.classes
        ),
    )


def _short(problem: Problem, stop: Stop) -> tuple[int, Solution | None]:
    """Return how many members find no seat, 0 where that is not sure, and seats for the others."""
    if stop.over():
        return 0, None
    try:
        answer = any_answer(problem, stop)
        if isinstance(answer, Solution) or not answer.proved:
            return 0, None
        short = sum(members for _, members in answer.short)
        if not 0 < short < problem.need:
            return short, None
        fewer = any_answer(replace(problem, need=problem.need - short), stop)
    except OutOfTime:
        return 0, None
    return (short, fewer) if isinstance(fewer, Solution) else (0, None)
