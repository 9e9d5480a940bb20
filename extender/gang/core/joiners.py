"""Members that come to a node while their unit goes, or may: who of them goes with the rest.

Whoever was offered the node before the unit went in part was on its way then: it goes as well, or
it would run alone. As long as it is in doubt whether a request of ours will take a pod of the unit
it is remembered who came. They stay where they are a quorum by themselves.
"""

from __future__ import annotations

from collections.abc import Callable

from extender.gang.core.last_check import LastCheck
from extender.gang.core.unit import EvictionListener, EvictionUnit, beside
from extender.model.objects import Pod
from extender.model.plan import Victim


class Joiners:
    """``listener`` tells whether there is a record of a unit's plan: else nobody joins it."""

    def __init__(
        self, check: LastCheck, listener: EvictionListener, monotonic: Callable[[], float]
    ) -> None:
        self._check = check
        self._listener = listener
        self._now = monotonic

    def joins(self, unit: EvictionUnit, other: Victim, pod: Pod, offered: float) -> Victim | None:
        """Return what the pod, which has a node now, is as a victim of the unit; None: it is none,
        or that is not known yet.

        ``other``: one of the unit; ``offered``: when it was offered its node, monotonic.
        """
        if not unit.whole or pod.deleting or pod.uid in unit.victims:
            return None
        if not self._listener.recorded(unit):
            return None
        victim = beside(other, pod)
        if (unit.touched or not unit.victims) and offered <= unit.touched_at:
            return victim
        if not unit.touched and unit.in_doubt(self._now()):
            unit.came.append((offered, victim))
        return None

    def late(self, unit: EvictionUnit, at: float) -> list[Victim]:
        """Return who has come meanwhile and goes with a unit that went in part at ``at``."""
        found = [
            victim
            for offered, victim in unit.came
            if offered <= at and victim.uid not in unit.victims and self._check.there(victim)
        ]
        unit.came.clear()
        if not self._listener.recorded(unit):
            return []  # its plan is over, and all of it was gone: nothing was owed
        if found and self._check.enough_beside(found[0], unit.victims.keys(), unit.size):
            return []
        return found
