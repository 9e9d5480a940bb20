"""What a replay found, as figures that can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from msgspec import Struct

from extender.replay.play import Played, ReplaySettings
from extender.replay.trace import Job

HOUR = 3600.0
SHARES = (0.5, 0.9, 0.99)
NOTES = (
    "Jobs ask for GPUs alone: CPU, memory, affinity, disruption budgets and devices are left out.",
    "pod-by-pod is kube-scheduler's DefaultPreemption. workload-aware is its own gang preemption, "
    "retold from Kubernetes 1.37.0 and 1.38.0-beta.0; where that chooses among equals at random, "
    "the first one is taken.",
    "Lost: progress that evictions undid. Restarts: time in which an evicted job runs again and "
    "makes no progress yet. Idle: GPUs of members whose other members wait.",
)


class PolicyFigures(Struct, frozen=True, kw_only=True):
    """One policy's. GPU-hours and seconds."""

    policy: str
    lost: float
    restarts: float
    idle: float
    pods_evicted: int
    jobs_evicted: int
    gangs_evicted: int
    gangs_in_part: int
    """Gangs that lost some of their pods and kept the others."""
    evicted_in_vain: int
    unfinished: int
    plans: int
    proved: int
    waits: Mapping[str, tuple[float, ...]]
    """Priority -> p50, p90 and p99 of the seconds until a job first runs."""
    delay: Mapping[str, float]
    """Priority -> mean seconds by which a job ends later than if it had run at once."""
    utilisation: float
    """Progress that counted by all GPU-hours until the last job ended, 0 to 1."""
    kept_by_day: tuple[float, ...]
    lost_by_day: tuple[float, ...]
    decision_ms: tuple[float, ...]
    """CPU time of decisions that may evict: p50, p99 and the longest."""

    @property
    def wasted(self) -> float:
        """All GPU-hours that preemption cost."""
        return self.lost + self.restarts + self.idle


class Replayed(Struct, frozen=True, kw_only=True):
    """All of a replay."""

    trace: str
    jobs: int
    gangs: int
    gpu_hours: float
    days: float
    settings: ReplaySettings
    priorities: Mapping[str, float]
    policies: tuple[PolicyFigures, ...]
    notes: tuple[str, ...] = NOTES


def figures(played: Played, settings: ReplaySettings) -> PolicyFigures:
    """Return one policy's figures."""
    capacity = settings.nodes * settings.gpus * played.until
    days = 1 + max(played.by_day | played.lost_by_day, default=0)
    times = [1000 * seconds for seconds in played.seconds]
    return PolicyFigures(
        policy=played.policy,
        lost=played.lost / HOUR,
        restarts=played.restarts / HOUR,
        idle=played.idle / HOUR,
        pods_evicted=played.pods,
        jobs_evicted=played.jobs,
        gangs_evicted=played.gangs,
        gangs_in_part=played.in_part,
        evicted_in_vain=played.in_vain,
        unfinished=played.unfinished,
        plans=played.plans,
        proved=played.plans - played.bounded,
        waits={
            str(priority): tuple(quantile(found, share) for share in SHARES)
            for priority, found in sorted(played.waits.items(), reverse=True)
        },
        delay={
            str(priority): sum(found) / len(found)
            for priority, found in sorted(played.delays.items(), reverse=True)
        },
        utilisation=played.kept / capacity if capacity else 0.0,
        kept_by_day=tuple(played.by_day.get(day, 0.0) / HOUR for day in range(days)),
        lost_by_day=tuple(played.lost_by_day.get(day, 0.0) / HOUR for day in range(days)),
        decision_ms=(quantile(times, 0.5), quantile(times, 0.99), max(times, default=0.0)),
    )


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that this share of them does not exceed, 0 of none."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)] if values else 0.0


def nodes_for(jobs: Sequence[Job], gpus: int, load: float) -> int:
    """Return how many nodes the jobs' work fills to ``load`` (0 to 1) from the first submission to
    the last; as many at least as the largest job needs."""
    span = jobs[-1].submitted - jobs[0].submitted
    work = sum(job.gpu_seconds for job in jobs)
    wanted = work / (span * load * gpus) if span > 0 else 0.0
    return max(ceil(wanted), max(job.members for job in jobs))
