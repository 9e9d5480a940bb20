"""Decisions as they fall: kept, and told to members, PodGroups and whoever listens."""

from __future__ import annotations

from collections.abc import Mapping

import structlog
from cachetools import TTLCache
from msgspec import Struct

from extender.gang.core.last_check import KeptGangs
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.status.group_conditions import GroupConditions
from extender.gang.status.notices import Notices
from extender.gang.tell.decisions import Decision, Decisions, Outcome, Verb, of_refusal
from extender.gang.tell.listener import Listener
from extender.model.objects import GangKey, Pod
from extender.model.plan import Code, Refusal

log = structlog.get_logger("gang")

PATIENCE_SECONDS = 10.0
"""For how long members have been missing, or kube-scheduler has named no node, before that is
told ..."""
REPAIR_SECONDS = 3.0
"""... and for how long a definition has been at fault."""
PATIENCE: Mapping[str, float] = {
    Code.INCOMPLETE: PATIENCE_SECONDS,
    Code.UNSEEN: PATIENCE_SECONDS,
    Code.CONFLICT: REPAIR_SECONDS,
}
PAUSE_SECONDS = 60.0
"""A gang is woken once in so long: a tenant that takes its PodGroup away and brings it back must
not cause a write to each of its pods each time."""
MOST_GANGS = 4096


class _Waits(Struct):
    since: float
    """Monotonic."""
    decision: Decision
    members: int
    """How many there were when it was refused last."""


class RefusedGangs:
    """Gangs that lack members, or whose definition is at fault. One event loop.

    Every gang is incomplete for the moment in which its pods are being made, and two watches may
    bring its first pod before its PodGroup. Nobody wants to read of that. Who waits longer is told
    once.

    kube-scheduler does not look at PodGroups. A pod that it was given no node for, because its
    PodGroup did not exist, is put aside until something happens to pods or nodes: on a quiet
    cluster for five minutes, with a reason that is not true any more. So it is looked which gangs
    are in order now.
    """

    def __init__(self, clocks: Clocks, source: ClusterSource, gangs: KeptGangs) -> None:
        self._clocks = clocks
        self._source = source
        self._gangs = gangs
        self._waits: dict[str, _Waits] = {}
        self._at_fault: dict[str, None] = {}
        self._woken: TTLCache[str, bool] = TTLCache(
            MOST_GANGS, PAUSE_SECONDS, timer=clocks.monotonic
        )

    def refused(self, decision: Decision) -> bool:
        """Take note of a refusal; return whether it is one that is told when it lasts."""
        gang, code = decision.gang, decision.code
        if code != Code.CONFLICT:
            self._at_fault.pop(gang, None)
        elif len(self._at_fault) < MOST_GANGS:
            self._at_fault[gang] = None
        if code not in PATIENCE:
            self._waits.pop(gang, None)
            return False
        there = self._members(gang)
        waits = self._waits.get(gang)
        if waits is not None and waits.decision.code == code:
            waits.decision, waits.members = decision, there
        elif len(self._waits) < MOST_GANGS:
            self._waits[gang] = _Waits(self._clocks.monotonic(), decision, there)
        return True

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

    def repaired(self) -> list[tuple[GangKey, list[Pod]]]:
        """Return those whose definition is in order now, and which members are to be woken."""
        found: list[tuple[GangKey, list[Pod]]] = []
        if not self._at_fault:
            return found
        snapshot = self._source.snapshot()
        for name in list(self._at_fault):
            gang = self._gangs.resolve(GangKey.read(name), snapshot)
            if gang.members and not gang.in_order:
                continue
            waiting: list[Pod] = []
            if name not in self._woken:
                del self._at_fault[name]
                waiting = [pod for pod in gang.members if not pod.node and not pod.deleting]
            if waiting:
                self._woken[name] = True
                waits = self._waits.get(name)
                if waits is not None and waits.decision.code == Code.CONFLICT:
                    del self._waits[name]
            found.append((gang.key, waiting))
        return found

    def _members(self, gang: str) -> int:
        members = self._source.snapshot().members.get(GangKey.read(gang), ())
        return sum(not pod.deleting for pod in members)


class DecisionTelling:
    """Keeps the decisions of one term; ``listener`` hears of each that does not only repeat the
    last."""

    def __init__(
        self,
        refused: RefusedGangs,
        conditions: GroupConditions,
        notices: Notices,
        clocks: Clocks,
        listener: Listener,
    ) -> None:
        self.refused = refused
        self.conditions = conditions
        self._notices = notices
        self._clocks = clocks
        self._listener = listener
        self.decisions = Decisions()

    def note(self, refusal: Refusal, verb: Verb, seconds: float) -> Refusal:
        """Tell of a refusal, found in ``seconds``; return it."""
        self.decide(of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds))
        return refusal

    def decide(self, decision: Decision) -> None:
        """Keep a decision, and tell whom it concerns."""
        if decision.outcome is Outcome.REFUSAL and not self.refused.refused(decision):
            self._notices.refused(decision)
        self.conditions.decided(decision)
        if self.decisions.add(decision):
            try:
                self._listener.decided(decision)
            except Exception:  # telling must never stand in the way of acting
                log.exception("a decision is not reported", gang=decision.gang)

    def round(self) -> None:
        """Tell what was put off, and what has changed by itself. Waits for nothing."""
        for decision in self.refused.due():
            self._notices.refused(decision)
        self.conditions.round()
