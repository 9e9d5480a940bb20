"""What a run has shown, as text and as JSON."""

from __future__ import annotations

import json
import re
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.history import EXTENDER, SCHEDULER, Fault, History
from tests.chaos.invariants import Problem
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


TOLD_SECONDS = 60.0
"""How far back the story of a violation goes that is seen at once."""
GROUP_NAME = re.compile(r"\bg\d+\b")


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that did not hold, with what led to it."""

    at: float
    problem: Problem
    story: list[str]


@dataclass
class Run:
    """What came of a run."""

    minor: str
    seed: int
    history: History = field(default_factory=History)
    measures: Measures = field(default_factory=Measures)
    violations: list[Violation] = field(default_factory=list)
    notes: Counter[str] = field(default_factory=Counter)
    cases: int = 0
    rounds: int = 0
    began: float = 0.0
    seconds: float = 0.0
    gaps: int = 0


class Violations:
    """Keeps those of a run, each once. ``say`` is told of them, a line at a time."""

    def __init__(self, run: Run, say: Callable[[str], None]) -> None:
        self._run = run
        self._say = say
        self._found: set[tuple[str, str]] = set()

    def add(self, problem: Problem, since: float | None = None) -> None:
        """Keep a violation with what led to it, from ``since`` on, and say so; once only."""
        key = (problem.invariant, problem.subject)
        if key in self._found:
            return
        self._found.add(key)
        now = time.time()
        self._run.history.tell(now, f"VIOLATION {problem.invariant}: {problem.text}")
        story = story_of(self._run.history, problem, since or now - TOLD_SECONDS)
        self._run.violations.append(Violation(now, problem, story))
        self._say(f"VIOLATION {problem.invariant}: {problem.text}")


def story_of(history: History, problem: Problem, since: float) -> list[str]:
    """What has happened since, as far as it is about the subject or a fault."""
    names = {problem.subject.rpartition("/")[2], *GROUP_NAME.findall(problem.text)}
    related = [
        (at, text)
        for at, text in sorted(history.story)
        if at >= since
        and (
            any(_names(text, name) for name in names)
            or text.startswith(("FAULT", "fault over", "REST", "VIOLATION"))
        )
    ]
    began = history.story[0][0] if history.story else since
    return [f"{at - began:8.2f} s  {text}" for at, text in related]


def _names(text: str, name: str) -> bool:
    """Whether a line is about a group, not about one whose name only begins alike."""
    at = text.find(name)
    while at >= 0:
        after = text[at + len(name) : at + len(name) + 1]
        if not after.isdigit() and not text[at - 1 : at].isalnum():
            return True
        at = text.find(name, at + 1)
    return False


Report = dict[str, Any]
_COLUMNS = ("count", "hits", "verb_p50", "verb_p90", "placed_p50", "placed_p90")


def report_of(run: Run, version: str) -> Report:
    """Everything worth keeping of a run."""
    history, measures = run.history, run.measures
    by = Counter(each.by for each in history.evictions)
    return {
        "version": version,
        "seed": run.seed,
        "seconds": round(run.seconds),
        "cases": run.cases,
        "rounds": run.rounds,
        "groups": history.arrived,
        "gangs_placed": len(history.placed),
        "evictions": {
            "extender": by[EXTENDER],
            "through the Eviction API": sum(
                each.asked for each in history.evictions if each.by == EXTENDER
            ),
            "kube-scheduler": by[SCHEDULER],
        },
        "faults": fault_rows(history, measures),
        "in_order_after": {
            "p50": percentile(measures.settled, 0.5),
            "p90": percentile(measures.settled, 0.9),
            "max": percentile(measures.settled, 1.0),
        },
        "waited_for": {
            name: round(seconds)
            for name, seconds in sorted(measures.waited_for.items(), key=lambda item: -item[1])
        },
        "resources": resources(measures.samples),
        "violations": [
            {
                "invariant": each.problem.invariant,
                "subject": each.problem.subject,
                "text": each.problem.text,
                "story": each.story,
            }
            for each in run.violations
        ],
        "notes": dict(run.notes),
        "watch_gaps": run.gaps,
    }


def text_of(report: Report) -> str:
    """The report for people."""
    lines = []
    for number, each in enumerate(report["violations"], 1):
        lines += ["", f"violation {number}: {each['invariant']}: {each['text']}", *each["story"]]
    lines += ["", *_table(report["faults"]), ""]
    evictions = report["evictions"]
    lines.append(
        f"Kubernetes {report['version']}, seed {report['seed']}: {report['seconds']} s, "
        f"{report['cases']} cases, {report['rounds']} rounds, {report['groups']} groups arrived, "
        f"{report['gangs_placed']} times a gang got its quorum, evictions: "
        f"{evictions['extender']} by the extender, {evictions['through the Eviction API']} of them "
        f"through the Eviction API, {evictions['kube-scheduler']} by kube-scheduler"
    )
    order = report["in_order_after"]
    lines.append(
        "in order after the faults' end: "
        f"p50 {order['p50']} s, p90 {order['p90']} s, max {order['max']} s"
    )
    waited = ", ".join(f"{name} {seconds} s" for name, seconds in report["waited_for"].items())
    if waited:
        lines.append(f"not in order until then, all rests together: {waited}")
    if report["resources"]:
        lines.append(_resources(report["resources"]))
    lines += [f"note: {count} {what}" for what, count in report["notes"].items() if count]
    found = Counter(each["invariant"] for each in report["violations"])
    told = ", ".join(f"{count} {name}" for name, count in found.most_common())
    total = report["faults"][-1]["count"]
    lines.append(
        f"{total} faults, {len(report['violations'])} violations" + (f": {told}" * bool(told))
    )
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> list[str]:
    """The faults, as a Markdown table; times are seconds from a fault's end."""
    lines = [
        "| fault | count | hits | good verb p50 | p90 | gang placed p50 | p90 |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = ["-" if row[name] is None else str(row[name]) for name in _COLUMNS]
        lines.append(f"| {row['fault']} | {' | '.join(cells)} |")
    return lines


def _resources(found: dict[str, Any]) -> str:
    rss, fds, life = found["rss_mib"], found["fds"], found["longest_life"]
    return (
        f"extender, {found['processes']} processes: RSS {rss['start']} MiB at the start, "
        f"{rss['max']} at most, {rss['end']} at the end; file descriptors {fds['start']}, "
        f"{fds['max']}, {fds['end']}; the longest-lived one: {life['seconds']} s, "
        f"{life['rss_mib'][0]} to {life['rss_mib'][1]} MiB, {life['fds'][0]} to {life['fds'][1]} "
        "descriptors"
    )
