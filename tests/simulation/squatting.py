"""``MORE["squatters"]``: pods of another namespace come to nodes without being scheduled.

Their owner watches them, and makes one with spec.nodeName where one has gone; others come to a
seat's node at any moment. The kubelets admit a pod as far as its node has room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from extender.sandbox.api_status import Obj, StatusError
from extender.sandbox.resources import NAMESPACES, PODS
from extender.sandbox.storage import DELETED, StorageChange
from tests.simulation import objects
from tests.simulation.chance import Chance
from tests.simulation.happening import Happening
from tests.simulation.moments import near, with_happenings
from tests.simulation.objects import OWNER, POD_KEY, Work
from tests.simulation.script import Script

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

TENANT = "tenant"
SUSPENDED = 3600.0
"""Longer than anything is waited for here: no gang is suspended for what squatters do."""


def squatting(script: Script, chance: Chance) -> Script:
    """Half of what runs becomes single pods of squatters, and one to three come besides."""
    works = tuple(
        _squatter(work, chance) if chance.hit("squatter", 0.5) else work for work in script.works
    )
    found = []
    for number in range(chance.number("squats", 1, 3)):
        work = Work(
            name=f"squat-{number}",
            size=1,
            cls=chance.pick("squat-class", ("low", "low", "mid", "top")),
            cpu=chance.number("squat-cpu", 1, 4),
            gang=False,
            again=False,
            namespace=TENANT,
            squats=chance.pick("squats-again", (0, 1, 4)),
        )
        found.append(near(chance, "squat", Happening(kind="squat", at=0.0, work=work)))
    seats = replace(script.settings.seats, suspend_seconds=SUSPENDED)
    settings = replace(script.settings, seats=seats)
    return with_happenings(replace(script, works=works, settings=settings, squatters=True), found)


def by_rule(script: Script, chance: Chance) -> Script:
    """Squatters, half of which take no room: they let no other pod onto their node."""
    script = squatting(script, chance)

    def alone(work: Work) -> Work:
        return replace(work, alone=work.namespace == TENANT and chance.hit("alone", 0.5))

    works = tuple(alone(work) for work in script.works)
    happenings = tuple(
        each if each.work is None else replace(each, work=alone(each.work))
        for each in script.happenings
    )
    return replace(script, works=works, happenings=happenings)


def _squatter(work: Work, chance: Chance) -> Work:
    squats = chance.pick("squats-of", (1, 4, 8))
    work = replace(work, gang=False, quorum=0, again=False, restarts=False, held=False)
    return replace(work, namespace=TENANT, squats=squats)


class Squatting:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._api = simulation.server.api
        self._made: dict[str, int] = {}
        """Work -> how many pods its owner has put on a node."""
        if simulation.script.squatters:
            self._api.create(NAMESPACES, "", {"metadata": {"name": TENANT}})
            simulation.cluster.admits = True
            simulation.server.storage.observe(self._see)

    def squat(self, happening: Happening) -> None:
        """A pod comes to a seat's node."""
        work, node = happening.work, self._sim.doings.node(happening)
        if work is not None and node:
            self._sim.state.works[work.name] = self._sim.cluster.works[work.name] = work
            self._put(work, node)

    def _see(self, change: StorageChange) -> None:
        if change.resource != POD_KEY or change.type != DELETED:
            return
        sim, pod = self._sim, change.new
        work = sim.cluster.works.get(pod["metadata"]["labels"][OWNER])
        node = pod["spec"].get("nodeName", "")
        if work is None or not node or self._made.get(work.name, 0) >= work.squats:
            return
        sim.loop.call_later(sim.chance.draw("squat-lag") ** 3 * 0.5, self._put, work, node)

    def _put(self, work: Work, node: str) -> None:
        sim = self._sim
        number = self._made[work.name] = self._made.get(work.name, 0) + 1
        made = objects.alone if work.alone else objects.pod
        pod: Obj = made(work, f"{work.name}-on-{number}", node)
        # Whose room it takes is no promise of ours.
        sim.calm.disturbed.append((sim.loop.time(), ""))
        sim.checks.standing.came[node] = sim.loop.time()
        sim.story.tell("world", pod["metadata"]["name"], "comes to", node)
        try:
            self._api.create(PODS, TENANT, pod)
        except StatusError as error:
            sim.story.tell("world", "in vain:", error.message)
