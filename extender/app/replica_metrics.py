"""Metrics of the replica that acts: bindings, limits, and what strangers cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from extender.app.replica import Replica
from extender.server.metrics import Metrics


def expose_bindings(metrics: Metrics, replica: Replica) -> None:
    """Register them; read at each scrape from the coordinator of that moment."""
    metrics.source(
        "binds_held",
        "Members whose binding is held until the others of their plan have arrived.",
        lambda: {"all": float(replica.coordinator.bindings.barrier.count)},
        label="of",
    )
    metrics.source(
        "bind_barriers",
        "Bind barriers that were opened, or that failed before any member was bound.",
        lambda: dict(replica.coordinator.bindings.barriers),
        label="result",
        counter=True,
    )
    metrics.source(
        "bindings",
        "Bindings asked of the API server, by how they ended.",
        lambda: dict(replica.coordinator.bindings.ended_as),
        label="result",
        counter=True,
    )
    metrics.source(
        "gangs_bound_in_part",
        "Gangs of which some members were bound and the rest could not be, and members of them "
        "that were deleted again.",
        lambda: dict(replica.coordinator.partly_bound.counted),
        label="what",
        counter=True,
    )


MOST_TOLD = 50
"""Namespaces that have a metric of their own: those with the highest values."""


def expose_limits(metrics: Metrics, replica: Replica) -> None:
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


def expose_reports(metrics: Metrics, replica: Replica) -> None:
    """Show them, of whatever coordinator acts at the moment of a scrape."""
    metrics.source(
        "records_aside",
        "ConfigMaps that look like plan records and are kept aside: unreadable, or written by "
        "others.",
        lambda: {"all": float(len(replica.coordinator.records.aside))},
        label="of",
    )
    metrics.source(
        "warnings",
        "Warning events sent to owners, by reason.",
        lambda: dict(replica.coordinator.notices.warnings.told),
        label="reason",
        counter=True,
    )
    metrics.source(
        "warnings_withheld",
        "Warning events not sent, because the object had one within the minute.",
        lambda: dict(replica.coordinator.notices.warnings.withheld),
        label="reason",
        counter=True,
    )
    metrics.source(
        "decisions_forgotten",
        "Decisions that made room for later ones in what the debug API shows.",
        lambda: dict(replica.coordinator.decisions.forgotten),
        label="kind",
        counter=True,
    )
