"""What a replay found, as one HTML file: nothing is loaded, nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from extender.model.texts import counted
from extender.observe.charts import ceiling, number
from extender.observe.page import document, escape
from extender.replay.figures import Replayed
from extender.replay.text import heading, rows

WIDTH, HEIGHT = 960, 240
LEFT, TOP, BOTTOM = 56, 12, 30
TICKS = 4
COLOURS = ("#b35900", "#0550ae", "#1a7f37", "#8250df", "#cf222e", "#6e7781", "#9a6700")


def page(found: Replayed) -> str:
    """Return the report."""
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f'<td class="n">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in rows(found)
    )
    names = [each.policy for each in found.policies]
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    lost = _figure("GPU-hours lost", names, [each.lost_by_day for each in found.policies])
    kept = _figure(
        "GPU-hours of progress that counted", names, [each.kept_by_day for each in found.policies]
    )
    body = f"""<h1>Replay of {escape(found.trace)}</h1>
<p>{escape(heading(found))}</p>
<div class="wide" tabindex="0"><table><thead><tr><td></td>{head}</tr></thead>
<tbody>{lines}</tbody></table></div>
{lost}
{kept}
{"".join(f'<p class="dim">{escape(note)}</p>' for note in found.notes)}
"""
    return document(f"replay of {found.trace}", body)


def _figure(title: str, names: Sequence[str], series: Sequence[Sequence[float]]) -> str:
    caption = f"{title}, summed over days"
    drawn = _lines(caption, names, series)
    return f"<figure><figcaption>{escape(caption)}</figcaption>{drawn}</figure>"


def _lines(title: str, names: Sequence[str], series: Sequence[Sequence[float]]) -> str:
    """Draw running sums by day, one line a policy."""
    sums = [list(accumulate(values)) for values in series]
    most = ceiling(max((values[-1] for values in sums if values), default=0.0))
    days = max(1, max(map(len, sums), default=1))
    high, wide = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - 12
    told = "; ".join(
        f"{name} {number(values[-1] if values else 0.0)}"
        for name, values in zip(names, sums, strict=True)
    )
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 20 * len(names)}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(f"{title}: {told}")}</title>'
    ]
    for tick in range(TICKS + 1):
        y = TOP + high - high * tick / TICKS
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 12}" y1="{y:g}" y2="{y:g}"/>')
        parts.append(
            f'<text class="axis" x="{LEFT - 6}" y="{y + 4:g}">{number(most * tick / TICKS)}</text>'
        )
    for at, (name, values) in enumerate(zip(names, sums, strict=True)):
        colour = COLOURS[at % len(COLOURS)]
        points = " ".join(
            f"{LEFT + wide * day / days:.1f},{TOP + high - high * value / most:.1f}"
            for day, value in enumerate([0.0, *values])
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        y = HEIGHT + 20 * at
        parts.append(f'<rect x="{LEFT}" y="{y - 9}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 15}" y="{y}">{escape(name)}</text>')
    parts.append(
        f'<text class="day" x="{WIDTH / 2:g}" y="{HEIGHT - 12}">{counted(days, "day")}</text></svg>'
    )
    return "".join(parts)
