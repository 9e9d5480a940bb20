"""What benchmarks share: figures, tables, plots, and the document they are written into."""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from extender.search.solver import BACKEND

DOCS = Path(__file__).resolve().parent.parent / "docs" / "benchmarks"
Answer = TypeVar("Answer")
Point = tuple[float, float]
COLOURS = ("#1f6f8b", "#c8553d", "#5b8c5a", "#8e5ba6", "#b8860b", "#555555")


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that ``share`` (0..1) of all values do not exceed."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def slope(points: Sequence[Point]) -> float:
    """Exponent b of y = a * x**b, by least squares on the logarithms; x and y above 0."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mx = sum(x for x, _ in logs) / len(logs)
    my = sum(y for _, y in logs) / len(logs)
    return sum((x - mx) * (y - my) for x, y in logs) / sum((x - mx) ** 2 for x, _ in logs)


def machine() -> str:
    """Processor, cores, interpreter and solver, for the head of a section."""
    model = platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass  # not Linux: the architecture has to do
    return f"{model}, {os.cpu_count()} cores, Python {sys.version.split()[0]}, search: {BACKEND}"


def memory(work: Callable[[], Answer]) -> tuple[Answer, float]:
    """The work's answer, and by how many MiB its peak rose above where it began (Linux)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    answer = work()
    return answer, max(0, _status("VmHWM") - before) / 1024


def _status(field: str) -> int:
    """A line of /proc/self/status in KiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; the first column is text, the others figures."""
    lines = [" | ".join(("", *head, "")).strip()]
    lines.append("|" + "|".join(" --- " if i == 0 else " ---: " for i in range(len(head))) + "|")
    lines += [" | ".join(("", *map(_cell, row), "")).strip() for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def write_section(name: str, text: str, page: Path | None = None) -> None:
    """Put ``text`` between the page's markers of this name; add them where there are none."""
    page = page or DOCS / "search.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    old = page.read_text() if page.exists() else ""
    start, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    block = f"{start}\n{text.strip()}\n{end}"
    if start in old:
        head, _, rest = old.partition(start)
        _, _, tail = rest.partition(end)
        page.write_text(head + block + tail)
    else:
        page.write_text((old.rstrip() + "\n\n" if old else "") + block + "\n")


def log_plot(title: str, x: str, y: str, lines: Mapping[str, Sequence[Point]]) -> str:
    """An SVG plot with logarithmic axes; every line has at least one point above 0."""
    width, height, left, top, right, bottom = 640, 360, 64, 34, 150, 46
    points = [point for line in lines.values() for point in line]
    x_low, x_high = _decades([px for px, _ in points])
    y_low, y_high = _decades([py for _, py in points])

    def across(value: float) -> float:
        share = (math.log10(value) - x_low) / (x_high - x_low)
        return left + share * (width - left - right)

    def up(value: float) -> float:
        share = (math.log10(value) - y_low) / (y_high - y_low)
        return height - bottom - share * (height - top - bottom)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="18" font-size="14">{title}</text>',
        f'<text x="{(left + width - right) / 2:.0f}" y="{height - 8}" '
        f'text-anchor="middle">{x}</text>',
        f'<text transform="translate(14 {(top + height - bottom) / 2:.0f}) rotate(-90)" '
        f'text-anchor="middle">{y}</text>',
    ]
    for value in _ticks(x_low, x_high):
        at = across(value)
        out.append(
            f'<path d="M{at:.1f} {top}V{height - bottom}" stroke="#e4e4e4"/>'
            f'<text x="{at:.1f}" y="{height - bottom + 15}" text-anchor="middle">{_short(value)}'
            "</text>"
        )
    for value in _ticks(y_low, y_high):
        at = up(value)
        out.append(
            f'<path d="M{left} {at:.1f}H{width - right}" stroke="#e4e4e4"/>'
            f'<text x="{left - 6}" y="{at + 4:.1f}" text-anchor="end">{_short(value)}</text>'
        )
    for i, (name, line) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        path = "L".join(f"{across(px):.1f} {up(py):.1f}" for px, py in sorted(line))
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        out += [
            f'<circle cx="{across(px):.1f}" cy="{up(py):.1f}" r="2.6" fill="{colour}"/>'
            for px, py in line
        ]
        label = top + 12 + 17 * i
        out.append(
            f'<path d="M{width - right + 10} {label - 4}h16" stroke="{colour}" stroke-width="2"/>'
            f'<text x="{width - right + 30}" y="{label}">{name}</text>'
        )
    return "\n".join((*out, "</svg>", ""))


def _decades(values: Sequence[float]) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    low, high = math.floor(low * 3 + 1e-9) / 3, math.ceil(high * 3 - 1e-9) / 3
    return (low, high) if high > low else (low, low + 1)


def _ticks(low: float, high: float) -> list[float]:
    found = [
        m * 10.0**e
        for e in range(math.floor(low), math.ceil(high) + 1)
        for m in (1, 2, 5)
        if low - 1e-9 <= math.log10(m * 10.0**e) <= high + 1e-9
    ]
    return found if len(found) <= 12 else [value for value in found if f"{value:e}"[0] == "1"]


def _short(value: float) -> str:
    if value >= 1_000_000:
        return f"{value / 1_000_000:g}M"
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def write_plot(name: str, svg: str) -> None:
    """Put a plot beside the documents, as ``name``.svg."""
    DOCS.mkdir(parents=True, exist_ok=True)
    (DOCS / f"{name}.svg").write_text(svg)


def write_json(done: object, path: Path) -> None:
    """Print a result as JSON, and keep it."""
    text = json.dumps(done, indent=2) + "\n"
    print(text, end="")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
