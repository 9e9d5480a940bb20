"""Why a gang cannot fit even with every allowed victim gone, for a person."""

from __future__ import annotations

from collections.abc import Sequence

from extender.search.problem import Infeasible, Problem
from extender.search.room import Room


def infeasible(problem: Problem, rooms: Sequence[Room]) -> Infeasible:
    """The refusal, from rooms (one per region) in which every unit is chosen.

    With several regions (topology domains) the one that comes nearest speaks.
    """
    proved = all(room.exact for room in rooms)
    if not rooms:
        return Infeasible(
            proved=True,
            reasons=("no node lies in any topology domain, and one is required",),
            short=_missing(problem, (0,) * len(problem.classes)),
        )
    scored = [(room, room.best()) for room in rooms]
    room, best = max(scored, key=lambda pair: (min(sum(pair[1]), problem.need), pair[1]))
    short = _missing(problem, best)
    reasons = [
        f"with every evictable pod gone {min(sum(best), problem.need)} of "
        f"{max(problem.need, sum(c.least for c in problem.classes))} seats are found"
        + (" in the best topology domain" if problem.domain is not None else "")
    ]
    for cls, members in short:
        reasons.append(_class_reason(problem, room, cls, members))
    reasons += _cap_reasons(problem, room)
    return Infeasible(proved=proved, reasons=tuple(reasons), short=short)


def _missing(problem: Problem, best: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """(class, members short): first what each role must have, then the rest of need."""
    short = [max(0, cls.least - have) for cls, have in zip(problem.classes, best, strict=True)]
    left = problem.need - sum(best) - sum(short)
    for index, cls in enumerate(problem.classes):
        more = max(0, min(left, cls.count - best[index] - short[index]))
        short[index] += more
        left -= more
    return tuple((index, members) for index, members in enumerate(short) if members)


def _class_reason(problem: Problem, room: Room, cls: int, members: int) -> str:
    """Which resource stands in the way of one more member, with every unit chosen.

    Each node is looked at on its own, as if only this class used it.
    """
    rule = problem.classes[cls]
    allowed = [n for n in room.region if rule.allowed[n]]
    if not allowed:
        return f"{rule.name}: {members} short; no node is allowed for it"
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
    parts = [
        f"{problem.resources[r]} is what {len(lacks)} of them lack for one more "
        f"(a member asks {rule.request[r]}, the nearest lacks {min(lacks)})"
        for r, lacks in sorted(lacking.items())
    ]
    text = f"{rule.name}: {members} short; {len(allowed)} nodes allowed, room for {seats} there"
    return "; ".join([text, *parts])


def _cap_reasons(problem: Problem, room: Room) -> list[str]:
    reasons = []
    for cap in problem.caps:
        domains = {cap.domain[n] for n in room.region if cap.domain[n] >= 0}
        free = any(
            cap.domain[n] < 0 and problem.classes[c].allowed[n]
            for n in room.region
            for c in cap.classes
        )
        wanted = max(
            0,
            problem.need
            - sum(cls.count for c, cls in enumerate(problem.classes) if c not in cap.classes),
        )
        if not free and cap.limit * len(domains) < wanted:
            names = ", ".join(problem.classes[c].name for c in cap.classes)
            reasons.append(
                f"at most {cap.limit} of {names} in each of {len(domains)} domains "
                f"(anti-affinity or spread), {wanted} are needed"
            )
    return reasons
