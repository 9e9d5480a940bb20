"""What plans in flight are to evict together, by name.

It is asked at every question about a member of a gang, most of them while ten thousand victims go,
so they are not looked through. What a plan still has to evict is read from its own victims alone:
there is no count beside them that could come to say something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from extender.model.objects import GangKey
from extender.model.plan import Victim


class Evicts(Protocol):
    """A plan in flight."""

    @property
    def key(self) -> GangKey:
        """The gang it is for."""

    @property
    def victims(self) -> Mapping[str, Victim]:
        """Those that are not seen gone. Nobody comes to them once it is in flight."""


class VictimUnits:
    """Units of plans in flight, as long as one of their victims is there."""

    def __init__(self) -> None:
        self._plans: dict[GangKey, tuple[Evicts, dict[str, list[str]]]] = {}
        """Plan -> unit -> uids of victims that have not been found gone."""
        self._named: dict[str, set[GangKey]] = {}
        """Unit -> plans that evict it."""

    def entered(self, plan: Evicts) -> None:
        """A plan is in flight from now on."""
        units: dict[str, list[str]] = {}
        for uid, victim in plan.victims.items():
            units.setdefault(victim.unit, []).append(uid)
        self._plans[plan.key] = plan, units
        for name in units:
            self._named.setdefault(name, set()).add(plan.key)

    def left(self, key: GangKey) -> None:
        """The gang's plan is in flight no more."""
        _, units = self._plans.pop(key)
        for name in units:
            plans = self._named[name]
            plans.discard(key)
            if not plans:
                del self._named[name]

    def taken(self, name: str) -> bool:
        """Whether a victim of a unit is there still."""
        return any(self._there(*self._plans[key], name) for key in self._named.get(name, ()))

    @staticmethod
    def _there(plan: Evicts, units: dict[str, list[str]], name: str) -> bool:
        uids = units[name]
        while uids and uids[-1] not in plan.victims:
            uids.pop()  # so each is found gone once
        return bool(uids)
