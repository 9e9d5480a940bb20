"""Where all seats of an answer may lie, and which rules tie nodes together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.search.problem.types import Problem


def regions_of(problem: Problem) -> list[tuple[tuple[int, ...], bool]]:
    """(nodes, scattered): where all seats may lie, and whether that costs a level."""
    everywhere = tuple(range(len(problem.nodes)))
    if problem.domain is None:
        return [(everywhere, False)]
    if problem.need == 0 and not any(cls.least for cls in problem.classes):
        return [(everywhere, False)]
    inside: dict[int, list[int]] = {}
    for n in everywhere:
        if problem.domain[n] >= 0:
            inside.setdefault(problem.domain[n], []).append(n)
    regions = [(tuple(inside[domain]), False) for domain in sorted(inside)]
    return regions if problem.domain_required else [*regions, (everywhere, True)]


def promising(
    problem: Problem, regions: list[tuple[tuple[int, ...], bool]]
) -> list[tuple[tuple[int, ...], bool]]:
    """Return the regions that could seat the gang were each node for each class alone.

    Where none could, the one that comes nearest, to tell what it lacks.
    """
    if len(regions) < 2:
        return regions
    room = [list(column) for column in problem.free]
    for unit in problem.units:
        for n, amounts in unit.releases:
            for column, amount in zip(room, amounts, strict=True):
                column[n] += amount
    wanted = max(problem.need, sum(cls.least for cls in problem.classes))
    seats = [0] * len(problem.nodes)
    for cls in problem.classes:
        asked = [(column, ask) for column, ask in zip(room, cls.request, strict=True) if ask > 0]
        for n, ok in enumerate(cls.allowed):
            if ok:
                fits = min((max(0, column[n]) // ask for column, ask in asked), default=cls.count)
                seats[n] += min(cls.count, fits)
    held = [sum(seats[n] for n in nodes) for nodes, _ in regions]
    able = [region for region, seated in zip(regions, held, strict=True) if seated >= wanted]
    return able or [regions[held.index(max(held))]]


def scattered_seats(problem: Problem, seats: Sequence[tuple[int, int, int]]) -> bool:
    """Whether these seats leave one topology domain, where there is such a rule."""
    if problem.domain is None:
        return False
    domains = {problem.domain[n] for _, n, _ in seats}
    return len(domains) > 1 or -1 in domains


def is_wide(domain: Iterable[int]) -> bool:
    """Whether a rule with this domain of each node (-1: none) binds several nodes together."""
    counted = [value for value in domain if value >= 0]
    return len(set(counted)) < len(counted)
