"""``MORE["restored"]``: the API server's storage is put back to a backup of some seconds ago.

What has gone since is there again, under its uid; what has come since is gone, as if it had never
been; versions go back, or on far above. kube-scheduler is started again, as kubernetes.io says of
all components; the extender lives on in some seeds, and is killed then in others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extender.sandbox.api_status import StatusError
from tests.simulation.backups import Backup
from tests.simulation.chance import Chance
from tests.simulation.cluster import Cluster
from tests.simulation.happening import Happening
from tests.simulation.moments import near, with_happenings
from tests.simulation.objects import Work
from tests.simulation.script import Script

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LIVES_ON, KILLED, BUMPED = "lives on", "killed", "bumped"
AWAY = (0.2, 3.0)
"""For how many seconds nothing answers while the storage is put back."""


def restored(script: Script, chance: Chance) -> Script:
    """One or two backups, each put back seconds later."""
    found = [
        near(
            chance,
            "restore",
            Happening(
                kind="restore",
                at=0.0,
                name=chance.pick("restore-how", (LIVES_ON, LIVES_ON, KILLED, BUMPED)),
                number=chance.pick("restore-age", (0.3, 1.0, 3.0, 8.0, 20.0)),
            ),
        )
        for _ in range(chance.number("restores", 1, 2))
    ]
    return with_happenings(script, found, lasting=25.0)


class Restoring:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation

    def restore(self, happening: Happening) -> None:
        """Take a backup now, and put it back ``number`` seconds later."""
        sim = self._sim
        backup, works = sim.server.storage.back_up(), dict(sim.cluster.works)
        sim.loop.call_later(happening.number, self._put_back, backup, works, happening.name)

    def _put_back(self, backup: Backup, works: dict[str, Work], how: str) -> None:
        sim = self._sim
        now = sim.loop.time()
        sim.story.tell("world", "the storage is put back", how)
        lost = {name: work for name, work in sim.cluster.works.items() if name not in works}
        sim.cluster.works.clear()
        sim.cluster.works.update(works)
        sim.checks.before_restore()
        sim.server.cut(broken=True)
        sim.server.storage.restore(backup, bumped=how == BUMPED)
        away = sim.chance.between("restore-away", *AWAY)
        sim.faults.away(now + away, "")
        sim.faults.storage_lost(now, now + away)
        sim.checks.restored(now + away)
        sim.scheduler.restart(away, unheard=True)
        if how == KILLED:
            sim.host.crash()
            sim.loop.call_later(away, sim.doings.start)
        # Who started before did so in another world, and who starts now does not see it yet.
        sim.calm.disturbed += [(now, ""), (now + away, "")]
        for work in lost.values():
            pause = sim.chance.between("restore-again", 1.0, 6.0)
            sim.loop.call_later(pause, _submit_again, sim.cluster, work)


def _submit_again(cluster: Cluster, work: Work) -> None:
    """Whose work is lost submits it once more."""
    if work.name in cluster.works:
        return
    try:
        cluster.submit(work)
    except StatusError:
        return  # its group was made anew by somebody else
