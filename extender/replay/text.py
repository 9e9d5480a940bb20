"""What a replay found, as a table of text."""

from __future__ import annotations

from collections.abc import Callable

from extender.model.texts import counted
from extender.replay.figures import PolicyFigures, Replayed
from extender.replay.play import POD_BY_POD


def heading(found: Replayed) -> str:
    """Return what was replayed, in two sentences."""
    settings = found.settings
    saves = (
        f"a checkpoint every {settings.checkpoint:g} s" if settings.checkpoint else "no checkpoints"
    )
    nodes = f"{counted(settings.nodes, 'node')} of {counted(settings.gpus, 'GPU')}"
    return (
        f"{found.jobs:,} jobs ({found.gangs:,} of several members, {found.gpu_hours:,.0f} "
        f"GPU-hours in {found.days:.1f} days) on {nodes}. "
        f"Grace period {settings.grace:g} s, {saves}, {settings.restart:g} s for a restart."
    )


def rows(found: Replayed) -> list[tuple[str, ...]]:
    """Return a line for each figure, with a cell for each policy."""
    policies = found.policies
    priorities = list(policies[0].waits)

    def row(what: str, cell: Callable[[PolicyFigures], str]) -> tuple[str, ...]:
        return (what, *map(cell, policies))

    return [
        row("GPU-hours lost", lambda each: f"{each.lost:,.0f}"),
        row("GPU-hours of restarts", lambda each: f"{each.restarts:,.0f}"),
        row("GPU-hours idle in gangs that wait", lambda each: f"{each.idle:,.0f}"),
        row("together", lambda each: f"{each.wasted:,.0f}"),
        row("pods evicted", lambda each: f"{each.pods_evicted:,}"),
        row("jobs evicted", lambda each: f"{each.jobs_evicted:,}"),
        row("gangs evicted", lambda each: f"{each.gangs_evicted:,}"),
        row("gangs evicted in part", lambda each: f"{each.gangs_in_part:,}"),
        row("pods evicted in vain", lambda each: f"{each.evicted_in_vain:,}"),
        row("jobs that never ended", lambda each: f"{each.unfinished:,}"),
        row("plans proved to be the least", _proved),
        *(
            row(
                f"wait at priority {priority}, p50 / p90 / p99",
                lambda each, priority=priority: " / ".join(  # type: ignore[misc]
                    duration(seconds) for seconds in each.waits.get(priority, ())
                ),
            )
            for priority in priorities
        ),
        *(
            row(
                f"mean delay at priority {priority}",
                lambda each, priority=priority: duration(each.delay.get(priority, 0.0)),  # type: ignore[misc]
            )
            for priority in priorities
        ),
        row("GPUs that made progress that counted", lambda each: f"{each.utilisation:.1%}"),
        row(
            "decision, p50 / p99 / longest",
            lambda each: " / ".join(f"{ms:.1f} ms" for ms in each.decision_ms),
        ),
    ]


def _proved(each: PolicyFigures) -> str:
    retold = each.policy == POD_BY_POD or each.policy.startswith("workload-aware")
    return "-" if retold else f"{each.proved:,} of {each.plans:,}"


def duration(seconds: float) -> str:
    """Return a time, short."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
