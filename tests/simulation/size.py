"""How large a simulation is: its cluster, and how much happens in how long a time.

Which mistakes show soonest depends on the size: some in the smallest world there is, some only
where several gangs meet. So the seed decides that too.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from tests.simulation.chance import Chance


class Size(Struct, frozen=True, kw_only=True):
    """What a script is drawn within. Bounds are (least, most)."""

    name: str
    nodes: tuple[int, int]
    running: tuple[int, int]
    """Works that run from the beginning, as far as they fit."""
    arrivals: int
    """Most gangs that arrive."""
    singles: int
    """Most pods of no gang that arrive."""
    events: int
    faults: int
    """Most of what people and machines do, and of requests' troubles."""
    members: int
    """Most members of a gang that arrives."""
    pace: float = 1.0
    """Seconds of this story for each of a large one."""
    trouble: float = 0.3
    """Share that gets one more trouble (troubles.py)."""
    urgent: tuple[str, ...] = ("mid", "high", "high", "top")
    lower: tuple[str, ...] = ("low", "low", "mid", "high")
    """Priority classes of gangs that arrive, and of what runs."""
    cpus: tuple[int, ...] = (1, 2, 3, 3, 4, 4)
    few_sources: bool = False
    """The extender looks for no groups but those there are here."""
    quiet: float = 6.0
    """Calm is when nothing has changed for this long."""
    least: float = 20.0
    """It lasts no shorter than this, unless all is at rest."""


LARGE = Size(
    name="large",
    nodes=(2, 4),
    running=(1, 3),
    arrivals=2,
    singles=2,
    events=2,
    faults=2,
    members=3,
)
CROWDED = replace(
    LARGE, name="crowded", nodes=(3, 6), running=(1, 5), arrivals=4, singles=4, events=4, faults=4,
    members=4,
)  # fmt: skip
DENSE = replace(
    LARGE,
    name="dense",
    running=(3, 3),
    singles=1,
    pace=0.4,
    trouble=0.8,
    lower=("low", "low", "mid", "mid"),
    few_sources=True,
    quiet=3.0,
    least=8.0,
)
"""As large, and nearly always full: hardly a seed in which nothing has to go wrong."""
TINY = replace(
    DENSE,
    name="tiny",
    nodes=(2, 2),
    running=(1, 2),
    arrivals=1,
    members=2,
    pace=0.35,
    trouble=0.5,
    urgent=("high", "high", "top"),
    lower=("low", "low", "low", "mid"),
    cpus=(2, 3, 4, 4),
)
"""One urgent gang on two nodes."""
SHARES = ((TINY, 0.3), (DENSE, 0.5))
CROWDED_SHARE = 0.06
"""Of the seeds that are left, which are large."""
MIXED = "mixed"
SIZES = (MIXED, "tiny", "dense", "large")


def size_of(chance: Chance, wanted: str = MIXED) -> Size:
    """Return the size of a seed's world: what is ``wanted``, or as the seed decides."""
    drawn = chance.draw("world")
    for size, share in SHARES:
        if wanted == size.name or (wanted == MIXED and 0.0 <= drawn < share):
            return size
        drawn -= share
    return CROWDED if chance.hit("large", CROWDED_SHARE) else LARGE
