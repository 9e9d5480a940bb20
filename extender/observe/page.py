"""The weekly report as one HTML file: nothing is loaded, nothing runs."""

from __future__ import annotations

import html

from extender.model.texts import counted, visible
from extender.observe.charts import chart
from extender.observe.weekly import NOTES, Weekly, clock, did, lasted, would

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --rule: #d0d7de; --paper: #fff;
  --s0: #b35900; --s1: #0550ae; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9198a1; --rule: #3d444d;
  --paper: #0d1117; --s0: #f0883e; --s1: #79c0ff; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--rule);
  vertical-align: top; overflow-wrap: anywhere; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { fill: var(--dim); font-size: 12px; }
svg .axis { text-anchor: end; } svg .day { text-anchor: middle; }
svg .grid { stroke: var(--rule); } .s0 { fill: var(--s0); } .s1 { fill: var(--s1); }
.wide { overflow-x: auto; } .dim { color: var(--dim); }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(week: Weekly) -> str:
    """Return the report."""
    since = f", from {clock(week.since)} UTC on" if week.since else ""
    lines = "".join(
        f'<tr><th scope="row">{escape(line.what)}</th><td class="n">{escape(line.scheduler)}</td>'
        f'<td class="n">{escape(line.extender)}</td></tr>'
        for line in week.lines
    )
    figures = "".join(
        f"<figure><figcaption>{escape(series.title)} ({escape(series.unit)} by day)</figcaption>"
        f"{chart(series)}</figure>"
        for series in week.series
    )
    body = f"""<h1>{escape(week.title)}</h1>
<p>Observed until {clock(week.until)} UTC{since}. Nothing was done by the extender.</p>
<ul>{"".join(f"<li>{escape(text)}</li>" for text in week.findings)}</ul>
<table>
<thead><tr><td></td><th scope="col">schedulers did</th><th scope="col">extender would have</th></tr>
</thead>
<tbody>{lines}</tbody>
</table>
{figures}
{_gangs(week)}
{"".join(f'<p class="dim">{escape(note)}</p>' for note in NOTES)}
"""
    return document(week.title, body)


def document(title: str, body: str) -> str:
    """Return a page of this title: nothing is loaded, nothing runs. ``body`` is markup."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>podgroup-extender: {escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
{body}</main>
</body>
</html>
"""


def _gangs(week: Weekly) -> str:
    gangs = counted(week.more, "more gang", "is", "are")
    more = f"<p>{gangs} counted above and not listed.</p>" if week.more else ""
    if not week.gangs:
        return more
    rows = "".join(
        f'<tr><th scope="row">{escape(gang.gang)}</th><td class="n">{gang.priority}</td>'
        f'<td class="n">{lasted(gang, week.until)}</td><td>{escape(gang.outcome)}</td>'
        f"<td>{escape(did(gang))}</td><td>{escape(would(gang))}</td></tr>"
        for gang in week.gangs
    )
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("gang", "priority", "waited", "ended", "schedulers", "extender")
    )
    return (
        f'<h2>Gangs</h2><div class="wide" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{more}"
    )


def escape(text: str) -> str:
    """Return a text that is none of the page's markup, and in which every character shows."""
    return html.escape(visible(text, "\N{REPLACEMENT CHARACTER}"))
