"""What a run has shown, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.chaos.history import EXTENDER, SCHEDULER
from tests.chaos.measuring import fault_rows, percentile, resources
from tests.chaos.outcome import Run

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
