"""What namespaces use of what they share, and who is left alone, as metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from extender.cli.replica import Replica
from extender.server.metrics import Metrics

MOST_TOLD = 50
"""Namespaces that have a metric of their own: those with the highest values."""


def expose(metrics: Metrics, replica: Replica) -> None:
    """Register them; read at each scrape from the coordinator of that moment."""
    metrics.source(
        "suspended_gangs",
        "Gangs that are suspended, by cause.",
        lambda: dict(
            Counter(
                held.cause.value for held in replica.coordinator.admission.suspensions.present()
            )
        ),
        label="cause",
    )
    metrics.source(
        "limits_met",
        "How often a gang was suspended, or waited for a limit.",
        lambda: dict(replica.coordinator.admission.counted),
        label="limit",
        counter=True,
    )
    metrics.source(
        "planning_recent_seconds",
        "Planning time that namespaces have used lately, fading with a half-life of a minute.",
        lambda: replica.coordinator.admission.most_planning(MOST_TOLD),
        label="namespace",
    )
    metrics.source(
        "namespace_evictions_last_hour",
        "Pods evicted within an hour for gangs of a namespace.",
        lambda: replica.coordinator.admission.most_evictions(MOST_TOLD),
        label="namespace",
    )
    metrics.source(
        "budgets_unread",
        "PodDisruptionBudgets of namespaces that have more than plan.budgetsPerNamespace, or list "
        "more than ten times as many values in their selectors: none of their pods is evicted.",
        lambda: _most(replica.coordinator.crowded_budgets),
        label="namespace",
    )


def _most(budgets: Mapping[str, int]) -> dict[str, float]:
    """Return the namespaces with most budgets, by name."""
    found = sorted(budgets.items(), key=lambda item: (-item[1], item[0]))
    return {name: float(number) for name, number in found[:MOST_TOLD]}
