"""``MORE["priorities"]``: how urgent pods and groups are changes while plans are under way.

A PriorityClass cannot be changed, but for being deleted and made anew; its pods keep what they were
created with. A PodGroup is given another class, in place or made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from extender.sandbox.resources import PRIORITY_CLASSES
from tests.simulation import dialects
from tests.simulation.chance import Chance
from tests.simulation.cluster import POD_GROUPS
from tests.simulation.happening import Happening
from tests.simulation.moments import several, with_happenings
from tests.simulation.objects import CLASSES, MERGE
from tests.simulation.script import Script

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

KINDS = ("reprice", "reprice", "never-preempts", "promote", "promote", "promote", "replace-pod")
VALUES = (5, 10, 40, 50, 100, 150, 200, 300)


def priorities(script: Script, chance: Chance) -> Script:
    """One to four changes."""
    many = chance.number("priorities", 1, 4)
    seconds = (0.0, 0.05, 0.5, 2.0, 8.0)
    found = several(chance, "priority", many, KINDS, ("victim", "", ""), seconds)
    return with_happenings(script, found, lasting=9.0)


class Priorities:
    """Each happening is named by its kind."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._api = simulation.server.api

    def reprice(self, happening: Happening) -> None:
        """A class is deleted, and made anew with another value ``number`` seconds later."""
        value = self._sim.chance.pick("reprice", VALUES)
        self._remake(happening, {"value": value})

    def never_preempts(self, happening: Happening) -> None:
        """A class is deleted, and made anew as one that preempts nobody, or the other way round."""
        self._remake(happening, {})

    def _remake(self, happening: Happening, changes: dict[str, int]) -> None:
        sim = self._sim
        name = sim.chance.pick("reprice-which", sorted(CLASSES))
        there = sim.server.storage.get(PRIORITY_CLASSES.key, "", name)
        if there is None:
            return
        policy = there.get("preemptionPolicy")
        body = {"metadata": {"name": name}, "value": there["value"], **changes}
        if changes and policy:
            body["preemptionPolicy"] = policy
        elif not changes and not policy:
            body["preemptionPolicy"] = "Never"
        sim.story.tell("world", "class", name, "goes, and will be", str(body))
        self._disturb()
        self._api.delete(PRIORITY_CLASSES, "", name)

        def again() -> None:
            if sim.server.storage.get(PRIORITY_CLASSES.key, "", name) is None:
                self._disturb()
                self._api.create(PRIORITY_CLASSES, "", body)

        sim.loop.call_later(happening.number, again)

    def promote(self, happening: Happening) -> None:
        """A PodGroup gets another class; at once by a change, or (``number``) by another one."""
        sim = self._sim
        work = sim.doings.edits.work_of(happening)
        if work is None or work.dialect != dialects.CORE:
            return
        cls = sim.chance.pick("promote", sorted(CLASSES))
        found = sim.server.storage.get(PRIORITY_CLASSES.key, "", cls)
        if found is None:
            return
        sim.story.tell("world", "the group of", work.name, "is", cls, "now")
        self._disturb()
        if happening.number > 0.1:
            sim.doings.edits.drop_group_of(work)
            group = replace(work, cls=cls)
            sim.loop.call_later(happening.number, sim.doings.edits.make_group, group)
            sim.loop.call_later(happening.number, self._disturb)
        else:
            patch = {"spec": {"priorityClassName": cls, "priority": found["value"]}}
            self._api.patch(POD_GROUPS, "default", work.name, patch, MERGE)

    def _disturb(self) -> None:
        """Who is not urgent any more may lose its room to others."""
        self._sim.calm.disturbed.append((self._sim.loop.time(), ""))
