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
from tests.simulation.dialects import CORE
from tests.simulation.faults import Fault
from tests.simulation.happening import Happening
from tests.simulation.objects import Work

BLINDED = 0.03
"""Share of the seeds in which the server comes back before its storage."""


class Trouble(Struct):
    """What comes on top. ``held``, ``grace``: of all that runs from the beginning."""

    happenings: list[Happening] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    held: bool = False
    slow_binds: bool = False
    urgent: Work | None = None
    """Takes the place of the first gang that arrives."""
    priority: str = ""
    """Class of all that runs, "" to leave it as it is."""
    stale: float = 0.0
    """Age in seconds of a state by which nothing is decided; 0: as drawn."""

    def running(self, works: list[Work]) -> list[Work]:
        """Return the works that run from the beginning, as this trouble wants them."""
        changed = [replace(work, held=True) if self.held else work for work in works]
        return [replace(w, cls=self.priority) if self.priority else w for w in changed]


class Scene(Struct, frozen=True):
    """What a trouble is made for."""

    name: Callable[[str], str]
    """Makes names for new works."""
    urgent: Work
    """The first gang that arrives."""
    share: float
    """Of the seeds that have a trouble."""
    pace: float
    """Seconds of this story for each of a large one."""


def draw(chance: Chance, scene: Scene) -> Trouble:
    """Return the trouble of a seed."""
    if not chance.hit("trouble", scene.share):
        return Trouble()
    return chance.pick("trouble-kind", KINDS)(chance, scene)


def _gang(chance: Chance, name: str, classes: tuple[str, ...]) -> Work:
    size = chance.number("trouble-size", 2, 3)
    return Work(
        name=name,
        size=size,
        quorum=size,
        cls=chance.pick("trouble-class", classes),
        cpu=chance.pick("trouble-cpu", (2, 3, 4)),
    )


def _away_and_changed(chance: Chance, scene: Scene) -> Trouble:
    """Killed before the first eviction; when it comes back the plan is out of date."""
    pause = chance.draw("trouble-pause") ** 2 * 0.1
    kinds = ("cordon", "cordon", "delete-node", "delete-member")
    return Trouble(
        [
            Happening(at=0.0, after="recorded", kind="crash"),
            Happening(at=pause, after="recorded", kind=chance.pick("trouble-change", kinds)),
        ]
    )


def _rush(chance: Chance, scene: Scene) -> Trouble:
    """A more urgent gang comes while members of the like of it are on their way to their seats."""
    other = replace(scene.urgent, name=scene.name("g"), cls="top")
    return Trouble(
        [
            Happening(
                at=chance.between("trouble-pause", 0.0, 0.8),
                after=chance.pick("trouble-after", ("bound", "wake", "wake")),
                kind="arrive",
                work=other,
            )
        ],
        slow_binds=True,
        urgent=replace(
            scene.urgent, cls="high", whole=False, quorum=scene.urgent.size, dialect=CORE
        ),
    )


def _refused_and_lower(chance: Chance, scene: Scene) -> Trouble:
    """An urgent plan's evictions fail and it ends; the like of its gang, but not urgent, waits."""
    kind = chance.pick("trouble-fault", (faults.DENIED, faults.REFUSED, faults.CUT))
    return Trouble(
        [
            Happening(
                at=chance.between("trouble-lower", 0.0, 1.0),
                after="evict",
                kind="arrive",
                work=replace(scene.urgent, name=scene.name("g"), cls="low"),
            ),
            Happening(at=chance.between("trouble-pause", 0.1, 2.0), after="evict", kind="withdraw"),
        ],
        [Fault(at=0.0, until=30.0, target=faults.DELETES, kind=kind)],
        priority="low",
    )


def _slow_drops(chance: Chance, scene: Scene) -> Trouble:
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


def _hung_records(chance: Chance, scene: Scene) -> Trouble:
    """Victims do not go, and the record of another plan gets no answer meanwhile."""
    at = chance.between("trouble-at", 2.0, 5.0) * scene.pace
    pause = chance.between("trouble-pause", 0.0, 1.0)
    late = replace(_gang(chance, scene.name("g"), ("low",)), size=2, quorum=2)
    return Trouble(
        [
            Happening(at=0.0, after="evicted", kind="add-node"),
            Happening(at=0.01, after="evicted", kind="add-node"),
            Happening(at=pause, after="evicted", kind="arrive", work=late),
        ],
        [Fault(at=at, until=at + 25.0, target=faults.RECORDS, kind=faults.SILENT)],
        held=True,
    )


def blinded(chance: Chance) -> Trouble:
    """Nothing can be read while a record is written, and the server is back before its storage.

    On top of what else there is, from streams of its own: the other seeds keep their stories.
    """
    if not chance.hit("blinded", BLINDED):
        return Trouble()
    lost = Happening(
        at=chance.draw("blinded-pause") ** 2 * 0.3,
        after="record",
        kind="lose-server",
        name=chance.pick("blinded-of", ("pods", "nodes", "")),
        number=chance.between("blinded-for", 1.5, 3.5),
    )
    until = chance.between("blinded-slow", 3.0, 8.0)
    slow = Fault(at=0.0, until=until, target=faults.RECORDS, kind=faults.SLOW)
    return Trouble([lost], [slow], stale=3.0)


KINDS = (_away_and_changed, _rush, _refused_and_lower, _slow_drops, _hung_records)
