"""The disruption budgets that candidates count in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.fit.disruption_budgets import takes
from extender.fit.selector_index import SelectorIndex
from extender.gang.incremental.planning_cache import PlanningCache
from extender.gang.plan.units import Units
from extender.model.objects import DisruptionBudget, Pod
from extender.model.snapshot import Snapshot
from extender.search.problem import Budget
from extender.search.problem.stop import Stop

Uses = tuple[tuple[int, int], ...]
"""Budget and pods in it."""


def budgets_of(
    gathered: Units,
    planning: PlanningCache,
    snapshot: Snapshot,
    asked: int,
    level: int,
    stop: Stop,
) -> tuple[tuple[Budget, ...], dict[str, Uses]]:
    """Return the budgets that some candidate counts in, and candidate -> (budget, pods) of them.

    ``asked``: the preemptor's priority. ``level``: the cost level at which what exceeds a budget
    counts. Raises OutOfTime when not even a first answer is waited for.
    """
    every, guards = snapshot.budgets, planning.guards
    protections = planning.preemptability.protections
    used = {}
    for candidate, _ in gathered.candidates if every else ():
        stop.check_first()
        use = budget_use(candidate.pods, guards, every)
        if use:
            used[candidate.uid] = use
    numbers = {b: at for at, b in enumerate(sorted({b for use in used.values() for b, _ in use}))}
    budgets = tuple(
        Budget(
            name=f"{budget.namespace}/{budget.name}",
            allowed=max(0, budget.allowed),
            hard=protections.budget_counts(budget.namespace, asked, snapshot),
            level=level,
        )
        for budget in (every[b] for b in numbers)
    )
    return budgets, {uid: tuple((numbers[b], pods) for b, pods in use) for uid, use in used.items()}


def budget_use(
    pods: Iterable[Pod], guards: SelectorIndex, budgets: Sequence[DisruptionBudget]
) -> Uses:
    """Return how many disruptions the pods' evictions take of each budget."""
    use: dict[int, int] = {}
    for pod in pods:
        for at in guards.matching(pod.namespace, pod.labels):
            if takes(pod, budgets[at]):
                use[at] = use.get(at, 0) + 1
    return tuple(sorted(use.items()))
