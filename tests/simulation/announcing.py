"""``MORE["announced"]``: an autoscaler announces nodes for members that wait.

Some of the nodes come, for some it says no after a moment, and some never come.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tests.simulation.chance import Chance
from tests.simulation.happening import Happening
from tests.simulation.moments import near, with_happenings
from tests.simulation.script import Script
from tests.simulation.state import Seen

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LONGEST = 8.0


def announcing(script: Script, chance: Chance) -> Script:
    """Gangs wait for some seconds, some of them for a first answer too."""
    plan = replace(
        script.settings.plan,
        scale_up_seconds=chance.pick("scale-up", (1.0, 3.0, LONGEST)),
        scale_up_answer_seconds=chance.pick("answer", (0.0, 1.0, 3.0)),
    )
    found = [
        near(chance, "announce", Happening(kind="announce", at=0.0))
        for _ in range(chance.number("announced", 2, 6))
    ]
    script = replace(script, settings=replace(script.settings, plan=plan))
    return with_happenings(script, found, lasting=2 * LONGEST)


class Announcing:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation

    def announce(self, happening: Happening) -> None:
        """A node is announced for a member that waits."""
        sim = self._sim
        waits = [each for each in sim.state.pods.values() if not each.node and each.work.gang]
        if not waits:
            return
        pod = sim.chance.pick("for-whom", sorted(waits, key=lambda each: each.name))
        self._say(pod, "TriggeredScaleUp")
        pause = sim.chance.draw("comes-after") * LONGEST
        becomes = sim.chance.pick("becomes", ("comes", "comes", "refused", "nothing"))
        if becomes == "comes":
            sim.loop.call_later(pause, sim.doings.do, Happening(kind="add-node", at=0.0))
        elif becomes == "refused":
            sim.loop.call_later(pause, self._say, pod, "NotTriggerScaleUp")

    def _say(self, pod: Seen, reason: str) -> None:
        sim = self._sim
        sim.story.tell("autoscaler", reason, pod.name)
        at = datetime.fromtimestamp(sim.server.api.clock(), UTC).isoformat()
        event = {"reason": reason, "message": "", "firstTimestamp": at, "lastTimestamp": at}
        about = {"kind": "Pod", "uid": pod.uid, "name": pod.name}
        source = {"component": "cluster-autoscaler"}
        sim.server.events.append({**event, "involvedObject": about, "source": source})
