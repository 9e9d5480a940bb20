"""Check a Solution against its Problem, sharing no code with any solver.

Whatever rests on something other than the project's own proofs passes through here before it
counts (HiGHS, kinds taken together), and so does every answer of every test. The planner tries
the seats on kube-scheduler's predicates besides (gang/plan/trial.py). The check is linear in what
the solution names; it does not judge whether a cheaper solution exists.
"""

from __future__ import annotations

from extender.model.texts import counted
from extender.search.problem.types import Problem, Solution


def verify(problem: Problem, solution: Solution) -> tuple[str, ...]:
    """What is wrong with the solution, in words; empty when it holds."""
    wrong: list[str] = []
    if list(solution.chosen) != sorted(set(solution.chosen)):
        wrong.append("chosen is not ascending without repeats")
    if any(not 0 <= u < len(problem.units) for u in solution.chosen):
        return (*wrong, "chosen names a unit that is not there")
    seated: dict[int, dict[int, int]] = {}
    for cls, node, members in solution.seats:
        if not (0 <= cls < len(problem.classes) and 0 <= node < len(problem.nodes)):
            return (*wrong, f"seat names class {cls} or node {node}, which is not there")
        if members < 1 or cls in seated.get(node, {}):
            wrong.append(
                f"class {cls} on node {node}: {counted(members, 'member')}, or named twice"
            )
        seated.setdefault(node, {})[cls] = members
    if list(solution.seats) != sorted(solution.seats):
        wrong.append("seats are not sorted by class, then node")
    wrong += _counts(problem, seated)
    wrong += _room(problem, solution, seated)
    wrong += _rules(problem, solution, seated)
    wrong += _money(problem, solution, seated)
    return tuple(wrong)


def _counts(problem: Problem, seated: dict[int, dict[int, int]]) -> list[str]:
    wrong: list[str] = []
    total = 0
    for cls, rule in enumerate(problem.classes):
        members = sum(by_class.get(cls, 0) for by_class in seated.values())
        total += members
        if not rule.least <= members <= rule.count:
            seats = counted(members, "seat")
            wrong.append(f"{rule.name}: {seats}, not within {rule.least}..{rule.count}")
    if total < problem.need:
        wrong.append(f"{counted(total, 'seat')}, {problem.need} needed")
    return wrong


def _room(problem: Problem, solution: Solution, seated: dict[int, dict[int, int]]) -> list[str]:
    wrong: list[str] = []
    released: dict[int, list[int]] = {}
    for unit in solution.chosen:
        for node, amounts in problem.units[unit].releases:
            if node in seated:
                have = released.setdefault(node, [0] * len(problem.resources))
                for r, amount in enumerate(amounts):
                    have[r] += amount
    for node, by_class in seated.items():
        for r, resource in enumerate(problem.resources):
            asked = sum(problem.classes[c].request[r] * k for c, k in by_class.items())
            room = problem.free[r][node] + released.get(node, [0] * len(problem.resources))[r]
            if asked > 0 and asked > room:
                wrong.append(f"{problem.nodes[node]}: {asked} of {resource} asked, room for {room}")
    return wrong


def _rules(problem: Problem, solution: Solution, seated: dict[int, dict[int, int]]) -> list[str]:
    wrong: list[str] = []
    gone = set(solution.chosen)
    for node, by_class in seated.items():
        wrong += [
            f"{problem.classes[cls].name} may not use {problem.nodes[node]}"
            for cls in by_class
            if not problem.classes[cls].allowed[node]
        ]
    wrong += [
        f"{problem.classes[blocker.cls].name} is blocked on {problem.nodes[blocker.node]}"
        for blocker in problem.blockers
        if blocker.cls in seated.get(blocker.node, {}) and not gone.issuperset(blocker.units)
    ]
    for index, cap in enumerate(problem.caps):
        per_domain: dict[int, int] = {}
        for node, by_class in seated.items():
            if cap.domain[node] >= 0:
                inside = sum(k for c, k in by_class.items() if c in cap.classes)
                domain = cap.domain[node]
                per_domain[domain] = per_domain.get(domain, 0) + inside
        for domain, members in sorted(per_domain.items()):
            if members > cap.limit:
                wrong.append(f"caps[{index}]: {members} in domain {domain}, limit {cap.limit}")
    wrong += _skews(problem, seated)
    if problem.domain is not None and problem.domain_required and _scattered(problem, seated):
        wrong.append("the seats are not inside one topology domain")
    return wrong


def _skews(problem: Problem, seated: dict[int, dict[int, int]]) -> list[str]:
    wrong: list[str] = []
    for index, rule in enumerate(problem.spreads):
        inside = [0] * len(rule.most)
        held: set[int] = set()
        for node, by_class in seated.items():
            domain = rule.domain[node]
            if domain >= 0:
                inside[domain] += sum(k for c, k in by_class.items() if c in rule.counted)
                held |= {domain for c in by_class if c in rule.bound}
        low = [have + more for have, more in zip(rule.fewest, inside, strict=True)]
        least = 0 if rule.from_zero else min(low, default=0)
        for domain in sorted(held):
            skew = rule.most[domain] + inside[domain] - least
            if skew > rule.max_skew:
                wrong.append(f"spreads[{index}]: skew {skew} in domain {domain}")
    return wrong


def _money(problem: Problem, solution: Solution, seated: dict[int, dict[int, int]]) -> list[str]:
    wrong: list[str] = []
    cost = [0] * len(problem.levels)
    gone: dict[int, int] = {}
    budget_use: dict[int, int] = {}
    for index in solution.chosen:
        unit = problem.units[index]
        cost = [have + more for have, more in zip(cost, unit.cost, strict=True)]
        gone[unit.gang] = gone.get(unit.gang, 0) + 1
        for budget, pods in unit.budgets:
            budget_use[budget] = budget_use.get(budget, 0) + pods
    for index, gang in enumerate(problem.gangs):
        if gone.get(index, 0) > gang.surplus:
            cost = [have + more for have, more in zip(cost, gang.break_cost, strict=True)]
    for index, rule in enumerate(problem.budgets):
        excess = budget_use.get(index, 0) - rule.allowed
        if excess > 0 and rule.hard:
            wrong.append(f"budget {rule.name} is exceeded by {excess}")
        elif excess > 0:
            cost[rule.level] += excess
    if problem.domain is not None and not problem.domain_required and _scattered(problem, seated):
        cost[problem.domain_level] += 1
    if tuple(cost) != solution.cost:
        wrong.append(f"cost is stated as {solution.cost}, it is {tuple(cost)}")
    if solution.bound > solution.cost:
        wrong.append(f"bound {solution.bound} lies above the cost {solution.cost}")
    if solution.optimal != (solution.bound == solution.cost):
        wrong.append("optimal must be said exactly when the bound equals the cost")
    return wrong


def _scattered(problem: Problem, seated: dict[int, dict[int, int]]) -> bool:
    if problem.domain is None or not seated:
        return False
    domains = {problem.domain[node] for node in seated}
    return len(domains) > 1 or -1 in domains
