"""One term of acting: its parts, what the cache reports to them, and their rounds.

Verbs and the planning loop ask ``answering.py``; ``turns.py`` searches, one gang after another,
``changes.py`` does so for plans that do not hold any more. Deadlines have a loop of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from random import Random

from extender.gang.act.admission import Admission
from extender.gang.act.answering import Answering
from extender.gang.act.apart import Apart
from extender.gang.act.background import Background
from extender.gang.act.binder import Binder
from extender.gang.act.bindings import Bindings
from extender.gang.act.book import Book, Flight
from extender.gang.act.bookings import Bookings
from extender.gang.act.changes import Changes
from extender.gang.act.clocks import Clocks
from extender.gang.act.cluster_source import ClusterSource
from extender.gang.act.decision_telling import DecisionTelling
from extender.gang.act.evicted_store import EvictedStore
from extender.gang.act.eviction_history import EvictionHistory
from extender.gang.act.evictor import Evictor
from extender.gang.act.evidence import Evidence
from extender.gang.act.flights import Flights
from extender.gang.act.heartbeats import Heartbeats
from extender.gang.act.keeper import RecordKeeper
from extender.gang.act.last_check import KeptGangs
from extender.gang.act.leadership import Leadership
from extender.gang.act.notices import Notices
from extender.gang.act.notifier import Notifier
from extender.gang.act.offers import UnsettledOffers
from extender.gang.act.partial import PartlyBound
from extender.gang.act.pending_gangs import PendingGangs
from extender.gang.act.planner_thread import PLANNER, Masks, PlannerThread
from extender.gang.act.planning_rounds import PlanningRounds
from extender.gang.act.readiness import Readiness
from extender.gang.act.records import Records
from extender.gang.act.recovery import Recovery
from extender.gang.act.refused_seats import RefusedSeats
from extender.gang.act.rounds import run_rounds
from extender.gang.act.suspensions import Suspensions, SuspensionStore
from extender.gang.act.sweeper import Sweeper
from extender.gang.act.turns import PlanningTurns
from extender.gang.act.waiting import Waiting
from extender.gang.incremental.victims import leaves_in_time
from extender.gang.plan.planner import Planner
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.tell.decisions import Decision, Outcome, Verb
from extender.groups.resolver import Resolver
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

FRESH_SECONDS = 0.1
"""How often it is looked whether all watches are up again, before records are judged."""
TICK, PLANNING, SWEEP, RECOVERY = "tick", "planning", "sweep", "recovery"
LOOPS = (TICK, PLANNING, SWEEP, PLANNER)
"""What has to show life while this process acts."""


class Coordinator:
    """Owns the book of plans in flight. One event loop only."""

    def __init__(
        self,
        source: ClusterSource,
        settings: Settings,
        resolver: Resolver,
        records: Records,
        evictor: Evictor,
        notifier: Notifier,
        binder: Binder,
        *,
        leadership: Leadership,
        heartbeats: Heartbeats,
        clocks: Clocks,
        random: Random,
        blind_seconds: float,
        decided: Callable[[Decision], None],
        suspended: SuspensionStore | None = None,
        evicted: KubeApi | None = None,
        conditions: KubeApi | None = None,
        failed: Callable[[str, ApiError], None] = lambda what, error: None,
    ) -> None:
        """``evicted``: where it is written who was evicted before; ``conditions``: where those of
        PodGroups are; None: nowhere. ``failed`` is told of each that was not."""
        self.book = Book()
        self.resolver = resolver
        self.leadership = leadership
        self._heartbeats = heartbeats
        self.readiness = Readiness(source, leadership, settings.cache.stale_seconds)
        self.stale, self.require_ready = self.readiness.stale, self.readiness.require
        self.monotonic = clocks.monotonic
        self._source = source
        self._clocks = clocks
        self._planner_thread = PlannerThread(
            lambda: Planner(settings, resolver),
            settings.plan.seconds,
            settings.plan.overrun_seconds,
            clocks.monotonic,
            heartbeats,
        )
        self.evidence = Evidence(clocks.monotonic)
        self.offers = UnsettledOffers(clocks.monotonic, blind_seconds, lambda: source.stale_for())
        self._pending_gangs = PendingGangs(resolver.member_key, settings.scheduler_names)
        self._waiting = Waiting(
            clocks.monotonic,
            settings.plan.retry_seconds,
            settings.groups.settle_seconds,
            settings.plan.longest_retry_seconds,
            partial(leaves_in_time, plan=settings.plan, seats=settings.seats),
        )
        self._background = Background()
        self._gangs = KeptGangs(resolver)
        self.notices = Notices(
            notifier,
            self.book,
            self._snapshot,
            clocks,
            self._background,
            nominate=settings.seats.nominate,
        )
        self._apart = Apart(self.notices, clocks.monotonic)
        self.telling = DecisionTelling(
            conditions,
            self._snapshot,
            self._gangs.resolve,
            self.notices,
            self._waiting.repaired,
            clocks,
            leadership,
            self._background,
            decided,
            failed,
        )
        self.decisions, self._decide = self.telling.decisions, self.telling.decide
        self.records = records
        records.told = lambda aside: self.notices.record_aside(records.namespace, aside)
        self._keeper = RecordKeeper(records, leadership, self._background)
        self.admission = Admission(
            settings,
            clocks,
            self.book,
            self.evidence,
            Suspensions(suspended, leadership, self._background, clocks.wall),
            self._present_gang,
            lambda: self._planning.waiting_turns(),
            self.notices.warn,
        )
        self.flights = Flights(
            self.book,
            settings,
            self._snapshot,
            self._gangs,
            self._keeper,
            evictor,
            self.notices,
            clocks,
            leadership,
            random,
            self._background,
            self.offers,
            self._decide,
            self._flight_ended,
            self._replan,
            self.stale,
        )
        protection = settings.fairness.protection
        self.eviction_history = before = EvictionHistory(
            protection,
            None
            if evicted is None or not protection.enabled
            else EvictedStore(
                evicted, records.namespace, records.signer, leadership, self._background.spawn
            ),
            clocks.wall,
            self._gangs.unit_key,
        )
        self.flights.units.taken, self.flights.units.sent = before.taken, before.sent
        self.flights.comparison.spared = before.spared
        self._turns = PlanningTurns(
            self.book,
            source,
            resolver,
            self.evidence,
            self._waiting,
            self._planner_thread,
            self.admission,
            self.flights,
            clocks,
            self.decisions,
            self._decide,
            self.stale,
        )
        self.bookings = Bookings(
            settings.fairness,
            self.book,
            clocks,
            self.flights.shown,
            lambda key: self.admission.ours(self._present_gang(key)),
            self._waiting.last,
            self._turns.supposing,
            self.notices.wake_held_back,
            partial(self.telling.note, verb=Verb.LOOP, seconds=0.0),
            self._apart.failed,
            partial(self._heartbeats.beat, PLANNING),
            lambda namespace: self.admission.acts_for(namespace, self._snapshot()),
        )
        self._turns.booked = self.bookings.holds_against
        answering = Answering(
            self.readiness,
            self.book,
            self._waiting,
            self.admission,
            self._turns,
            self._snapshot,
            self.flights.shown,
            self._present_gang,
            self.telling.note,
        )
        self.known, self.ensure, self.ask = answering.known, answering.ensure, answering.ask
        self._planning = PlanningRounds(
            self._pending_gangs,
            self.readiness,
            leadership,
            self.book,
            self._snapshot,
            self._gangs,
            self._waiting,
            self.admission,
            self._turns,
            self._planner_thread,
            answering,
            self.bookings,
            self._apart,
            clocks.monotonic,
            partial(heartbeats.beat, PLANNING),
        )
        self._refused_seats = refused = RefusedSeats(
            self.book,
            clocks.monotonic,
            self.evidence,
            self.notices.calls,
            self._replan,
            self.flights.seat_given,
        )
        self.partly_bound = PartlyBound(
            roll_back=settings.seats.rollback == "delete",
            evictor=evictor,
            notices=self.notices,
            leadership=leadership,
            clocks=clocks,
            background=self._background,
            gang_of=self._present_gang,
            decide=self._decide,
            give_up=lambda flight, why: self.flights.end(flight, Outcome.GAVE_UP, why, penal=True),
        )
        self.bindings = Bindings(
            settings.bind,
            self.book,
            binder,
            leadership,
            clocks,
            self._background,
            self.flights.problem,
            self._replan,
            self.partly_bound,
            refused,
        )
        self._changes = Changes(
            self.flights,
            self._turns,
            self._background,
            settings.seats.max_replans,
            self.stale,
            self.bindings.posting,
        )
        self._sweeper = Sweeper(
            self.notices, self._keeper, self._gangs, self._snapshot, leadership, clocks.monotonic
        )
        self.seat_not_offered = refused.seat_not_offered
        self.seat_not_tried = refused.seat_not_tried
        self.seat_given = refused.seat_given
        self.crowded = self.flights.crowded

    @property
    def recovered(self) -> bool:
        """Whether the records of a life before are taken in."""
        return self.readiness.recovered

    def _snapshot(self) -> Snapshot:
        return self._source.snapshot()

    def _present_gang(self, key: GangKey) -> Gang:
        """Return the gang as it is now; a gang of one for a pod of no gang."""
        flight = self.book.get(key)
        if key.dialect == SINGLE:
            pods = [] if flight is None else list(flight.pods.values())
            return single_gang(pods[0]) if pods else Gang(key=key, members=(), min_count=1)
        return self._gangs.resolve(key, self._snapshot())

    # -- deciding -----------------------------------------------------------------------

    def _flight_ended(self, flight: Flight, *, done: bool, penal: bool, why: str) -> None:
        self.admission.ended(flight, done=done, why=why, seen=self.stale() is None)
        self.bindings.ended(flight, done=done, why=why)
        if done:
            self._waiting.succeeded(flight.key)
        elif penal:
            self._waiting.failed(flight.key)

    # -- changing a plan ----------------------------------------------------------------

    def _replan(self, flight: Flight, why: str, masks: Masks | None = None) -> None:
        self._changes.begin(flight, why, masks)

    # -- what the cache reports ---------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if old is None and new is not None and not new.node:
            key = self.resolver.member_key(new)
            if key is not None:
                self._waiting.grown(key)
        self._pending_gangs.observe(old, new)
        self.eviction_history.observe(old, new)
        self.flights.observe(old, new)
        self.bookings.observe(old, new)
        self._refused_seats.observe(old, new)

    # -- time ---------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, period: float = 0.25) -> None:
        """Look after flights and waiting gangs until ``stop`` is set."""
        rounds = {TICK: self.tick, PLANNING: self._planning.round, SWEEP: self._sweep}
        await run_rounds(rounds, stop, period, self._heartbeats)

    async def tick(self) -> None:
        """Look at deadlines; waits for nothing."""
        if self.readiness.begun:
            self.offers.look()
            self.bindings.tick()
            self.flights.tick()
            self.bookings.tick()

    async def _sweep(self) -> None:
        """Do what nothing waits for."""
        if self.readiness.begun and not self.flights.evictions.waiting:
            self.telling.round()
        await self._sweeper.round()

    # -- restart ------------------------------------------------------------------------

    async def recover(self) -> None:
        """Read the plan records and go on with each, finish it, or drop it.

        To be called once, after the caches are synced and before any verb is
        answered. Raises ApiError when the records cannot be read: acting
        without them could forget seats. A standby's watch may be down: on an old picture
        members made since are gone, and what has gone by our hand is there.
        """
        while self._source.stale_for() > 0:
            self._heartbeats.beat(RECOVERY)
            await asyncio.sleep(FRESH_SECONDS)
        await self.admission.recover()
        bound = self._snapshot().bound
        await self.eviction_history.recover(pod for pods in bound.values() for pod in pods)
        recovery = Recovery(
            self.flights, self._keeper, self._snapshot, self._gangs, self._clocks, self._decide
        )
        await recovery.run()
        # Verbs need not wait for the first look at all pods; a gang's question queues behind it.
        self.readiness.recovered = True
        self.offers.begin()
        self._sweeper.begin()
        await self._planner_thread.show(self._snapshot)

    async def close(self) -> None:
        """Stop for good: plans stay recorded, and the next start goes on with them.

        Verbs may still wait for a search. What it finds is not acted on, although the same
        process may lead again by then, with a coordinator that knows nothing of it.
        """
        self._planner_thread.close()
        self.bindings.stop("this replica does not lead any more")
        await self._background.close()
