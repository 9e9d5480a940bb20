"""Decisions as they fall: kept, and told to members, PodGroups and whoever listens."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from extender.gang.leader_election.leadership import Leadership
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.status.group_conditions import GroupConditions
from extender.gang.status.notices import Notices
from extender.gang.status.repaired_gangs import RepairedGangs
from extender.gang.tell.decisions import Decision, Decisions, Outcome, Verb, of_refusal
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.plan import Refusal
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")


class DecisionTelling:
    """Keeps the decisions of one term. ``snapshot`` and ``resolve(key, snapshot)`` are the newest
    state.

    ``client``: through which conditions of PodGroups are written, None: they are not; ``failed``
    is told of each that was not. ``forget(key)``: of a gang whose definition was repaired, what
    it was told last. ``decided`` is told of each decision that does not only repeat the last.
    """

    def __init__(
        self,
        client: KubeApi | None,
        source: ClusterSource,
        resolve: Callable[[GangKey, Snapshot], Gang],
        notices: Notices,
        forget: Callable[[GangKey], None],
        clocks: Clocks,
        leadership: Leadership,
        background: Background,
        decided: Callable[[Decision], None],
        failed: Callable[[str, ApiError], None],
    ) -> None:
        self._notices = notices
        self._clocks = clocks
        self._decided = decided
        self.decisions = Decisions()
        self.repaired = RepairedGangs(clocks, source, resolve, forget, notices.repaired)
        self.conditions = GroupConditions(
            client, source, resolve, clocks, leadership, background, failed
        )

    def note(self, refusal: Refusal, verb: Verb, seconds: float) -> Refusal:
        """Tell of a refusal, found in ``seconds``; return it."""
        self.decide(of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds))
        return refusal

    def decide(self, decision: Decision) -> None:
        """Keep a decision, and tell whom it concerns."""
        if decision.outcome is Outcome.REFUSAL:
            self._notices.refused(decision)
            self.repaired.refused(decision)
        self.conditions.decided(decision)
        if self.decisions.add(decision):
            try:
                self._decided(decision)
            except Exception:  # telling must never stand in the way of acting
                log.exception("decision not told", gang=decision.gang)

    def round(self) -> None:
        """Tell what was put off, and what has changed by itself. Waits for nothing."""
        self.repaired.round()
        self._notices.round()
        self.conditions.round()
