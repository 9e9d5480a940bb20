"""Where in a story a happening that a script is given more is put: close to a moment, mostly."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from tests.simulation.chance import Chance
from tests.simulation.happening import MOMENTS, Happening
from tests.simulation.script import Script

NEAR = 0.8
"""Share of the happenings that follow a moment; the others come at any time."""


def near(chance: Chance, prefix: str, happening: Happening) -> Happening:
    """Return the happening at its time, drawn from streams that begin with ``prefix``."""
    happening = replace(happening, at=chance.between(f"{prefix}-at", 1.0, 14.0))
    if not chance.hit(f"{prefix}-after", NEAR):
        return happening
    return replace(
        happening,
        at=chance.draw(f"{prefix}-pause") ** 3 * 1.5,
        after=chance.pick(f"{prefix}-moment", MOMENTS),
        nth=1 + int(chance.draw(f"{prefix}-nth") ** 2 * 4),
    )


def several(
    chance: Chance,
    prefix: str,
    many: int,
    kinds: Sequence[str],
    names: Sequence[str],
    numbers: Sequence[float],
) -> list[Happening]:
    """Return so many happenings, each drawn from streams that begin with ``prefix``."""
    return [
        near(
            chance,
            prefix,
            Happening(
                kind=chance.pick(prefix, kinds),
                at=0.0,
                name=chance.pick(f"{prefix}-of", names),
                number=chance.pick(f"{prefix}-number", numbers),
            ),
        )
        for _ in range(many)
    ]


def with_happenings(script: Script, found: Sequence[Happening], lasting: float = 0.0) -> Script:
    """Return the script with more happenings. ``lasting``: seconds that what they do takes."""
    last = max([script.last, *(each.at + lasting for each in found if not each.after)])
    happenings = tuple(sorted((*script.happenings, *found), key=lambda each: each.at))
    return replace(script, happenings=happenings, last=last, end=max(script.end, last + 8.0))
