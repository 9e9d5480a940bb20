"""The weekly report as Markdown."""

from __future__ import annotations

import re

from extender.model.texts import counted, visible
from extender.observe.charts import bars
from extender.observe.weekly import NOTES, Weekly, clock, did, lasted, would

_MARKS = re.compile(r"([\\`*_\[\]<>|#])")


def markdown(week: Weekly) -> str:
    """Return the report."""
    parts = [
        f"# {week.title}",
        "",
        f"Observed until {clock(week.until)} UTC"
        + (f", from {clock(week.since)} UTC on" if week.since else "")
        + ". Nothing was done by the extender.",
        "",
        *(f"- {plain(text)}" for text in week.findings),
        "",
        "| | schedulers did | extender would have |",
        "|---|---:|---:|",
        *(f"| {plain(line.what)} | {line.scheduler} | {line.extender} |" for line in week.lines),
        "",
    ]
    for series in week.series:
        parts += [f"## {series.title} ({series.unit} by day)", "", "```text", *bars(series)]
        parts += ["```", ""]
    if week.gangs:
        parts += [
            "## Gangs",
            "",
            "| gang | priority | waited | ended | schedulers | extender |",
            "|---|---:|---:|---|---|---|",
        ]
        for gang in week.gangs:
            cells = (
                plain(gang.gang),
                str(gang.priority),
                lasted(gang, week.until),
                gang.outcome,
                plain(did(gang)),
                plain(would(gang)),
            )
            parts.append(f"| {' | '.join(cells)} |")
        parts.append("")
    if week.more:
        gangs = counted(week.more, "more gang", "is", "are")
        parts += [f"{gangs} counted above and not listed.", ""]
    return "\n".join([*parts, *(f"{note}\n" for note in NOTES)])


def plain(text: str) -> str:
    """Return a text that names what it names and formats nothing: tenants choose names."""
    return _MARKS.sub(r"\\\1", visible(" ".join(text.split()), "?"))
