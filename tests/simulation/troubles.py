"""What tends to go wrong together: in a share of the seeds one of these comes on top of the rest.

Each is a moment at which a plan can end, or a decision is made on what is not true any more.
Drawn one by one, what they are made of would hardly ever meet.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field
from msgspec.structs import replace

from tests.simulation import faults
from tests.simulation.chance import Chance
from tests.simulation.faults import Fault
from tests.simulation.happening import Happening
from tests.simulation.objects import Work

SHARE = 0.3
"""Of the seeds that have one."""


class Trouble(Struct):
    """What comes on top. ``held``, ``grace``: of all that runs from the beginning."""

    happenings: list[Happening] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    held: bool = False
    priority: str = ""
    """Class of all that runs, "" to leave it as it is."""

    def running(self, works: list[Work]) -> list[Work]:
        """Return the works that run from the beginning, as this trouble wants them."""
        changed = [replace(work, held=True) if self.held else work for work in works]
        return [replace(w, cls=self.priority) if self.priority else w for w in changed]


def draw(chance: Chance, name: Callable[[str], str]) -> Trouble:
    """Return the trouble of a seed; ``name`` makes names for new works."""
    if not chance.hit("trouble", SHARE):
        return Trouble()
    return chance.pick("trouble-kind", KINDS)(chance, name)


def _gang(chance: Chance, name: str, classes: tuple[str, ...]) -> Work:
    size = chance.number("trouble-size", 2, 3)
    return Work(
        name=name,
        size=size,
        quorum=size,
        cls=chance.pick("trouble-class", classes),
        cpu=chance.pick("trouble-cpu", (2, 3, 4)),
    )


def _away_and_changed(chance: Chance, name: Callable[[str], str]) -> Trouble:
    """Killed before the first eviction; when it comes back the plan is out of date."""
    pause = chance.draw("trouble-pause") ** 2 * 0.1
    kinds = ("cordon", "cordon", "delete-node", "delete-member")
    return Trouble(
        [
            Happening(at=0.0, after="recorded", kind="crash"),
            Happening(at=pause, after="recorded", kind=chance.pick("trouble-change", kinds)),
        ]
    )


def _rush(chance: Chance, name: Callable[[str], str]) -> Trouble:
    """A more urgent gang comes while members of another one are being seated."""
    return Trouble(
        [
            Happening(
                at=chance.between("trouble-pause", 0.0, 0.5),
                after=chance.pick("trouble-after", ("bound", "wake", "gone")),
                kind="arrive",
                work=_gang(chance, name("g"), ("top",)),
            )
        ]
    )


def _refused_and_lower(chance: Chance, name: Callable[[str], str]) -> Trouble:
    """The urgent plan's evictions fail and it ends; a less urgent one comes after it."""
    until = chance.between("trouble-until", 4.0, 10.0)
    kind = chance.pick("trouble-fault", (faults.DENIED, faults.REFUSED, faults.CUT))
    return Trouble(
        [
            Happening(
                at=chance.between("trouble-pause", 0.1, 2.0),
                after="evict",
                nth=chance.number("trouble-nth", 1, 3),
                kind=chance.pick("trouble-change", ("withdraw", "withdraw", "cordon")),
            ),
            Happening(
                at=chance.between("trouble-lower", 1.0, 8.0),
                kind="arrive",
                work=_gang(chance, name("g"), ("low", "mid")),
            ),
        ],
        [Fault(at=0.0, until=until, target=faults.DELETES, kind=kind)],
        priority="mid",
    )


def _slow_drops(chance: Chance, name: Callable[[str], str]) -> Trouble:
    """A plan is changed while it evicts, and its record takes its time to go."""
    kinds = ("cordon", "delete-member", "delete-victim")
    kind = chance.pick("trouble-fault", (faults.SLOW, faults.LATE))
    return Trouble(
        [
            Happening(
                at=chance.draw("trouble-pause") ** 2 * 0.3,
                after=chance.pick("trouble-after", ("record", "recorded", "evict")),
                kind=chance.pick("trouble-change", kinds),
            )
        ],
        [Fault(at=0.0, until=25.0, target=faults.DROPS, kind=kind)],
    )


def _hung_records(chance: Chance, name: Callable[[str], str]) -> Trouble:
    """Victims do not go, and records of other plans get no answer meanwhile."""
    at = chance.between("trouble-at", 1.0, 4.0)
    return Trouble(
        [
            Happening(
                at=at + chance.between("trouble-pause", 0.0, 3.0),
                kind="arrive",
                work=_gang(chance, name("g"), ("high", "top")),
            )
        ],
        [Fault(at=at, until=at + 20.0, target=faults.RECORDS, kind=faults.SILENT)],
        held=True,
    )


KINDS = (_away_and_changed, _rush, _refused_and_lower, _slow_drops, _hung_records)
