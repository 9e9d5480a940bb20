"""Measures a run: memory and file descriptors of the extender, and how soon it is well again."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.history import Fault, History
from tests.controlplane.client import Object

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """The extender's process at one moment."""

    at: float
    pid: int
    rss_mib: float
    fds: int


@dataclass
class Measures:
    """Everything measured, as it comes in."""

    samples: list[Sample] = field(default_factory=list)
    good_verbs: list[tuple[float, float]] = field(default_factory=list)
    """When a good answer was asked for, and when it was there; by the first."""
    settled: list[float] = field(default_factory=list)
    """Seconds from the end of the faults until everything was in order."""

    waited_for: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds of rests in which something was not in order yet, by what it was."""

    def sample(self, pid: int, at: float) -> None:
        """Read a process; one that has just died is no sample."""
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            fds = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        except OSError:
            return
        for line in status.splitlines():
            if line.startswith("VmRSS:"):
                self.samples.append(Sample(at, pid, int(line.split()[1]) / 1024, fds))

    def to_good_verb(self, fault: Fault) -> float | None:
        """Seconds from the end of a fault to the first good answer asked for after it."""
        index = bisect_left(self.good_verbs, (fault.ended, 0.0))
        return self.good_verbs[index][1] - fault.ended if index < len(self.good_verbs) else None


def to_placement(history: History, fault: Fault) -> float | None:
    """Seconds from the end of a fault to the next gang that has its quorum."""
    index = bisect_left(history.placed, (fault.ended, ""))
    return history.placed[index][0] - fault.ended if index < len(history.placed) else None


def percentile(values: list[float], share: float) -> float | None:
    """The nearest-rank percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)


def fault_rows(history: History, measures: Measures) -> list[Row]:
    """The table of faults: one row a kind, and one of all."""
    by_kind: dict[str, list[Fault]] = defaultdict(list)
    for fault in history.faults:
        if fault.ended:
            by_kind[fault.kind].append(fault)
    rows = [_row(kind, by_kind[kind], history, measures) for kind in sorted(by_kind)]
    return [*rows, _row("all", history.faults, history, measures)]


def _row(kind: str, faults: list[Fault], history: History, measures: Measures) -> Row:
    verbs = [s for each in faults if (s := measures.to_good_verb(each)) is not None]
    placements = [s for each in faults if (s := to_placement(history, each)) is not None]
    return {
        "fault": kind,
        "count": len(faults),
        "hits": sum(each.hits for each in faults),
        "verb_p50": percentile(verbs, 0.5),
        "verb_p90": percentile(verbs, 0.9),
        "placed_p50": percentile(placements, 0.5),
        "placed_p90": percentile(placements, 0.9),
    }


def resources(samples: list[Sample]) -> Row:
    """Memory and descriptors at the start, at most and at the end, and of the longest life."""
    if not samples:
        return {}
    lives: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        lives[sample.pid].append(sample)
    longest = max(lives.values(), key=lambda life: life[-1].at - life[0].at)
    first, last = samples[0], samples[-1]
    return {
        "processes": len(lives),
        "rss_mib": {
            "start": round(first.rss_mib, 1),
            "max": round(max(each.rss_mib for each in samples), 1),
            "end": round(last.rss_mib, 1),
        },
        "fds": {
            "start": first.fds,
            "max": max(each.fds for each in samples),
            "end": last.fds,
        },
        "longest_life": {
            "seconds": round(longest[-1].at - longest[0].at),
            "rss_mib": [round(longest[0].rss_mib, 1), round(longest[-1].rss_mib, 1)],
            "fds": [longest[0].fds, longest[-1].fds],
        },
    }


def probe(pod: Object, node: str) -> bytes:
    """A question about a pod of no gang that is there, and that no kube-scheduler looks after.

    Its answer is good whenever the extender is.
    """
    return json.dumps({"Pod": pod, "NodeNames": [node]}).encode()
