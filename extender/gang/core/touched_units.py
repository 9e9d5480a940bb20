"""Units that have gone by our hand, remembered: a pod of one may come back, or come late."""

from __future__ import annotations

from cachetools import LRUCache

from extender.gang.core.unit import EvictionUnit
from extender.model.plan import Victim

REMEMBERED = 10_000
"""Pods, and units, of which that is known at most."""


class TouchedUnits:
    """Each with one of its victims, which tells what a late one of them would be."""

    def __init__(self) -> None:
        self._pods: LRUCache[str, tuple[EvictionUnit, Victim]] = LRUCache(REMEMBERED)
        """Uid of a pod of a unit of several that is seen gone."""
        self._units: LRUCache[str, tuple[EvictionUnit, Victim]] = LRUCache(REMEMBERED)
        """Name of a unit that was touched."""

    def gone(self, unit: EvictionUnit, victim: Victim) -> None:
        """A pod of the unit is seen gone."""
        self._pods[victim.uid] = unit, victim

    def touched(self, unit: EvictionUnit, victim: Victim) -> None:
        """One of the unit goes by our hand, for the first time."""
        self._units[unit.name] = unit, victim

    def back(self, uid: str) -> tuple[EvictionUnit, Victim] | None:
        """Return with what a pod had gone that is there again, once."""
        found: tuple[EvictionUnit, Victim] | None = self._pods.pop(uid, None)
        return found

    def last(self, name: str) -> list[tuple[EvictionUnit, Victim]]:
        """Return the unit of this name that was touched last, if there was one."""
        return [self._units[name]] if name in self._units else []
