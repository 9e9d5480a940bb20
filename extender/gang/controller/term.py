"""One term of acting: what it is handed, and what all its parts share, read and told.

``coordinator.py`` makes the parts that act of these.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from random import Random

from extender.gang.controller.apart import Apart
from extender.gang.controller.binder import Binder
from extender.gang.controller.evictor import Evictor
from extender.gang.controller.heartbeats import Heartbeats
from extender.gang.controller.held_back import HeldBack
from extender.gang.controller.hints import CONCURRENCY, Hints
from extender.gang.controller.nominations import Nominations
from extender.gang.controller.notifier import Notifier
from extender.gang.controller.pending_gangs import PendingGangs
from extender.gang.controller.readiness import Readiness
from extender.gang.controller.records import Records
from extender.gang.controller.requeuing import Requeuing
from extender.gang.controller.waiting import Waiting
from extender.gang.core.last_check import KeptGangs
from extender.gang.core.reservations import Reservations
from extender.gang.fairness.suspensions import SuspensionStore
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.incremental.victims import leaves_in_time
from extender.gang.leader_election.leadership import Leadership
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.scheduler_view.assumed_pods import AssumedPods
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.status.decision_telling import DecisionTelling, RefusedGangs
from extender.gang.status.group_conditions import GroupConditions
from extender.gang.status.notices import Notices
from extender.gang.tell.listener import Listener
from extender.gang.tell.verdicts import Verifier
from extender.groups.resolver import Resolver
from extender.kube.api import KubeApi
from extender.model.gang import Gang
from extender.model.objects import GangKey
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings


@dataclass(frozen=True, kw_only=True)
class Term:
    """What a term is handed from outside."""

    source: ClusterSource
    settings: Settings
    resolver: Resolver
    records: Records
    evictor: Evictor
    notifier: Notifier
    binder: Binder
    leadership: Leadership
    heartbeats: Heartbeats
    clocks: Clocks
    random: Random
    blind_seconds: float
    """For how long after the start a life before may have offered nodes."""
    listener: Listener
    suspended: SuspensionStore | None = None
    """Where suspended gangs are kept; None: nowhere."""
    evicted: KubeApi | None = None
    """Where it is written who was evicted before; None: nowhere."""
    conditions: KubeApi | None = None
    """Where the conditions of PodGroups are; None: nowhere."""
    unwatched: KubeApi | None = None
    """Where objects are read that no watch has (claims, events); None: nowhere."""
    verifier: Verifier | None = None
    """Who is asked before pods are evicted; None: nobody."""


@dataclass(frozen=True)
class Reading:
    """What is known: the cluster, who waits in it, the plans in flight."""

    source: ClusterSource
    reservations: Reservations
    gangs: KeptGangs
    readiness: Readiness
    evidence: NodeLists
    offers: AssumedPods
    pending_gangs: PendingGangs
    waiting: Waiting

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is."""
        return self.source.snapshot()

    def present_gang(self, key: GangKey) -> Gang:
        """Return the gang as it is now; a gang of one for a pod of no gang."""
        preemption = self.reservations.get(key)
        if key.dialect == SINGLE:
            pods = [] if preemption is None else list(preemption.pods.values())
            return single_gang(pods[0]) if pods else Gang(key=key, members=(), min_count=1)
        return self.gangs.resolve(key, self.snapshot())


@dataclass(frozen=True)
class Telling:
    """Who is told what, and what does so beside what waits for an answer."""

    background: Background
    notices: Notices
    hints: Hints
    apart: Apart
    decisions: DecisionTelling


def reading_of(term: Term) -> Reading:
    """Return what is known at the start of a term: nothing but where to look."""
    source, settings, resolver = term.source, term.settings, term.resolver
    clocks = term.clocks
    return Reading(
        source=source,
        reservations=Reservations(),
        gangs=KeptGangs(resolver),
        readiness=Readiness(source, term.leadership, settings.cache.stale_seconds),
        evidence=NodeLists(clocks, source),
        offers=AssumedPods(clocks, term.blind_seconds, source),
        pending_gangs=PendingGangs(resolver.member_key, settings.scheduler_names),
        waiting=Waiting(
            clocks,
            settings.plan.retry_seconds,
            settings.groups.settle_seconds,
            settings.plan.longest_retry_seconds,
            partial(leaves_in_time, plan=settings.plan, seats=settings.seats),
        ),
    )


def telling_of(term: Term, reading: Reading) -> Telling:
    """Return what tells owners, autoscalers and whoever asks why."""
    background = Background()
    gate = asyncio.Semaphore(CONCURRENCY)
    notices = Notices(term.notifier, reading.source, term.clocks, background, gate)
    conditions = GroupConditions(
        term.conditions,
        reading.source,
        reading.gangs,
        term.clocks,
        term.leadership,
        background,
        term.listener,
    )
    refused = RefusedGangs(term.clocks, reading.source, reading.gangs)
    decisions = DecisionTelling(refused, conditions, notices, term.clocks, term.listener)
    hints = _hints(term, reading, background, gate)
    return Telling(background, notices, hints, Apart(notices, term.clocks), decisions)


def _hints(term: Term, reading: Reading, background: Background, gate: asyncio.Semaphore) -> Hints:
    notifier, source, clocks = term.notifier, reading.source, term.clocks
    nominations = Nominations(notifier, reading.reservations, source, background, gate, CONCURRENCY)
    enforcement = Enforcement(term.settings.enforce)
    return Hints(
        nominations,
        HeldBack(notifier, source, clocks, background, enforcement, gate, CONCURRENCY),
        Requeuing(
            notifier,
            nominations,
            source,
            clocks,
            background,
            gate,
            CONCURRENCY,
            nominate=term.settings.seats.nominate,
        ),
    )
