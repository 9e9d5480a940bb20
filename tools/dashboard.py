"""Write the Grafana dashboard, or compare: ``python -m tools.dashboard [--check]``.

A dashboard that is edited in a browser and exported cannot be reviewed. Here a panel is a line; the
JSON that Grafana imports is kept in the chart.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from msgspec import Struct

FILE = Path(__file__).resolve().parent.parent / "charts/podgroup-extender/files/dashboard.json"

P = "podgroup_extender_"
SOURCE = {"type": "prometheus", "uid": "${source}"}
WIDTH, COLUMNS, HEIGHT = 24, 3, 8


class Panel(Struct, frozen=True):
    """One graph: a question, its queries with their legends, and the unit of the axis."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    about: str = ""
    kind: str = "timeseries"


def rate(metric: str, by: str, matcher: str = "") -> str:
    """A counter's growth a second, summed over replicas."""
    return f"sum by ({by}) (rate({P}{metric}{matcher}[$__rate_interval]))"


def quantile(q: float, metric: str, by: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', f'{by}, le')})"


ACTING = ("Does it act?", "Tenants", "Bind barrier and records")
"""Rows that stay empty in observe mode."""
OBSERVING = "What is observed"

ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        ACTING[0],
        (
            Panel(
                "Leaders",
                ((f"sum({P}leader)", "leaders"),),
                about="One. None: nothing is placed or evicted for gangs.",
                kind="stat",
            ),
            Panel(
                "Gangs: decisions",
                ((rate("gang_decisions_total", "outcome"), "{{outcome}}"),),
                "ops",
            ),
            Panel(
                "Open plans",
                ((f"sum by (state) ({P}preemptions)", "{{state}}"),),
                about="waiting: victims terminate. open: members may take their seats.",
            ),
            Panel("Seats held", ((f"sum({P}seats_held)", "seats"),)),
            Panel("Evictions", ((rate("evictions_total", "result"), "{{result}}"),), "ops"),
            Panel(
                "Gangs evicted or bound in part",
                (
                    (f"sum({P}broken_gangs)", "victim gangs evicted in part"),
                    (f"sum by (what) ({P}gangs_bound_in_part_total)", "bound in part: {{what}}"),
                ),
                about="Nought, always.",
            ),
        ),
    ),
    (
        OBSERVING,
        (
            Panel(
                "Observers",
                ((f'sum({P}mode{{mode="observe"}})', "observers"),),
                about="One, with config.mode observe. It makes none of what the rows "
                + ", ".join(f'"{title}"' for title in ACTING)
                + " ask for.",
                kind="stat",
            ),
            Panel(
                "Gangs that waited",
                ((rate("observed_gangs_total", "outcome"), "{{outcome}}"),),
                "ops",
            ),
            Panel(
                "Pods evicted",
                ((f"sum by (by) (increase({P}observed_evictions_total[1h]))", "{{by}}"),),
                about="In an hour. extender: what would have been; scheduler: what was.",
            ),
            Panel(
                "Gangs broken",
                ((f"sum by (by) (increase({P}observed_broken_gangs_total[1h]))", "{{by}}"),),
                about="In an hour. extender: what would have been; scheduler: what was.",
            ),
            Panel(
                "Gangs that wait now",
                ((f"sum({P}observed_gangs_waiting)", "gangs"),),
            ),
            Panel(
                "Members on nodes without their quorum",
                ((rate("observed_in_part_pod_seconds_total", "of"), "members"),),
                about="On the average.",
            ),
        ),
    ),
    (
        "What kube-scheduler sees",
        (
            Panel(
                "Calls",
                ((rate("requests_total", "verb, code"), "{{verb}} {{code}}"),),
                "reqps",
            ),
            Panel(
                "Time of a call, p50",
                ((quantile(0.5, "request_seconds", "verb"), "{{verb}}"),),
                "s",
            ),
            Panel(
                "Time of a call, p99",
                ((quantile(0.99, "request_seconds", "verb"), "{{verb}}"),),
                "s",
                "kube-scheduler gives up after httpTimeout, usually 5 s.",
            ),
            Panel(
                "Nodes offered and answered",
                ((rate("nodes_total", "verb, direction"), "{{verb}} {{direction}}"),),
                "ops",
            ),
            Panel("Not served", ((rate("refused_total", "reason"), "{{reason}}"),), "ops"),
            Panel(
                "Malformed",
                ((rate("bad_input_total", "verb, transport"), "{{verb}} {{transport}}"),),
                "ops",
            ),
        ),
    ),
    (
        ACTING[1],
        (
            Panel(
                "Planning time used lately",
                ((f"topk(10, sum by (namespace) ({P}planning_recent_seconds))", "{{namespace}}"),),
                "s",
            ),
            Panel(
                "Pods evicted for a namespace, last hour",
                (
                    (
                        f"topk(10, sum by (namespace) ({P}namespace_evictions_last_hour))",
                        "{{namespace}}",
                    ),
                ),
            ),
            Panel(
                "GPU-hours of work lost, a day",
                (
                    (
                        "topk(10, sum by (namespace) "
                        f"(increase({P}lost_gpu_seconds_total[1d]))) / 3600",
                        "{{namespace}}",
                    ),
                ),
                about="With evicted pods of a namespace.",
            ),
            Panel(
                "GPU-hours of work lost by priority, a day",
                (
                    (
                        f"sum by (priority) (increase({P}lost_gpu_seconds_total[1d])) / 3600",
                        "{{priority}}",
                    ),
                ),
                about="With evicted pods of a priority.",
            ),
            Panel(
                "Gangs left alone, limits met",
                (
                    (f"sum by (cause) ({P}suspended_gangs)", "suspended: {{cause}}"),
                    (rate("limits_met_total", "limit"), "{{limit}} a second"),
                ),
            ),
        ),
    ),
    (
        ACTING[2],
        (
            Panel("Binds held", ((f"sum({P}binds_held)", "members"),)),
            Panel(
                "Barriers and bindings",
                (
                    (rate("bind_barriers_total", "result"), "barrier {{result}}"),
                    (rate("bindings_total", "result"), "binding {{result}}"),
                ),
                "ops",
            ),
            Panel(
                "Records kept aside, warnings",
                (
                    (f"sum({P}records_aside)", "records aside"),
                    (rate("warnings_total", "reason"), "{{reason}} a second"),
                ),
            ),
        ),
    ),
    (
        "The process",
        (
            Panel(
                "Silence of watches",
                ((f"max by (resource) ({P}cache_silent_seconds)", "{{resource}}"),),
                "s",
                "Above cache.staleSeconds (10) gangs are refused.",
            ),
            Panel(
                "Watch events",
                (
                    (rate("cache_events_total", "resource"), "{{resource}}"),
                    (rate("cache_errors_total", "resource"), "{{resource}}: errors"),
                    (rate("cache_failures_total", "what"), "{{what}} failed"),
                ),
                "ops",
            ),
            Panel(
                "Writes that wait for the API server",
                ((f"sum by (urgency) ({P}api_writes_waiting)", "{{urgency}}"),),
            ),
            Panel(
                "Pauses of the collector, p99",
                ((quantile(0.99, "gc_pause_seconds", "generation"), "generation {{generation}}"),),
                "s",
            ),
            Panel(
                "Certificate ends in",
                ((f"min by (use) ({P}certificate_expiry_timestamp_seconds) - time()", "{{use}}"),),
                "s",
            ),
            Panel(
                "Search",
                ((f"max by (backend) ({P}search_backend_info)", "{{backend}}"),),
                about="compiled; anything else is many times slower.",
                kind="stat",
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The document that Grafana imports."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        number = len(panels) + 1
        grid = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        panels.append({"id": number, "type": "row", "title": title, "gridPos": grid, "panels": []})
        top += 1
        for place, panel in enumerate(row):
            line, column = divmod(place, COLUMNS)
            width = WIDTH // COLUMNS
            grid = {"h": HEIGHT, "w": width, "x": column * width, "y": top + line * HEIGHT}
            panels.append(_panel(panel, len(panels) + 1, grid))
        top += -(-len(row) // COLUMNS) * HEIGHT
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "title": "podgroup-extender",
        "uid": "podgroup-extender",
        "tags": ["kubernetes", "scheduling"],
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [source]},
        "panels": panels,
    }


def _panel(panel: Panel, number: int, grid: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.about,
        "gridPos": grid,
        "datasource": SOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": query, "legendFormat": legend}
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def main(arguments: list[str] | None = None) -> int:
    """Exit status 1 when ``--check`` finds a difference."""
    parser = argparse.ArgumentParser(prog="python -m tools.dashboard", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    text = json.dumps(dashboard(), indent=1) + "\n"
    if options.check:
        if FILE.read_text() == text:
            return 0
        print(f"{FILE.name} is not what tools/dashboard.py gives: run python -m tools.dashboard")
        return 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
