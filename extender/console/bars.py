"""Small drawings as SVG attributes: no style attribute, which the content policy forbids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

PITCH = 12
SIDE = 10
"""Pixels of a cell in a map of nodes, with and without its gap."""


class Piece(Struct, frozen=True):
    """One part of a bar, in hundredths of its length."""

    kind: str
    at: float
    width: float


def pieces(total: int, *parts: tuple[str, int]) -> tuple[Piece, ...]:
    """Return the parts of a bar in order, cut off at its end; empty ones left out."""
    at = 0.0
    found: list[Piece] = []
    for kind, amount in parts:
        width = min(100.0 - at, 100.0 * amount / total) if total > 0 else 0.0
        if width > 0:
            found.append(Piece(kind, round(at, 2), round(width, 2)))
            at += width
    return tuple(found)


def columns_for(count: int) -> int:
    """Return how many cells a row of a map has: wide, but not wider than a screen."""
    return min(64, max(12, int((count * 4) ** 0.5) + 1))


def squares(places: Iterable[int], columns: int) -> str:
    """Return one SVG path of full cells, drawn as strokes of a cell's width; places grow.

    Thousands of nodes cost a dozen elements. Within a row each cell begins where the last one
    ended: half the bytes of outlines, which is most of what the page has.
    """
    found: list[str] = []
    row = end = -1
    for place in places:
        x, y = place % columns * PITCH, place // columns
        found.append(f"m{x - end} 0h{SIDE}" if y == row else f"M{x} {y * PITCH + SIDE // 2}h{SIDE}")
        row, end = y, x + SIDE
    return "".join(found)


def rings(places: Iterable[int], columns: int) -> str:
    """Return one SVG path of frames inside cells."""
    return "".join(
        [
            f"M{place % columns * PITCH + 1} {place // columns * PITCH + 1}h8v8h-8z"
            for place in places
        ]
    )


def crosses(places: Iterable[int], columns: int) -> str:
    """Return one SVG path of crosses inside cells."""
    found = []
    for place in places:
        x, y = place % columns * PITCH + 3, place // columns * PITCH + 3
        found.append(f"M{x} {y}l4 4M{x + 4} {y}l-4 4")
    return "".join(found)


def histogram(times: Sequence[tuple[float, str]], bins: int) -> list[dict[str, int]]:
    """Return per bin, oldest first, kind -> count; ``times`` are (seconds, kind)."""
    found: list[dict[str, int]] = [{} for _ in range(bins)]
    if not times:
        return found
    first = min(at for at, _ in times)
    span = max(at for at, _ in times) - first
    for at, kind in times:
        place = min(bins - 1, int((at - first) / span * bins)) if span > 0 else bins - 1
        found[place][kind] = found[place].get(kind, 0) + 1
    return found
