"""What of the cache's counters an operator can see."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

from extender.app import cache_metrics
from extender.cache.stats import CacheStats
from extender.server.metrics import Metrics

ELSEWHERE = {"watches", "discoveries"}
"""Told by resource; a clock of the discovery, read by the cache itself."""


def test_each_counter_of_the_cache_is_shown() -> None:
    stats = CacheStats(unfamiliar=("version 1.99",))
    counters = [each.name for each in fields(CacheStats) if isinstance(each.default, int)]
    shown = [name for name in counters if name not in ELSEWHERE]
    for number, name in enumerate(shown, start=11):
        setattr(stats, name, number)
    cache: Any = SimpleNamespace(stats=stats, describe=list)
    metrics = Metrics()
    cache_metrics.expose(metrics, cache)
    lines = metrics.render("")[0].decode().splitlines()
    metrics.close()
    values = {line.rpartition(" ")[2] for line in lines if line.startswith("podgroup_extender_")}
    assert len(shown) == 3
    assert {f"{number}.0" for number in range(11, 11 + len(shown))} <= values
    assert 'podgroup_extender_cache_failures_total{what="subscriber"} 12.0' in lines
    assert 'podgroup_extender_cache_failures_total{what="discovery"} 13.0' in lines
    assert 'podgroup_extender_cache_outdated_events_total{of="all"} 11.0' in lines
    assert 'podgroup_extender_kubernetes_unfamiliar{what="version 1.99"} 1.0' in lines
