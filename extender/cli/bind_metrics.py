"""Metrics of the bind verb: what is held, how barriers ended, and how bindings did."""

from __future__ import annotations

from extender.cli.replica import Replica
from extender.server.metrics import Metrics


def expose(metrics: Metrics, replica: Replica) -> None:
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
