"""Decide a small problem by trying everything; shares no code with the solvers.

Every subset of the units, every topology domain, and for each the question
whether members can be laid on the nodes, answered by depth-first enumeration
of how many members of each class each node takes.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

from extender.search.problem import Problem, Vector


def brute(problem: Problem) -> Vector | None:
    """The least cost vector, or None where no set of units makes room."""
    best: Vector | None = None
    for size in range(len(problem.units) + 1):
        for chosen in combinations(range(len(problem.units)), size):
            price = _price(problem, chosen)
            if price is None:
                continue
            for nodes, extra in _places(problem):
                total = tuple(p + e for p, e in zip(price, extra, strict=True))
                if (best is None or total < best) and fits(problem, chosen, nodes):
                    best = total
    return best


def minimal(problem: Problem, chosen: tuple[int, ...], cost: Vector) -> bool:
    """Whether no chosen unit can be put back without cost or loss of the seats."""
    for unit in chosen:
        rest = tuple(u for u in chosen if u != unit)
        price = _price(problem, rest)
        if price is None:
            continue
        for nodes, extra in _places(problem):
            total = tuple(p + e for p, e in zip(price, extra, strict=True))
            if total <= cost and fits(problem, rest, nodes):
                return False
    return True


def _price(problem: Problem, chosen: tuple[int, ...]) -> Vector | None:
    levels = range(len(problem.levels))
    total = [sum(problem.units[u].cost[level] for u in chosen) for level in levels]
    for g, gang in enumerate(problem.gangs):
        if sum(problem.units[u].gang == g for u in chosen) > gang.surplus:
            total = [total[level] + gang.break_cost[level] for level in levels]
    for b, budget in enumerate(problem.budgets):
        used = sum(dict(problem.units[u].budgets).get(b, 0) for u in chosen)
        over = max(0, used - budget.allowed)
        if over and budget.hard:
            return None
        if over:
            total[budget.level] += over
    return tuple(total)


def _places(problem: Problem) -> list[tuple[tuple[int, ...], Vector]]:
    every = tuple(range(len(problem.nodes)))
    nothing = (0,) * len(problem.levels)
    empty = problem.need == 0 and all(cls.least == 0 for cls in problem.classes)
    if problem.domain is None or empty:
        return [(every, nothing)]
    domain = problem.domain
    places = [
        (tuple(n for n in every if domain[n] == d), nothing) for d in sorted(set(domain)) if d >= 0
    ]
    if not problem.domain_required:
        extra = tuple(int(level == problem.domain_level) for level in range(len(problem.levels)))
        places.append((every, extra))
    return places


def fits(problem: Problem, chosen: tuple[int, ...], nodes: tuple[int, ...]) -> bool:
    """Whether the gang can be laid on these nodes once the chosen units are gone."""
    gone = set(chosen)
    room = {n: [column[n] for column in problem.free] for n in nodes}
    for u in chosen:
        for n, amounts in problem.units[u].releases:
            if n in room:
                room[n] = [have + more for have, more in zip(room[n], amounts, strict=True)]
    banned = {
        (blocker.cls, blocker.node)
        for blocker in problem.blockers
        if not gone.issuperset(blocker.units)
    }
    classes = range(len(problem.classes))
    slots = [(n, c) for n in nodes for c in classes]

    @cache
    def lay(
        at: int, left: tuple[int, ...], here: tuple[int, ...], used: tuple[tuple[int, int], ...]
    ) -> bool:
        """left: members of each class not laid yet; here: amounts asked on this node."""
        if at == len(slots):
            laid = [problem.classes[c].count - left[c] for c in classes]
            return (
                sum(laid) >= problem.need
                and all(laid[c] >= problem.classes[c].least for c in classes)
                and even(problem, dict(used))
            )
        n, c = slots[at]
        asked = here if c else (0,) * len(room[n])
        rule = problem.classes[c]
        for members in range(left[c] + 1):
            total = tuple(a + q * members for a, q in zip(asked, rule.request, strict=True))
            if members and (not rule.allowed[n] or (c, n) in banned):
                break
            if any(t > h and t > 0 for t, h in zip(total, room[n], strict=True)):
                break
            now = dict(used)
            over = False
            for k, cap in enumerate(problem.caps):
                if c in cap.classes and cap.domain[n] >= 0:
                    key = k * 1000 + cap.domain[n]
                    now[key] = now.get(key, 0) + members
                    over = over or now[key] > cap.limit
            if over:
                break
            for k, spread in enumerate(problem.spreads):
                if spread.domain[n] >= 0 and members:
                    for kind, group in enumerate((spread.counted, spread.bound)):
                        if c in group:
                            key = -1 - (k * 1000 + spread.domain[n]) * 2 - kind
                            now[key] = now.get(key, 0) + members
            rest = tuple(x - members if i == c else x for i, x in enumerate(left))
            if lay(at + 1, rest, total, tuple(sorted(now.items()))):
                return True
        return False

    return lay(0, tuple(cls.count for cls in problem.classes), (0,) * len(problem.resources), ())


def even(problem: Problem, used: dict[int, int]) -> bool:
    """Whether the members laid keep every spread rule; ``used`` as ``fits`` counts them."""
    for k, spread in enumerate(problem.spreads):
        domains = range(len(spread.most))
        counted = [used.get(-1 - (k * 1000 + d) * 2, 0) for d in domains]
        bound = [used.get(-2 - (k * 1000 + d) * 2, 0) for d in domains]
        least = min((spread.fewest[d] + counted[d] for d in domains), default=0)
        if spread.from_zero:
            least = 0
        for d in domains:
            if bound[d] and spread.most[d] + counted[d] - least > spread.max_skew:
                return False
    return True
