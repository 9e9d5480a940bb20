"""One term of acting: its parts, what the cache reports to them, and their rounds.

Verbs and the planning loop ask ``answering.py``; ``turns.py`` searches, one gang after another,
``replanning.py`` does so for plans that do not hold any more. Deadlines have a loop of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from extender.gang.controller.executor import ForOthers
from extender.gang.controller.planner_thread import PLANNER
from extender.gang.controller.planning_rounds import PLANNING
from extender.gang.controller.recovery import Recovery
from extender.gang.controller.replanning import Replanning
from extender.gang.controller.rounds import run_rounds
from extender.gang.controller.sweeper import Sweeper
from extender.gang.controller.term import Term, reading_of, telling_of
from extender.gang.controller.term_parts import acting_of, planning_of, seating_of
from extender.gang.core.preemption import Accepted, PlanEnded, Search, SeatsReleased, Taken
from extender.model.objects import GangKey, Node, Pod

FRESH_SECONDS = 0.1
"""How often it is looked whether all watches are up again, before records are judged."""
TICK, SWEEP, RECOVERY = "tick", "sweep", "recovery"
LOOPS = (TICK, PLANNING, SWEEP, PLANNER)
"""What has to show life while this process acts."""


class Coordinator:
    """Owns the book of plans in flight. One event loop only."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._reading = reading = reading_of(term)
        self._telling = telling = telling_of(term, reading)
        self._acting = acting = acting_of(
            term,
            reading,
            telling,
            others=self._of_plans,
        )
        self._planning = planning = planning_of(term, reading, telling, acting)
        self._seating = seating = seating_of(term, reading, telling, acting.executor)
        self._replanning = Replanning(
            acting.executor,
            planning.turns,
            term.settings.seats.max_replans,
            reading.readiness,
            seating.bindings.posting,
        )
        self._sweeper = Sweeper(
            telling.notices,
            acting.keeper,
            reading.gangs,
            reading.source,
            term.leadership,
            term.clocks,
        )
        # What verbs, metrics and whoever shows the state ask for.
        self.resolver, self.leadership, self.records = term.resolver, term.leadership, term.records
        self.clocks = term.clocks
        self.reservations, self.readiness = reading.reservations, reading.readiness
        self.evidence, self.offers = reading.evidence, reading.offers
        # Whom we kept off such a node kube-scheduler has left out of its candidates for that.
        self.reservations.vacated = lambda node: self.evidence.freed((node,))
        self.stale, self.require_ready = self.readiness.stale, self.readiness.require
        self.notices, self.telling = telling.notices, telling.decisions
        self.decisions = self.telling.decisions
        self.admission, self.executor = acting.admission, acting.executor
        self.plans, self.preconditions = self.executor.plans, self.executor.preconditions
        self.eviction_history = acting.eviction_history
        self.crowded, self.takes_unit = self.preconditions.crowded, self.plans.takes
        answering = planning.answering
        self.known, self.ensure, self.ask = answering.known, answering.ensure, answering.ask
        self.bookings = planning.bookings
        self.bindings, self.partly_bound = seating.bindings, seating.partly_bound
        planning.turns.undoing = self.partly_bound.undoing
        refused = seating.refused_seats
        self.seat_not_offered = refused.seat_not_offered
        self.seat_not_tried = refused.seat_not_tried
        self.seat_given, self.starts_with = refused.seat_given, refused.starts_with
        self.turned_away = refused.turned_away

    @property
    def recovered(self) -> bool:
        """Whether the records of a life before are taken in."""
        return self.readiness.recovered

    @property
    def crowded_budgets(self) -> Mapping[str, int]:
        """As ``Planner.crowded``."""
        return self._planning.thread.planner.crowded

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
            case Taken(pods):
                self.eviction_history.taken(pods)
            case Accepted(sent, _, _):
                self.eviction_history.sent(sent)
            case PlanEnded():
                self._plan_ended(effect)

    def _plan_ended(self, ended: PlanEnded) -> None:
        preemption, done, why = ended.preemption, ended.done, ended.why
        if self.admission.ended(preemption, done=done, seen=self.stale() is None):
            self.admission.gave_up(preemption, self._reading.present_gang(preemption.key), why)
        self.bindings.ended(preemption, done=done, why=why)
        # kube-scheduler keeps room for those whom we nominated until it hears of their clearing.
        self.evidence.freed(set(preemption.seats.values()))
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
        self._seating.refused_seats.observe(old, new)

    def observe_node(self, old: Node | None, new: Node | None) -> None:
        """Take note of one node event."""
        self.evidence.observe_node(old, new)

    # -- time ---------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, period: float = 0.25) -> None:
        """Look after preemptions and waiting gangs until ``stop`` is set."""
        rounds = {TICK: self.tick, PLANNING: self._planning.rounds.round, SWEEP: self._sweep}
        await run_rounds(rounds, stop, period, self._term.heartbeats)

    async def tick(self) -> None:
        """Look at deadlines; waits for nothing."""
        if self.readiness.begun:
            self.offers.look()
            self.bindings.tick()
            self.executor.tick()
            self._planning.rounds.tick_bookings()

    async def _sweep(self) -> None:
        """Do what nothing waits for."""
        if self.readiness.begun and not self.plans.victims.waiting:
            for key in self.telling.round():
                self._reading.waiting.repaired(key)
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
            self.executor, self._acting.keeper, self._reading, self._telling, self._term.clocks
        )
        records = await recovery.run()
        # Verbs need not wait for the first look at all pods; a gang's question queues behind it.
        self.readiness.recovered = True
        self.offers.begin()
        self._sweeper.begin()
        self._take_in_held_back(records=records)
        await self._planning.thread.show(self._reading.snapshot)

    def _take_in_held_back(self, *, records: int) -> None:
        """Note the pods that plans of a life before may have kept waiting: which is not known, so
        all that were tried, or may have been. They are woken at once where one of the ``records``
        is over.

        Without records too, a pod that is treated alone may have asked for preemption in vain while
        no extender answered. Nothing is written on such grounds for namespaces that are not acted
        for.
        """
        schedulers, held_back = self.admission.schedulers(), self.notices.held_back
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
        self._planning.thread.close()
        self.bindings.stop("this replica does not lead any more")
        await self._telling.background.close()
