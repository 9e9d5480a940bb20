"""Why a gang cannot fit even with every allowed victim gone, for a person."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from extender.model.quantity import format_resource
from extender.search.problem import Infeasible, Problem
from extender.search.room import Room


class Shortage(Struct, frozen=True):
    """One class on the nodes of a region, with every unit chosen, each node on its own."""

    allowed: int
    """Nodes the class may use."""
    seats: int
    """Members that the resources of these nodes would seat."""
    lacking: tuple[tuple[int, int, int], ...] = ()
    """(resource, nodes where it is what one more member lacks, the least lack)."""


class Nearest(Struct, frozen=True):
    """What a region offers at best."""

    counts: tuple[int, ...]
    """(C,) members seated."""
    shortages: tuple[Shortage, ...]
    """(C,)"""
    region: tuple[int, ...]


def infeasible(problem: Problem, rooms: Sequence[Room]) -> Infeasible:
    """The refusal, from rooms (one per region) in which every unit is chosen."""
    proved = all(room.exact for room in rooms)
    offers = [
        Nearest(
            room.best(),
            tuple(_shortage(problem, room, cls) for cls in range(len(problem.classes))),
            room.region,
        )
        for room in rooms
    ]
    skews = _spread_reasons(problem, rooms[0]) if len(rooms) == 1 else []
    return refusal(problem, offers, proved=proved, more=skews)


def refusal(
    problem: Problem, offers: Sequence[Nearest], *, proved: bool, more: Sequence[str] = ()
) -> Infeasible:
    """The refusal in words, ``more`` at its end.

    With several regions the one that comes nearest speaks.
    """
    if not offers:
        return Infeasible(
            proved=True,
            reasons=("no node lies in any topology domain, and one is required",),
            short=_missing(problem, (0,) * len(problem.classes)),
        )
    best = max(offers, key=lambda offer: (min(sum(offer.counts), problem.need), offer.counts))
    short = _missing(problem, best.counts)
    reasons = [
        f"with every evictable pod gone {min(sum(best.counts), problem.need)} of "
        f"{max(problem.need, sum(c.least for c in problem.classes))} seats are found"
        + (" in the best topology domain" if problem.domain is not None else "")
    ]
    reasons += [_class_reason(problem, best.shortages[cls], cls, members) for cls, members in short]
    reasons += _cap_reasons(problem, best.region)
    reasons += more
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


def _class_reason(problem: Problem, shortage: Shortage, cls: int, members: int) -> str:
    rule = problem.classes[cls]
    if not shortage.allowed:
        return f"{rule.name}: {members} short; no node is allowed for it"
    parts = [
        f"{problem.resources[r]} is what {nodes} of them lack for one more "
        f"(a member asks {format_resource(problem.resources[r], rule.request[r])}, "
        f"the nearest lacks {format_resource(problem.resources[r], least)})"
        for r, nodes, least in shortage.lacking
    ]
    text = (
        f"{rule.name}: {members} short; {shortage.allowed} nodes allowed, "
        f"room for {shortage.seats} there"
    )
    return "; ".join([text, *parts])


def _cap_reasons(problem: Problem, region: Sequence[int]) -> list[str]:
    reasons = []
    for cap in problem.caps:
        domains = {cap.domain[n] for n in region if cap.domain[n] >= 0}
        free = any(
            cap.domain[n] < 0 and problem.classes[c].allowed[n] for n in region for c in cap.classes
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
                f"(anti-affinity, host ports or spread), {wanted} are needed"
            )
    return reasons


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
            else f"the emptiest of {len(reach)} domains holds {least} at most"
        )
        reasons.append(
            f"topology spread of {names} (skew {rule.max_skew} at most): {emptiest}, "
            f"so no domain may hold more than {least + rule.max_skew}"
        )
    return reasons
