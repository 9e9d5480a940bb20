"""Metrics of the watch cache, in either mode."""

from __future__ import annotations

from extender.cache.cache import Cache
from extender.server.metrics import Metrics

CACHE_METRICS = (
    ("cache_lists", "lists", "Full lists read.", True),
    ("cache_watches", "watches", "Watches opened.", True),
    ("cache_events", "events", "Watch events applied.", True),
    ("cache_errors", "errors", "Lists and watches that failed.", True),
    ("cache_decode_errors", "decodeErrors", "Objects and events that could not be read.", True),
    ("cache_silent_seconds", "silentSeconds", "How long a watch has been down.", False),
    ("cache_sync_seconds", "syncSeconds", "How long the last full read took.", False),
)


def expose(metrics: Metrics, cache: Cache) -> None:
    """Show them, by resource."""
    for name, field, documentation, counter in CACHE_METRICS:
        metrics.source(
            name,
            documentation,
            lambda field=field: {  # type: ignore[misc]
                entry["resource"]: float(entry[field]) for entry in cache.describe()
            },
            label="resource",
            counter=counter,
        )
    metrics.source(
        "cache_failures",
        "Failed API discoveries, and changes that a part of the program failed on (a defect).",
        lambda: {
            "discovery": float(cache.stats.discovery_errors),
            "subscriber": float(cache.stats.subscriber_errors),
        },
        label="what",
        counter=True,
    )
    metrics.source(
        "cache_outdated_events",
        "Watch events that were older than the cached object, and were ignored.",
        lambda: {"all": float(cache.stats.outdated_events)},
        label="of",
        counter=True,
    )
    metrics.source(
        "kubernetes_unfamiliar",
        "Versions and kinds of this API server that were not tested, or are not read.",
        lambda: dict.fromkeys(cache.stats.unfamiliar, 1.0),
        label="what",
    )
