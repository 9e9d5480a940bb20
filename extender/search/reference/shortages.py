"""The refusal of the plain search: rooms with every unit chosen tell what they lack."""

from __future__ import annotations

from collections.abc import Sequence

from extender.model.texts import counted
from extender.search.problem import Infeasible, Problem
from extender.search.problem.unanswered import Nearest, Shortage, refusal
from extender.search.seating.first_fit import seated_without
from extender.search.seating.patterns import TooWide, Ways
from extender.search.seating.room import Room

MOST_SUMS = 500_000
"""Sums and comparisons for an explanation, of all regions together: half a second."""


def infeasible(problem: Problem, rooms: Sequence[Room]) -> Infeasible:
    """The refusal, from rooms (one per region) in which every unit is chosen."""
    proved = all(room.exact for room in rooms)
    ways = Ways(sums=MOST_SUMS, all_work=True)
    offers = [
        Nearest(
            _most_seated(problem, room, ways),
            tuple(_shortage(problem, room, cls) for cls in range(len(problem.classes))),
            room.region,
        )
        for room in rooms
    ]
    skews = _spread_reasons(problem, rooms[0]) if len(rooms) == 1 else []
    return refusal(problem, offers, proved=proved, more=skews)


def _most_seated(problem: Problem, room: Room, ways: Ways) -> tuple[int, ...]:
    """(C,) members that fit together: the most, or where that is not soon known those that do when
    they are seated one after the other."""
    try:
        return room.best(ways)
    except TooWide:
        return seated_without(problem, room.region)


def _shortage(problem: Problem, room: Room, cls: int) -> Shortage:
    """Which resource stands in the way of one more member on how many nodes."""
    rule = problem.classes[cls]
    allowed = [n for n in room.region if rule.allowed[n]]
    seats = 0
    lacking: dict[int, list[int]] = {}
    for n in allowed:
        have = room.amounts(n)
        fits = [(max(0, have[r]) // ask, r) for r, ask in enumerate(rule.request) if ask > 0]
        here, tightest = min(fits, default=(rule.count, -1))
        seats += here
        if tightest >= 0:
            lack = rule.request[tightest] * (here + 1) - have[tightest]
            lacking.setdefault(tightest, []).append(lack)
    return Shortage(
        len(allowed),
        seats,
        tuple((r, len(lacks), min(lacks)) for r, lacks in sorted(lacking.items())),
    )


def _spread_reasons(problem: Problem, room: Room) -> list[str]:
    """How full the emptiest domain of each spread rule can get, each node on its own."""
    reasons = []
    for rule in problem.spreads:
        reach = list(rule.fewest)
        for n in room.region:
            if rule.domain[n] >= 0:
                reach[rule.domain[n]] += room.seats_on(n)
        least = 0 if rule.from_zero else min(reach, default=0)
        names = ", ".join(problem.classes[c].name for c in rule.bound)
        emptiest = (
            "there are fewer domains than minDomains"
            if rule.from_zero
            else f"the emptiest of {counted(len(reach), 'domain')} holds {least} at most"
        )
        reasons.append(
            f"topology spread of {names} (skew {rule.max_skew} at most): {emptiest}, "
            f"so no domain may hold more than {least + rule.max_skew}"
        )
    return reasons
