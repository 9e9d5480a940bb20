"""Orders of the cost levels: what a plan spares first. Names and rules only.

The costs themselves are counted in extender.gang.plan.cost_levels; the search knows
neither names nor meanings, only that a level further left weighs more than
everything right of it.
"""

from __future__ import annotations

from collections.abc import Mapping

LEVELS = {
    "pdb-violations": "pods evicted beyond what their PodDisruptionBudgets allow",
    "by-priority": "per priority from the highest: gangs broken, then pods evicted",
    "gangs": "gangs broken, whatever their priority",
    "pods": "pods evicted, whatever their priority",
    "gpus": "extended resources (GPUs and the like) that the evicted pods ask for",
    "topology": "1 when the seats leave the topology domain the gang would like to share",
    "grace": "pods that take longer than plan.patienceSeconds to end",
    "work": "share of a node times seconds since start or last checkpoint",
    "reservations": "plans of less urgent gangs that lose their seats",
    "waits": "terminating pods whose end has to be waited for",
    "age": "seconds the evicted pods have run: what started later goes first",
}
TAIL = ("topology", "grace", "reservations", "waits", "age")
"""Always counted; put at the end where an order does not name them."""

ORDERS: Mapping[str, tuple[str, ...]] = {
    # kube-scheduler's own idea first: a high priority is never spared for a lower one.
    # A wish for one topology domain evicts no further pod and breaks no further gang. It
    # comes before the work lost, which hardly ever ties: after it, it would never count.
    # So does a long grace period, which keeps the gang waiting and says nothing of priority.
    "default": ("pdb-violations", "by-priority", "topology", "grace", "work"),
    # For clusters where every eviction costs alike, whoever it hits. Of equally many pods
    # those go that the default order takes, so a high priority is spared where that is free.
    "fewest-pods": ("pdb-violations", "pods", "by-priority", "topology", "grace", "work"),
    # For clusters where a broken training job costs more than many small pods.
    "fewest-gangs": ("pdb-violations", "gangs", "by-priority", "topology", "grace", "work"),
    # For clusters billed by the accelerator.
    "fewest-gpus": ("pdb-violations", "gpus", "by-priority", "topology", "grace", "work"),
    # For long jobs that checkpoint and say so.
    "least-work": ("pdb-violations", "work", "by-priority"),
}


def order_of(name: str, own: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return the named order with its tail; KeyError when there is none."""
    levels = own[name] if name in own else ORDERS[name]
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


def spares_by_priority(levels: tuple[str, ...]) -> bool:
    """Whether nothing but budgets weighs more than the victims' priorities.

    Only then may the search leave out everybody above the least priority at
    which enough room is sure (extender.gang.plan.priority_cutoff).
    """
    return next((level for level in levels if level != "pdb-violations"), "") == "by-priority"
