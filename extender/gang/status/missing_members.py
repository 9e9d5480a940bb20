"""Gangs that lack members, or whose definition is at fault: told of when that lasts.

Every gang is incomplete for the moment in which its pods are being made, and two watches may bring
its first pod before its PodGroup. Nobody wants to read of that. Who waits longer is told once.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.tell.decisions import Decision
from extender.model.objects import GangKey
from extender.model.plan import Code

PATIENCE_SECONDS = 10.0
"""For how long members have been missing before that is told ..."""
REPAIR_SECONDS = 3.0
"""... and for how long a definition has been at fault."""
PATIENCE: Mapping[str, float] = {Code.INCOMPLETE: PATIENCE_SECONDS, Code.CONFLICT: REPAIR_SECONDS}
MOST_GANGS = 4096


class _Waits(Struct):
    since: float
    """Monotonic."""
    decision: Decision
    members: int
    """How many there were when it was refused last."""


class MissingMembers:
    """One event loop."""

    def __init__(self, clocks: Clocks, source: ClusterSource) -> None:
        self._clocks = clocks
        self._source = source
        self._waits: dict[str, _Waits] = {}

    def refused(self, decision: Decision) -> bool:
        """Take note of a refusal; return whether it is one that is told when it lasts."""
        if decision.code not in PATIENCE:
            self._waits.pop(decision.gang, None)
            return False
        there = self._members(decision.gang)
        waits = self._waits.get(decision.gang)
        if waits is not None and waits.decision.code == decision.code:
            waits.decision, waits.members = decision, there
        elif len(self._waits) < MOST_GANGS:
            self._waits[decision.gang] = _Waits(self._clocks.monotonic(), decision, there)
        return True

    def repaired(self, gang: str) -> None:
        """Its definition is in order by now."""
        waits = self._waits.get(gang)
        if waits is not None and waits.decision.code == Code.CONFLICT:
            del self._waits[gang]

    def due(self) -> list[Decision]:
        """Return the refusals to be told now, each once; those that are over are forgotten."""
        now = self._clocks.monotonic()
        due = [
            gang
            for gang, waits in self._waits.items()
            if now - waits.since >= PATIENCE[waits.decision.code]
        ]
        found = [(gang, self._waits.pop(gang)) for gang in due]
        # With other members it was, or is about to be, decided anew.
        return [waits.decision for gang, waits in found if self._members(gang) == waits.members > 0]

    def _members(self, gang: str) -> int:
        members = self._source.snapshot().members.get(GangKey.read(gang), ())
        return sum(not pod.deleting for pod in members)
