"""One term of acting: what it is handed, and what all its parts share, read and told.

``coordinator.py`` makes the parts that act of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TypeVar

import structlog
from cachetools import TTLCache

from extender.gang.controller.hints import CONCURRENCY, HeldBack, Hints, Nominations, Requeuing
from extender.gang.controller.notifier import Notifier
from extender.gang.controller.records import Records
from extender.gang.controller.requests import Binder, Evictor
from extender.gang.controller.rounds import Heartbeats
from extender.gang.controller.waiting import PendingGangs, Waiting
from extender.gang.core.last_check import KeptGangs
from extender.gang.core.reservations import Reservations
from extender.gang.incremental.enforcement import Enforcement
from extender.gang.incremental.victims import leaves_in_time
from extender.gang.leader_election.lease import Leadership
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.runtime.background import Background
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.scheduler_view.assumed_pods import AssumedPods
from extender.gang.scheduler_view.node_lists import NodeLists
from extender.gang.status.group_conditions import GroupConditions
from extender.gang.status.notices import DecisionTelling, Notices, RefusedGangs
from extender.gang.tell.listener import Listener
from extender.gang.tell.verdicts import Verifier
from extender.groups.resolver import Resolver
from extender.kube.api import KubeApi
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.snapshot import Snapshot
from extender.settings.settings import Settings


class Readiness:
    """Whether gangs can be decided now: the caches, the lease and the plan records have to be
    there. ``recovered`` is set once the records of a life before are taken in."""

    def __init__(self, source: ClusterSource, leadership: Leadership, stale_seconds: float) -> None:
        """``stale_seconds``: for how long a watch may bring nothing while it is down."""
        self._source = source
        self._leadership = leadership
        self._stale_seconds = stale_seconds
        self.recovered = False

    def records_read(self) -> None:
        """Note that the records of a life before are taken in."""
        self.recovered = True

    @property
    def begun(self) -> bool:
        """Whether there is anything to look after: plans of before are known, and the cluster."""
        return self.recovered and self._source.synced

    def require(self) -> None:
        """Raise NotReady until caches are synced, plans recovered and the lease is ours."""
        if not self._source.synced:
            raise NotReady("caches are not synced yet")
        if not self._leadership.acts:
            raise NotReady("another replica leads")
        if not self.recovered:
            raise NotReady("plan records are not read yet")

    def stale(self) -> str | None:
        """Return why gangs cannot be decided now: the cache may be behind the cluster."""
        if self._source.stale_for() > self._stale_seconds:
            return "the cache is stale: a watch is down and has brought nothing for too long"
        return None

    def behind(self) -> bool:
        """Whether nothing irreversible may rest on the cache now: some watch is down.

        What ``stale`` permits is a plan, which is compared again before its first eviction. An
        eviction, or a seat that is given away, is not taken back.
        """
        return self._source.stale_for() > 0


log = structlog.get_logger("gang")

TOLD_SECONDS = 3600.0
MOST_TOLD = 1024
NOT_JUDGED = "PodNotJudged"
Found = TypeVar("Found")


class Apart:
    """Runs steps of a round gang by gang: what fails for one is told and keeps nobody else from
    their turn. One event loop only."""

    def __init__(self, notices: Notices, clocks: Clocks) -> None:
        self._notices = notices
        self._told: TTLCache[tuple[GangKey, str], bool] = TTLCache(
            MOST_TOLD, TOLD_SECONDS, clocks.monotonic
        )

    def each(self, keys: Iterable[GangKey], step: Callable[[GangKey], Found | None]) -> list[Found]:
        """Return what a step finds for each gang; nothing of one for which it fails."""
        found: list[Found] = []
        for key in keys:
            try:
                one = step(key)
            except NotReady:
                raise
            except Exception as error:
                self.failed(key, error)
                continue
            if one is not None:
                found.append(one)
        return found

    def failed(self, key: GangKey, error: Exception) -> None:
        """Tell, once an hour, that a gang had no turn."""
        kind = type(error).__name__
        if (key, kind) not in self._told:
            self._told[key, kind] = True
            log.error("a gang could not be planned", gang=str(key), exc_info=error)

    def tell(self, aside: Iterable[tuple[Pod, str]]) -> None:
        """Warn the owners of pods that the planner has set aside."""
        for pod, why in aside:
            log.error("a pod is left where it is", pod=pod.key, why=why)
            note = f"This pod is not evicted, and plans are made without it: it {why}"
            self._notices.warned(pod, NOT_JUDGED, note)


@dataclass(frozen=True, kw_only=True)
class Term:
    """What a term is handed from outside."""

    client: KubeApi
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
    verifier: Verifier | None = None
    """Who is asked before pods are evicted; None: nobody."""


@dataclass(frozen=True)
class Reading:
    """What is known: the cluster, who waits in it, the plans under way."""

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
        term.client if term.settings.groups.conditions else None,
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
    nominations = Nominations(notifier, reading.reservations, source, background, gate)
    enforcement = Enforcement(term.settings.enforce)
    return Hints(
        nominations,
        HeldBack(notifier, source, clocks, background, enforcement, gate),
        Requeuing(
            notifier,
            nominations,
            source,
            clocks,
            background,
            gate,
            nominate=term.settings.seats.nominate,
        ),
    )
