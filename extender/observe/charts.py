"""Bar charts as inline SVG: no script, nothing loaded from anywhere."""

from __future__ import annotations

from html import escape
from math import ceil, floor, log10

from extender.observe.weekly import DAYS, WE, Series

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 44
TICKS = 4


def chart(series: Series) -> str:
    """Return one plot; colours are the page's, by class."""
    most = ceiling(max((value for row in series.values for value in row), default=0.0))
    high, wide = HEIGHT - TOP - BOTTOM, WIDTH - LEFT - RIGHT
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(series.title)}">',
        f"<title>{escape(series.title)}: {escape(spoken(series))}</title>",
    ]
    for tick in range(TICKS + 1):
        y = TOP + high - high * tick / TICKS
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:g}" y2="{y:g}"/>')
        label = number(most * tick / TICKS)
        parts.append(f'<text class="axis" x="{LEFT - 6}" y="{y + 4:g}">{label}</text>')
    slot = wide / len(DAYS)
    bar = slot * 0.7 / len(series.names)
    for at, name in enumerate(DAYS):
        x = LEFT + slot * at
        middle, below = x + slot / 2, HEIGHT - BOTTOM + 16
        parts.append(f'<text class="day" x="{middle:g}" y="{below}">{name}</text>')
        for row, (who, values) in enumerate(zip(series.names, series.values, strict=True)):
            tall = high * values[at] / most
            left, top = x + slot * 0.15 + bar * row, TOP + high - tall
            parts.append(
                f'<rect class="{colour(who)}" x="{left:.1f}" y="{top:.1f}" width="{bar:.1f}" '
                f'height="{tall:.1f}"/>'
            )
    for row, name in enumerate(series.names):
        x, y = LEFT + row * 180, HEIGHT - 8
        key = f'<rect class="{colour(name)}" x="{x}" y="{y - 9}" width="10" height="10"/>'
        parts.append(key)
        parts.append(f'<text class="key" x="{x + 15}" y="{y}">{escape(name)}</text>')
    return "".join([*parts, "</svg>"])


def colour(name: str) -> str:
    """Return the class of a series: who is meant has one colour in all plots."""
    return "s1" if name == WE else "s0"


def bars(series: Series, width: int = 40) -> list[str]:
    """Return the same plot as lines of text."""
    most = max((value for row in series.values for value in row), default=0.0)
    longest = max(map(len, series.names))
    lines = []
    for at, name in enumerate(DAYS):
        for row, label in enumerate(series.names):
            value = series.values[row][at]
            drawn = "#" * (round(width * value / most) if most else 0)
            first = name if row == 0 else "   "
            lines.append(f"{first} {label:<{longest}} {number(value):>6} {drawn}".rstrip())
    return lines


def ceiling(most: float) -> float:
    """Return the top of an axis: 1, 2 or 5 times a power of ten, or four ticks of one."""
    if most <= TICKS:
        return float(TICKS) if most > 1 else 1.0
    power = 10.0 ** floor(log10(most))
    return next(power * step for step in (1, 2, 4, 5, 8, 10) if power * step >= most)


def number(value: float) -> str:
    """Return an amount, short."""
    if value >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value == ceil(value) else f"{value:.2g}"


def spoken(series: Series) -> str:
    """Return the numbers in words, for who cannot see the bars."""
    rows = (
        f"{name} {', '.join(number(value) for value in values)}"
        for name, values in zip(series.names, series.values, strict=True)
    )
    return f"{series.unit} by day, Monday first. " + "; ".join(rows)
