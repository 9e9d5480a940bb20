"""Metrics of what strangers cause: records kept aside, owners warned, decisions forgotten."""

from __future__ import annotations

from extender.cli.replica import Replica
from extender.server.metrics import Metrics


def expose(metrics: Metrics, replica: Replica) -> None:
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
