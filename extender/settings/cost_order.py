"""Orders of the cost levels: what a plan spares first. Names and rules only.

The costs themselves are counted in extender.gang.plan.cost_levels; the search knows
neither names nor meanings, only that a level further left weighs more than
everything right of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import StrEnum


class CostLevel(StrEnum):
    """A level as orders name it."""

    PDB_VIOLATIONS = "pdb-violations"
    BY_PRIORITY = "by-priority"
    WORK_BY_PRIORITY = "work-by-priority"
    GANGS = "gangs"
    PODS = "pods"
    TOPOLOGY = "topology"
    GRACE = "grace"
    WORK = "work"
    RESERVATIONS = "reservations"
    WAITS = "waits"
    AGE = "age"


LEVELS: Mapping[str, str] = {
    CostLevel.PDB_VIOLATIONS: "pods evicted beyond what their PodDisruptionBudgets allow",
    CostLevel.BY_PRIORITY: "per priority from the highest: gangs broken, then pods evicted",
    CostLevel.WORK_BY_PRIORITY: "per priority from the highest: work lost in GPU-seconds, "
    "then gangs broken, then pods evicted",
    CostLevel.GANGS: "gangs broken, whatever their priority",
    CostLevel.PODS: "pods evicted, whatever their priority",
    CostLevel.TOPOLOGY: "1 when the seats leave the topology domain the gang would like to share",
    CostLevel.GRACE: "pods that take longer to end than plan.patienceSeconds or the owner waits",
    CostLevel.WORK: "work lost in GPU-seconds, whatever the priority",
    CostLevel.RESERVATIONS: "plans of less urgent gangs that lose their seats",
    CostLevel.WAITS: "terminating pods that have to be waited for",
    CostLevel.AGE: "seconds the evicted pods have run: later starts are evicted first",
}


def _levels(*names: str) -> tuple[CostLevel, ...]:
    return tuple(map(CostLevel, names))


TAIL = _levels("topology", "reservations", "waits", "age", "grace")
"""Always counted; put at the end where an order does not name them. Grace periods come last: who
makes a pod chooses one, and an hour would make another of the same priority go instead."""

ORDERS: Mapping[str, tuple[CostLevel, ...]] = {
    # A high priority is never spared for a lower one. At each priority the least work is lost, and
    # of plans that lose equally much those that break fewest gangs and evict fewest pods are left.
    "default": _levels("pdb-violations", "work-by-priority", "topology"),
    # For clusters where a broken gang costs more than many pods, however long they have run. A wish
    # for one topology domain comes before the work lost: that hardly ever ties.
    "gangs-by-priority": _levels("pdb-violations", "by-priority", "topology", "work"),
    # For clusters where every eviction costs alike. Of equally many pods those are evicted that
    # gangs-by-priority takes, so a high priority is spared where that costs no further pod.
    "fewest-pods": _levels("pdb-violations", "pods", "by-priority", "topology", "work"),
    # For clusters where a broken gang costs more than any number of pods of any priority.
    "fewest-gangs": _levels("pdb-violations", "gangs", "by-priority", "topology", "work"),
}


def order_of(
    name: str, own: Mapping[str, tuple[str, ...]], *, impatient: bool = False
) -> tuple[CostLevel, ...]:
    """Return the named order with its tail; KeyError when there is none.

    ``impatient``: of a gang whose owner gives up after a while. A pod that takes longer to end goes
    for nothing, so that counts right after priorities, where the order does not name the level. Of
    "work-by-priority" it counts at each priority (extender.gang.plan.cost_levels).
    ValueError when one of ``own`` names an unknown level, which ``problems_of`` says beforehand.
    """
    levels = _levels(*own[name]) if name in own else ORDERS[name]
    if impatient and CostLevel.GRACE not in levels:
        last = levels[-1:] == (CostLevel.WORK,)
        at = len(levels) - last
        levels = (*levels[:at], CostLevel.GRACE, *levels[at:])
    return (*levels, *(level for level in TAIL if level not in levels))


def problems_of(name: str, own: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return what is wrong with the chosen order and with the configured ones."""
    found: list[str] = []
    for mine, levels in own.items():
        if mine in ORDERS:
            found.append(f"plan.costOrders.{mine} has the name of a built-in order")
        unknown = [level for level in levels if level not in LEVELS]
        if unknown:
            found.append(
                f"plan.costOrders.{mine} names unknown levels {', '.join(unknown)} "
                f"(known: {', '.join(LEVELS)})"
            )
        if len(set(levels)) < len(levels):
            found.append(f"plan.costOrders.{mine} names a level twice")
    if name not in own and name not in ORDERS:
        known = ", ".join((*ORDERS, *own))
        found.append(f"plan.costOrder {name!r} does not exist (known: {known})")
    return found


def spares_by_priority(levels: tuple[CostLevel, ...]) -> bool:
    """Whether nothing but budgets weighs more than the victims' priorities.

    Only then may the search leave out everybody above the least priority at
    which enough room is sure (extender.gang.plan.priority_cutoff).
    """
    others = (level for level in levels if level is not CostLevel.PDB_VIOLATIONS)
    return next(others, None) in (
        CostLevel.BY_PRIORITY,
        CostLevel.WORK_BY_PRIORITY,
    )


HOUR = 3600
MOST_DIGITS = 4
"""Of a GPU-hour: enough to tell a second more from a second less."""


def cost_words(level: str, value: int, beside: int) -> str:
    """Return what a plan costs at a level, as a person reads it: work in GPU-hours.

    ``beside``: the value that it is read beside, a bound or that of another plan. Of two that
    differ so many digits are said that they differ too.
    """
    if level.partition("@")[0] != CostLevel.WORK:
        return str(value)
    for digits in range(1, MOST_DIGITS):
        if value == beside or work_words(value, digits) != work_words(beside, digits):
            return work_words(value, digits)
    return work_words(value, MOST_DIGITS)


def work_words(seconds: int, digits: int = 1) -> str:
    """Return GPU-seconds as a person reads them."""
    if seconds < HOUR // 10:
        return f"{seconds} GPU-seconds"
    return f"{Decimal(seconds) / HOUR:,.{digits}f} GPU-hours"
