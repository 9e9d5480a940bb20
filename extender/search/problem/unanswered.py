"""Why a gang cannot fit even with every allowed victim gone, for a person."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from extender.decode.quantity import format_resource
from extender.model.texts import counted, some
from extender.search.problem.stop import Stop
from extender.search.problem.types import Infeasible, Problem, Vector

MOST_BUDGETS = 8
"""Disruption budgets that are named."""


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
    wanted = max(problem.need, sum(c.least for c in problem.classes))
    # Those that fit beyond what is asked for make up for no part that lacks members.
    fit = min(sum(best.counts), problem.need, wanted - sum(members for _, members in short))
    reasons = [
        f"{fit} of "
        + counted(wanted, "member", "fits", "fit")
        + (" in the best topology domain" if problem.domain is not None else "")
        + " if every possible victim is evicted"
    ]
    reasons += [_class_reason(problem, best.shortages[cls], cls, members) for cls, members in short]
    reasons += _cap_reasons(problem, best.region, [cls for cls, _ in short])
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


def _class_reason(problem: Problem, shortage: Shortage, cls: int, members: int) -> str:
    rule = problem.classes[cls]
    if not shortage.allowed:
        return f"{rule.name}: {members} short; no node is allowed for it"
    # Where one class has room enough, a rule of its members is what lacks.
    roomy = len(problem.classes) == 1 and shortage.seats >= problem.need
    lacking = [
        f" of {problem.resources[r]} on {counted(nodes, 'node')} "
        f"(a member needs {format_resource(problem.resources[r], rule.request[r])}, "
        f"the nearest lacks {format_resource(problem.resources[r], least)})"
        for r, nodes, least in (() if roomy else shortage.lacking)
    ]
    short = f"{rule.name}: {members} short{' and'.join(lacking)}"
    return f"{short}; {counted(shortage.allowed, 'allowed node')}, room for {shortage.seats} there"


def _cap_reasons(problem: Problem, region: Sequence[int], short: Sequence[int]) -> list[str]:
    reasons = []
    others: list[str] = []
    for cap in problem.caps:
        usable = [n for n in region if any(problem.classes[c].allowed[n] for c in cap.classes)]
        domains = {cap.domain[n] for n in usable}
        wanted = max(
            0,
            problem.need
            - sum(cls.count for c, cls in enumerate(problem.classes) if c not in cap.classes),
        )
        rule = cap.rule or "a rule of the members"
        if -1 not in domains and cap.limit * len(domains) < wanted:
            names = ", ".join(problem.classes[c].name for c in cap.classes)
            reasons.append(
                f"{rule} allows at most {cap.limit} of {names} in each of "
                f"{counted(len(domains), 'domain')}, {counted(wanted, 'seat', 'is', 'are')} needed"
            )
        elif cap.limit < wanted and not set(short).isdisjoint(cap.classes):
            others.append(rule)
    if others and not reasons:
        reasons.append(f"what limits the members of one domain: {some([*dict.fromkeys(others)])}")
    return reasons


def no_answer(problem: Problem, bound: Vector | None, stop: Stop, *, unproved: bool) -> Infeasible:
    """With everybody gone there is room, but no answer was found: the hard budgets do not
    let enough units go, or the search was cut."""
    names = some([budget.name for budget in problem.budgets if budget.hard], MOST_BUDGETS)
    if not unproved:
        text = f"room can be made only by exceeding a disruption budget ({names})"
        return Infeasible(proved=True, reasons=(text,))
    within = f" within the disruption budgets ({names})" if names else ""
    least = ", ".join(
        f"{level} {amount}"
        for level, amount in zip(problem.levels, bound or (), strict=False)
        if amount
    )
    text = (
        f"the search was cut before it found an answer{within}: "
        f"{stop.why() or 'what is left was too wide'}; "
        f"any answer costs at least {least or 'nothing'}"
    )
    return Infeasible(proved=False, reasons=(text,))
