"""Metrics of observe mode: what we would have done, beside what was done."""

from __future__ import annotations

from extender.observe.file import LedgerFile
from extender.observe.observer import Observer
from extender.server.metrics import Metrics

WE, THEY = "extender", "scheduler"


def expose(metrics: Metrics, observer: Observer, file: LedgerFile) -> None:
    """Show them, since the start of the process."""
    metrics.source("mode", "What this process does.", lambda: {"observe": 1.0}, label="mode")
    _expose_gangs(metrics, observer)
    _expose_evictions(metrics, observer)
    metrics.source(
        "observe_file_failures",
        "Writes of observe.file that did not work.",
        lambda: {"all": float(file.failed)},
        label="of",
        counter=True,
    )


def _expose_gangs(metrics: Metrics, observer: Observer) -> None:
    total, cases = observer.ledger.total, observer.cases
    metrics.source(
        "observed_gangs",
        "Gangs that waited for their minimum, by what became of them.",
        lambda: {
            "begun": total.gangs,
            "whole": total.whole,
            "gone": total.gone,
            "planned": total.planned,
            "refused": total.refused,
            "in-part": total.in_part_gangs,
            "not-followed": cases.unseen,
        },
        label="outcome",
        counter=True,
    )
    metrics.source(
        "observed_gangs_waiting",
        "Gangs that wait for their minimum now.",
        lambda: {"all": float(len(cases.open))},
        label="of",
    )
    metrics.source(
        "observed_in_part_pod_seconds",
        "Seconds that members ran without their minimum, summed over members.",
        lambda: {"all": total.in_part_pod_seconds},
        label="of",
        counter=True,
    )
    metrics.source(
        "observed_seats_lost",
        "Places that would have been reserved and that other pods took.",
        lambda: {"all": float(total.seats_lost)},
        label="of",
        counter=True,
    )


def _expose_evictions(metrics: Metrics, observer: Observer) -> None:
    total = observer.ledger.total
    metrics.source(
        "observed_evictions",
        "Pods that were evicted by preemption (scheduler), or would have been (extender).",
        lambda: {WE: total.would_evict_pods, THEY: total.evicted_pods},
        label="by",
        counter=True,
    )
    metrics.source(
        "observed_lost_gpu_seconds",
        "Work lost with pods that schedulers evicted for gangs, or the extender would have.",
        lambda: {WE: total.would_lose, THEY: total.lost_for_gangs},
        label="by",
        counter=True,
    )
    metrics.source(
        "observed_gang_evictions",
        "Pods that schedulers evicted for gangs; in-vain: for gangs that never had their minimum.",
        lambda: {"all": total.evicted_for_gangs, "in-vain": total.evicted_in_vain},
        label="of",
        counter=True,
    )
    metrics.source(
        "observed_broken_gangs",
        "Gangs that lost their minimum to preemption, or would have; half: members were left.",
        lambda: {
            WE: total.would_break_gangs,
            THEY: total.broken_gangs,
            f"{THEY}-for-gangs": total.broken_for_gangs,
            f"{THEY}-half": total.half_broken_gangs,
        },
        label="by",
        counter=True,
    )
