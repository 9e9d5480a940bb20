"""One term of acting: its parts, what the cache reports to them, and their rounds.

Verbs and the planning loop ask ``answering.py``; ``scheduling_cycle.py`` searches, one gang after
another, ``Replanning`` does so for plans that do not hold any more. Deadlines have a loop of
their own.

``coordinate`` puts a term together; serve, tests and the simulation all start there.
"""

from __future__ import annotations

import asyncio
import random as random_module
from collections.abc import Mapping
from math import inf

import structlog

from extender.gang.bind_barrier.bindings import Bindings
from extender.gang.bind_barrier.partial import PartlyBound
from extender.gang.booking.bookings import Bookings
from extender.gang.controller.answering import Answering, VerbPatience
from extender.gang.controller.executor import Executor, ForOthers
from extender.gang.controller.hints import Nominations
from extender.gang.controller.notifier import Notifier
from extender.gang.controller.planner_thread import PLANNER, PlannerThread
from extender.gang.controller.planning_rounds import PLANNING, PlanningRounds
from extender.gang.controller.preconditions import Preconditions
from extender.gang.controller.records import Records, RecordWriter
from extender.gang.controller.recovery import Recovery
from extender.gang.controller.requests import Binder, Evictor
from extender.gang.controller.rounds import Heartbeats, run_rounds
from extender.gang.controller.scheduling_cycle import Replanning, SchedulingCycle
from extender.gang.controller.term import Reading, Telling, Term, reading_of, telling_of
from extender.gang.core.last_check import KeptGangs, LastCheck
from extender.gang.core.preemption import (
    Accepted,
    PlanEnded,
    Plans,
    RoomFreed,
    Search,
    SeatsReleased,
    Taken,
)
from extender.gang.core.refusals import Refusals
from extender.gang.core.refused_seats import RefusedSeats
from extender.gang.core.victim_group import Tables
from extender.gang.fairness.admission import Admission
from extender.gang.fairness.eviction_history import EvictedStore, EvictionHistory
from extender.gang.fairness.suspensions import Suspensions, SuspensionStore
from extender.gang.leader_election.lease import Alone, Leadership
from extender.gang.plan.planner import Planner
from extender.gang.runtime.clocks import Clocks
from extender.gang.runtime.cluster_source import ClusterSource
from extender.gang.runtime.signature import Signer
from extender.gang.scheduler_view.assumed_pods import BLIND_SECONDS
from extender.gang.tell.listener import Listener
from extender.gang.tell.verdicts import Verifier
from extender.groups.resolver import Resolver
from extender.kube.api import KubeApi
from extender.kube.api_errors import ApiError
from extender.model.objects import GangKey, Node, Pod
from extender.settings.settings import Settings

log = structlog.get_logger("gang")

SWEEP_SECONDS = 30.0


class Sweeper:
    """Looks for records and nominations that belong to no plan."""

    def __init__(
        self,
        nominations: Nominations,
        keeper: RecordWriter,
        gangs: KeptGangs,
        source: ClusterSource,
        leadership: Leadership,
        clocks: Clocks,
    ) -> None:
        self._nominations = nominations
        self._keeper = keeper
        self._gangs = gangs
        self._source = source
        self._leadership = leadership
        self._clocks = clocks
        self._next = inf

    def begin(self) -> None:
        """Start, once the records of a life before are taken in."""
        self._next = self._clocks.monotonic() + SWEEP_SECONDS
        self._clear_nominations()

    async def round(self) -> None:
        """Look, if it is time to."""
        if self._clocks.monotonic() < self._next or not self._leadership.acts:
            return
        self._next = self._clocks.monotonic() + SWEEP_SECONDS
        self._clear_nominations()
        try:
            await self._keeper.sweep()
        except ApiError as error:
            log.warning("left plan records not looked for", error=str(error))

    def _clear_nominations(self) -> None:
        snapshot = self._source.snapshot()

        def starts_whole(key: GangKey) -> bool:
            gang = self._gangs.resolve(key, snapshot)
            return gang.starts_whole and not gang.problems

        self._nominations.clear_orphans(starts_whole, self._gangs.member_key)


FRESH_SECONDS = 0.1
"""How often it is looked whether all watches are up again, before records are judged."""
TICK, SWEEP, RECOVERY = "tick", "sweep", "recovery"
LOOPS = (TICK, PLANNING, SWEEP, PLANNER)
"""What has to show life while this process acts."""


class Coordinator:
    """Owns the book of plans under way. One event loop only."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._reading = reading = reading_of(term)
        self._telling = telling = telling_of(term, reading)
        settings, clocks, background = term.settings, term.clocks, telling.background
        # What verbs, metrics and whoever shows the state ask for.
        self.resolver, self.leadership, self.records = term.resolver, term.leadership, term.records
        self.clocks = clocks
        self.reservations, self.readiness = reading.reservations, reading.readiness
        self.evidence, self.offers = reading.evidence, reading.offers
        self.stale, self.require_ready = self.readiness.stale, self.readiness.require
        self.notices, self.hints = telling.notices, telling.hints
        self.telling = telling.decisions
        self.decisions = self.telling.decisions
        # Who may act for which gang, and the plans under way.
        self._keeper = keeper = RecordWriter(term.records, term.leadership, background)
        self.eviction_history = _eviction_history(term, reading, telling)
        evictor, patience = term.evictor, settings.seats.victim_slack_seconds
        self.plans = Plans(
            reservations=self.reservations,
            victims=Tables(
                evictor.concurrency, evictor.attempts, patience, Refusals(clocks.monotonic)
            ),
            offers=self.offers,
            settings=settings,
        )
        self.preconditions = Preconditions(
            self.plans,
            LastCheck(reading.source, reading.gangs, settings),
            self.offers,
            self.evidence,
            self.readiness,
            self.eviction_history,
        )
        self.crowded, self.takes_unit = self.preconditions.crowded, self.plans.takes
        self.thread = PlannerThread(
            lambda: Planner(settings, term.resolver),
            settings.plan.seconds,
            settings.plan.overrun_seconds,
            clocks,
            term.heartbeats,
        )
        self.executor = executor = Executor(
            term, telling, self.plans, self.preconditions, keeper, self.thread, self._of_plans
        )
        self.admission = admission = Admission(
            settings,
            clocks,
            self.reservations,
            self.evidence,
            Suspensions(
                SuspensionStore(term.client, term.records.namespace),
                term.leadership,
                background,
                clocks,
            ),
            self.notices,
        )
        # From a gang that waits to a plan: who is asked, in which turn.
        self.bookings = Bookings(
            settings, self.reservations, self.preconditions, reading.gangs, term.source, clocks
        )
        self.turns = turns = SchedulingCycle(
            term, reading, telling, admission, executor, self.bookings
        )
        self.answering = answering = Answering(
            reading,
            self.telling,
            admission,
            turns,
            executor,
            VerbPatience(background, clocks, settings.plan.seconds),
        )
        self.known, self.ensure, self.ask = answering.known, answering.ensure, answering.ask
        self.rounds = PlanningRounds(
            term, reading, admission, turns, answering, self.bookings, telling
        )
        # What becomes of open seats: refused by kube-scheduler, or bound.
        self.refused_seats = refused = RefusedSeats(
            executor, self.reservations, clocks, self.evidence, self.hints.requeuing
        )
        self.seat_not_offered, self.seat_not_tried = (
            refused.seat_not_offered,
            refused.seat_not_tried,
        )
        self.seat_given, self.starts_with = refused.seat_given, refused.starts_with
        self.turned_away = refused.turned_away
        self.partly_bound = PartlyBound(term, reading, telling, executor)
        self.bindings = Bindings(term, background, executor, self.partly_bound, refused)
        self._replanning = Replanning(
            executor, turns, settings.seats.max_replans, self.readiness, self.bindings.posting
        )
        self._sweeper = Sweeper(
            self.hints.nominations,
            keeper,
            reading.gangs,
            reading.source,
            term.leadership,
            clocks,
        )

    @property
    def recovered(self) -> bool:
        """Whether the records of a life before are taken in."""
        return self.readiness.recovered

    @property
    def crowded_budgets(self) -> Mapping[str, int]:
        """As ``Planner.crowded``."""
        return self.thread.planner.crowded

    # -- deciding -----------------------------------------------------------------------

    def _of_plans(self, effect: ForOthers) -> None:
        """Do what a step of a plan asks of other rooms, or have them take note of it."""
        match effect:
            case Search(preemption, why, masks):
                self._telling.background.spawn(
                    self._replanning.search_again(preemption, why, masks)
                )
            case SeatsReleased(preemption, why):
                self.bindings.released(preemption, why)
            case RoomFreed(nodes):
                self.evidence.freed(nodes)
            case Taken(pods):
                self.eviction_history.taken(pods)
            case Accepted(sent, _, _):
                self.eviction_history.sent(sent)
            case PlanEnded():
                self._plan_ended(effect)

    def _plan_ended(self, ended: PlanEnded) -> None:
        preemption, done, why = ended.preemption, ended.done, ended.why
        if self.admission.ended(preemption, done=done, seen=not self.readiness.behind()):
            self.admission.gave_up(preemption, self._reading.present_gang(preemption.key), why)
        self.bindings.ended(preemption, done=done, why=why)
        if done:
            self._reading.waiting.succeeded(preemption.key)
        elif ended.penal:
            self._reading.waiting.failed(preemption.key)

    # -- what the cache reports ---------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if old is None and new is not None and not new.node:
            key = self.resolver.member_key(new)
            if key is not None:
                self._reading.waiting.grown(key)
        self.evidence.observe(old, new)
        if old is not None and new is None and not old.node:
            # kube-scheduler has perhaps assumed it there, and keeps the room a moment longer.
            self.evidence.freed(self.offers.offered(old.uid))
        self._reading.pending_gangs.observe(old, new)
        self.eviction_history.observe(old, new)
        self.executor.observe(old, new)
        self.bookings.observe(old, new)
        self.refused_seats.observe(old, new)

    def observe_node(self, old: Node | None, new: Node | None) -> None:
        """Take note of one node event."""
        self.evidence.observe_node(old, new)

    # -- time ---------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, period: float = 0.25) -> None:
        """Look after preemptions and waiting gangs until ``stop`` is set."""
        rounds = {TICK: self.tick, PLANNING: self.rounds.round, SWEEP: self._sweep}
        await run_rounds(rounds, stop, period, self._term.heartbeats)

    async def tick(self) -> None:
        """Look at deadlines; waits for nothing."""
        if self.readiness.begun:
            self.offers.look()
            self.bindings.tick()
            self.executor.tick()
            self.rounds.tick_bookings()
            self.evidence.freed(self.reservations.take_freed())

    async def _sweep(self) -> None:
        """Do what nothing waits for."""
        for aside in self.records.take_untold():
            self.notices.record_aside(self.records.namespace, aside)
        if self.readiness.begun and not self.plans.victims.waiting:
            # What gangs whose definition was repaired were told last is not true any more.
            for key, waiting in self.telling.refused.repaired():
                self.hints.held_back.wake(waiting)
                self._reading.waiting.repaired(key)
            self.hints.held_back.round()
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
        while self._term.source.stale_for() > 0:
            self._term.heartbeats.beat(RECOVERY)
            await asyncio.sleep(FRESH_SECONDS)
        await self.admission.recover()
        bound = self._reading.snapshot().bound
        await self.eviction_history.recover(pod for pods in bound.values() for pod in pods)
        recovery = Recovery(
            self.executor, self._keeper, self._reading, self._telling, self._term.clocks
        )
        records = await recovery.run()
        # Verbs need not wait for the first look at all pods; a gang's question queues behind it.
        self.readiness.records_read()
        self.offers.begin()
        self._sweeper.begin()
        self._take_in_held_back(records=records)
        await self.thread.show(self._reading.snapshot)

    def _take_in_held_back(self, *, records: int) -> None:
        """Note the pods that plans of a life before may have kept waiting: which is not known, so
        all that were tried, or may have been. They are woken at once where one of the ``records``
        is over.

        Without records too, a pod that is treated alone may have asked for preemption in vain while
        no extender answered. Nothing is written on such grounds for namespaces that are not acted
        for.
        """
        schedulers, held_back = self.admission.schedulers(), self.hints.held_back
        snapshot = self._reading.snapshot()
        node, whole = next(iter(snapshot.nodes), ""), dict[GangKey, bool]()
        for pod in snapshot.pending.values():
            waits = not pod.gated and not pod.deleting
            waits = waits and pod.shape.scheduler in schedulers
            if not waits or self.reservations.of_member(pod.uid):
                continue
            if not self.admission.acts_for(pod.namespace, snapshot):
                continue
            key = self.resolver.member_key(pod)
            if key is not None and key not in whole:
                whole[key] = self.resolver.resolve(key, snapshot).starts_whole
            if node and pod.preempts and (key is None or not whole[key]):
                held_back.park(pod, node, soon=pod.tried)
            elif records and pod.tried:
                held_back.note(pod)
        if records > len(self.reservations):
            held_back.wake_all()

    async def close(self) -> None:
        """Stop for good: plans stay recorded, and the next start goes on with them.

        Verbs may still wait for a search. What it finds is not acted on, although the same
        process may lead again by then, with a coordinator that knows nothing of it.
        """
        self.thread.close()
        self.bindings.stop("this replica does not lead any more")
        await self._telling.background.close()


def _eviction_history(term: Term, reading: Reading, telling: Telling) -> EvictionHistory:
    """Return who was evicted before."""
    protection = term.settings.fairness.protection
    store = None
    if protection.enabled:
        records = term.records
        store = EvictedStore(
            term.client,
            records.namespace,
            records.signer,
            term.leadership,
            telling.background,
        )
    return EvictionHistory(protection, store, term.clocks, reading.gangs)


def coordinate(
    client: KubeApi,
    source: ClusterSource,
    settings: Settings,
    resolver: Resolver,
    namespace: str,
    *,
    record_key: bytes = b"",
    clocks: Clocks | None = None,
    random: random_module.Random | None = None,
    leadership: Leadership | None = None,
    heartbeats: Heartbeats | None = None,
    blind_seconds: float = BLIND_SECONDS,
    listener: Listener | None = None,
    verifier: Verifier | None = None,
) -> Coordinator:
    """Return a coordinator that acts through ``client``.

    ``namespace`` is where plan records are kept, ``record_key`` what they are signed with (b"":
    they are not); ``listener`` hears of decisions, evictions and best-effort writes that failed.
    ``blind_seconds``: for how long after the start a life before may have offered nodes.
    ``verifier`` is asked before pods are evicted; None: nobody.
    """
    clocks, listener = clocks or Clocks(), listener or Listener()
    evictor = Evictor(client, settings.eviction, clocks=clocks, rng=random, listener=listener)
    binder = Binder(client, settings.bind.post_seconds, clocks=clocks, rng=random)
    return Coordinator(
        Term(
            client=client,
            source=source,
            settings=settings,
            resolver=resolver,
            records=Records(client, namespace, Signer(record_key)),
            evictor=evictor,
            notifier=Notifier(client, listener, clocks),
            binder=binder,
            leadership=leadership or Alone(),
            heartbeats=heartbeats or Heartbeats(),
            clocks=clocks,
            random=random or random_module.Random(),
            blind_seconds=blind_seconds,
            listener=listener,
            verifier=verifier,
        )
    )
