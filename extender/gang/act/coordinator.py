"""Takes gangs from a question to a plan in flight.

Verbs and the planning loop ask ``ensure``. Searching is serialised by a lock, so two gangs are
never planned against the same free room; the lock is held for nothing but the search and the
comparison of its answer with the newest state. Deadlines have a loop of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random

import structlog

from extender.gang.act.background import Background
from extender.gang.act.book import Book, Flight, State
from extender.gang.act.clocks import Clocks
from extender.gang.act.evictor import Evictor
from extender.gang.act.evidence import Evidence
from extender.gang.act.flights import Flights
from extender.gang.act.heartbeats import Heartbeats
from extender.gang.act.keeper import RecordKeeper
from extender.gang.act.last_check import KeptGangs
from extender.gang.act.leadership import Leadership
from extender.gang.act.notices import Notices
from extender.gang.act.notifier import Notifier
from extender.gang.act.offers import Offers
from extender.gang.act.pending_gangs import PendingGangs, ready
from extender.gang.act.planner_thread import PLANNER, Masks, PlannerThread
from extender.gang.act.records import Records
from extender.gang.act.recovery import Recovery
from extender.gang.act.refused_seats import RefusedSeats
from extender.gang.act.source import Source
from extender.gang.act.sweeper import Sweeper
from extender.gang.act.waiting import Version, Waiting
from extender.gang.plan.planner import Planner
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.plan.validity import unchanged
from extender.gang.tell.decisions import (
    Decision,
    Decisions,
    Outcome,
    Question,
    of_plan,
    of_refusal,
)
from extender.groups.resolver import Resolver
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Refusal
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")

COMPARISONS = 3
"""How often a gang is searched for anew because the cluster changed meanwhile."""
ANSWERED_SECONDS = 3.0
"""How long members that were given their seat are waited for before a plan is changed."""
LOOK_SECONDS = 0.1
RECORDED_SECONDS = 1.0
"""How long an answer waits for the plan's record to be written."""
TICK, PLANNING, SWEEP = "tick", "planning", "sweep"
LOOPS = (TICK, PLANNING, SWEEP, PLANNER)
"""What has to show life while this process acts."""
NEVER = (-1, -1, -1)
"""A version that is never the present one."""


class Coordinator:
    """Owns the book of plans in flight. One event loop only."""

    def __init__(
        self,
        source: Source,
        settings: Settings,
        resolver: Resolver,
        records: Records,
        evictor: Evictor,
        notifier: Notifier,
        *,
        leadership: Leadership,
        heartbeats: Heartbeats,
        clocks: Clocks,
        random: Random,
        blind_seconds: float,
        decided: Callable[[Decision], None],
    ) -> None:
        self.book = Book()
        self.decisions = Decisions()
        self.resolver = resolver
        self.leadership = leadership
        self._heartbeats = heartbeats
        self.recovered = False
        self._source = source
        self._settings = settings
        self._clocks = clocks
        self._decided = decided
        self._planner_thread = PlannerThread(
            Planner(settings, resolver), settings.plan.seconds, clocks.monotonic, heartbeats
        )
        self._lock = asyncio.Lock()
        self.evidence = Evidence(clocks.monotonic)
        self.offers = Offers(clocks.monotonic, blind_seconds)
        self._pending_gangs = PendingGangs(resolver.member_key, settings.scheduler_names)
        self._waiting = Waiting(
            clocks.monotonic, settings.plan.retry_seconds, settings.groups.settle_seconds
        )
        self._background = Background()
        self._gangs = KeptGangs(resolver)
        self.notices = Notices(notifier, self.book, self._snapshot, clocks, self._background)
        self.records = records
        records.told = lambda aside: self.notices.record_aside(records.namespace, aside)
        self._keeper = RecordKeeper(records, leadership, self._background)
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
        )
        self._sweeper = Sweeper(
            self.notices, self._keeper, self._gangs, self._snapshot, leadership, clocks.monotonic
        )
        refused = RefusedSeats(self.book, clocks.monotonic, self._replan)
        self.seat_not_offered = refused.seat_not_offered
        self.seat_given = self.flights.seat_given
        self.crowded = self.flights.crowded

    def _snapshot(self) -> Snapshot:
        return self._source.snapshot()

    # -- asking -------------------------------------------------------------------------

    def gang_of(self, pod: Pod, snapshot: Snapshot) -> Gang | None:
        """Return the pod's gang as resolved, None for a pod of no gang."""
        key = self.resolver.member_key(pod)
        return None if key is None else self.resolver.resolve(key, snapshot)

    def stale(self) -> str | None:
        """Return why gangs cannot be decided now: the cache may be behind the cluster."""
        age = self._source.stale_for()
        if age > self._settings.cache.stale_seconds:
            return "the cache is stale: a watch is down and has brought nothing for too long"
        return None

    async def ensure(
        self,
        key: GangKey,
        verb: str,
        offered: Masks | None = None,
        single: Gang | None = None,
        masks: Masks | None = None,
    ) -> Flight | Refusal:
        """Return the gang's plan in flight, making one if that can be; else why not.

        ``offered`` tells, per member uid, which nodes kube-scheduler accepts for
        it at this moment. ``single`` is a gang of one made for a pod of no gang,
        with the nodes it must not use in ``masks``. Raises NotReady before
        recovery is over, and while another replica leads.
        """
        if not self.recovered or not self._source.synced:
            raise NotReady("caches are not synced or plan records not read yet")
        if not self.leadership.acts:
            raise NotReady("another replica leads")
        known = self.known(key)
        if known is not None:
            return known
        stale = self.stale()
        if stale is not None:
            return self._note(Refusal(gang=key, code="stale", message=stale), verb, 0.0)
        async with self._lock:
            flight = self.book.get(key)
            if flight is not None:
                return flight
            answer = await self._plan(key, verb, offered, single, masks or {})
        if isinstance(answer, Flight) and not answer.victims and not answer.waits:
            # Its seats are free: a moment more, and the asker can be given one.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(answer.acting.wait(), RECORDED_SECONDS)
        return answer

    def known(self, key: GangKey) -> Flight | Refusal | None:
        """Return the gang's plan in flight or a refusal that still stands; no search."""
        flight = self.book.get(key)
        if flight is not None or self.stale() is not None:
            return flight
        return self._waiting.kept(key, self._version())

    async def ask(self, gang: Gang, masks: Masks) -> Plan | Refusal:
        """Return what would be planned, without acting on it."""
        async with self._lock:
            return await self._search(gang, self.flights.shown(), masks, None)

    def _version(self) -> Version:
        evictions = self.flights.evictions
        evictions.unevictable()  # some refusals may just have been forgotten
        return (self._source.generation, self.book.version, evictions.version)

    async def _plan(
        self,
        key: GangKey,
        verb: str,
        offered: Masks | None,
        single: Gang | None,
        masks: Masks,
        before: Flight | None = None,
    ) -> Flight | Refusal:
        """Search, compare with the newest state, hold the seats. The lock must be held.

        ``before`` is the gang's plan that the new one takes the place of.
        """
        for _ in range(COMPARISONS):
            snapshot = self.flights.shown()
            version = self._version()
            gang = single or self.resolver.resolve(key, snapshot)
            waits = self._unseen(gang) if before else self._must_wait(gang)
            if waits is not None:
                return self._refuse(waits, version, verb, 0.0)
            began = self._clocks.monotonic()
            struck = self._struck(gang, snapshot, masks)
            answer = await self._search(gang, snapshot, struck, offered)
            seconds = self._clocks.monotonic() - began
            if isinstance(answer, Refusal):
                # The list may be older than the snapshot: not a reason to stay with the answer.
                return self._refuse(answer, version if not offered else NEVER, verb, seconds)
            draft = self.flights.draft(
                answer,
                replans=0 if before is None else before.replans + 1,
                started=None if before is None else before.started,
            )
            why = await self._outdated(draft, gang, snapshot)
            if before is not None and before.over:
                why = "its plan ended while another one was searched for"
                return self._refuse(
                    Refusal(gang=key, code="changed", message=why), NEVER, verb, seconds
                )
            if not why:
                return self._commit(draft, verb, seconds)
        refusal = Refusal(
            gang=key, code="changed", message=f"the cluster changes faster than it is read: {why}"
        )
        return self._refuse(refusal, NEVER, verb, seconds)

    def _struck(self, gang: Gang, snapshot: Snapshot, masks: Masks) -> dict[str, frozenset[str]]:
        struck = dict(masks)
        for uid, names in self.evidence.masks(gang, snapshot.nodes).items():
            struck[uid] = struck.get(uid, frozenset()) | names
        return struck

    def _must_wait(self, gang: Gang) -> Refusal | None:
        return self._waiting.must_wait(gang) or self._unseen(gang)

    def _unseen(self, gang: Gang) -> Refusal | None:
        pod = self.evidence.unseen(gang)
        if pod is None or gang.problems or not gang.complete:
            return None
        kinds = ", ".join(pod.shape.unmodelled)
        return Refusal(
            gang=gang.key,
            code="unseen",
            message=f"{pod.name} uses {kinds}, and kube-scheduler has not said lately "
            "which nodes it accepts for it",
        )

    async def _search(
        self, gang: Gang, snapshot: Snapshot, masks: Masks, offered: Masks | None
    ) -> Plan | Refusal:
        holds = tuple(self.book.holds())
        self.decisions.searched(Question(gang.key, snapshot, holds, masks, dict(offered or {})))
        return await self._planner_thread.plan(gang, snapshot, holds, masks, offered)

    async def _outdated(self, draft: Flight, gang: Gang, snapshot: Snapshot) -> str:
        """Return why a plan made on ``snapshot`` does not hold now, "" when it does."""
        newest = self.flights.shown()
        plan = draft.plan
        if not unchanged(plan, gang.key, snapshot, newest):
            present = self.gang_now(gang, newest)
            going = (*draft.victims.values(), *draft.waits.values())
            taken = {*plan.takes_over, gang.key}
            holds = [hold for hold in self.book.holds() if hold.gang not in taken]
            why = await self._planner_thread.check(present, draft.seats, going, newest, holds)
            if why:
                return why
        return self._takes_from_binding(draft) or self.flights.problem(draft)

    def gang_now(self, gang: Gang, snapshot: Snapshot) -> Gang:
        """Return the gang as it is in a newer snapshot."""
        if gang.key.dialect != SINGLE:
            return self.resolver.resolve(gang.key, snapshot)
        uid = gang.members[0].uid
        return single_gang(snapshot.pending[uid]) if uid in snapshot.pending else gang

    def _takes_from_binding(self, draft: Flight) -> str:
        """Seats and members of a gang that is being seated are left alone until it sits."""
        broken = {victim.gang for victim in draft.plan.victims}
        for other in self.book:
            wanted = other.key in draft.plan.takes_over or str(other.key) in broken
            if wanted and other.binding and other.key != draft.key:
                return f"the members of {other.key} are just taking their seats"
        return ""

    # -- deciding -----------------------------------------------------------------------

    def _commit(self, draft: Flight, verb: str, seconds: float) -> Flight:
        """Hold the seats; from here on the flight goes on by itself."""
        plan = draft.plan
        broken = {victim.gang for victim in plan.victims}
        for other in self.book:
            if other.key == draft.key:
                self.flights.leave(other)
            elif other.key in plan.takes_over:
                why = f"its seats go to the more urgent {plan.gang}"
                self.flights.end(other, Outcome.GAVE_UP, why)
            elif str(other.key) in broken:
                why = f"its members go for the more urgent {plan.gang}"
                self.flights.end(other, Outcome.GAVE_UP, why)
        self._waiting.planned(plan.gang)
        self._decide(of_plan(plan, time=self._clocks.wall(), verb=verb, seconds=seconds))
        self.flights.begin(draft)
        return draft

    def _refuse(self, refusal: Refusal, version: Version, verb: str, seconds: float) -> Refusal:
        self._waiting.refuse(refusal, version, seconds)
        return self._note(refusal, verb, seconds)

    def _note(self, refusal: Refusal, verb: str, seconds: float) -> Refusal:
        self._decide(of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds))
        self.notices.refused(refusal)
        return refusal

    def _decide(self, decision: Decision) -> None:
        if self.decisions.add(decision):
            try:
                self._decided(decision)
            except Exception:  # telling must never stand in the way of acting
                log.exception("decision not told", gang=decision.gang)

    def _flight_ended(self, flight: Flight, done: bool, penal: bool) -> None:
        if done:
            self._waiting.succeeded(flight.key)
        elif penal:
            self._waiting.failed(flight.key)

    # -- changing a plan ----------------------------------------------------------------

    def _replan(self, flight: Flight, why: str, masks: Masks | None = None) -> None:
        """Search for another plan in the place of one that does not hold any more."""
        if flight.over or flight.state is State.CHANGING:
            return
        self.flights.change(flight)
        self._background.spawn(self._change(flight, why, masks or {}))

    async def _change(self, flight: Flight, why: str, masks: Masks) -> None:
        await self._answered_sit(flight)
        while self.stale() is not None and not flight.over:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)  # on an old picture nothing is decided
        async with self._lock:
            if flight.over:
                return
            if flight.replans >= self._settings.seats.max_replans:
                why += f", and the plan was changed {flight.replans} times already"
                self.flights.end(flight, Outcome.GAVE_UP, why, penal=True)
                return
            single = None
            if flight.key.dialect == SINGLE:
                single = single_gang(next(iter(flight.pods.values())))
            try:
                result = await self._plan(flight.key, "loop", None, single, masks, flight)
            except Exception:
                self.flights.end(flight, Outcome.GAVE_UP, f"{why}; the search failed", penal=True)
                raise
            if isinstance(result, Refusal):
                why += f", and there is no other plan: {result.message}"
                # A gang that is whole, or gone, needs no penalty; one that cannot fit waits.
                self.flights.end(
                    flight, Outcome.GAVE_UP, why, penal=result.code in ("infeasible", "changed")
                )

    async def _answered_sit(self, flight: Flight) -> None:
        """Wait a moment for members that were given a seat: they are bound there, or ask again."""
        for _ in range(round(ANSWERED_SECONDS / LOOK_SECONDS)):
            if not (flight.answered or flight.presumed) or flight.over:
                return
            await asyncio.sleep(LOOK_SECONDS)
        flight.answered.clear()

    # -- what the cache reports ---------------------------------------------------------

    def observe(self, old: Pod | None, new: Pod | None) -> None:
        """Take note of one pod event (None: it did not, or does not, exist)."""
        if old is None and new is not None and not new.node:
            key = self.resolver.member_key(new)
            if key is not None:
                self._waiting.grown(key)
        self._pending_gangs.observe(old, new)
        self.flights.observe(old, new)

    # -- time ---------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, period: float = 0.25) -> None:
        """Look after flights and waiting gangs until ``stop`` is set."""
        rounds = {TICK: self.tick, PLANNING: self._plan_waiting, SWEEP: self._sweeper.round}
        await asyncio.gather(
            *(self._every(period, stop, name, work) for name, work in rounds.items())
        )

    async def _every(
        self, period: float, stop: asyncio.Event, name: str, work: Callable[[], Awaitable[None]]
    ) -> None:
        while not stop.is_set():
            self._heartbeats.beat(name)
            try:
                await work()
            except Exception:  # one bad gang must not end the loop for all others
                log.exception("a round failed", loop=name)
            try:
                await asyncio.wait_for(stop.wait(), period)
            except TimeoutError:
                continue
        self._heartbeats.rest(name)

    async def tick(self) -> None:
        """Look at deadlines; waits for nothing."""
        if self.recovered and self._source.synced:
            self.flights.tick()

    async def _plan_waiting(self) -> None:
        """Plan gangs that wait and that nobody has asked about, most urgent first."""
        if not self.recovered or not self._source.synced:
            return
        await self._planner_thread.show(self._snapshot)
        if self.stale() is None and self.leadership.acts:
            waiting = [key for key in self._pending_gangs.keys() if self.book.get(key) is None]  # noqa: SIM118
            for gang in ready(waiting, self._gangs, self._snapshot()):
                self._heartbeats.beat(PLANNING)
                await self.ensure(gang.key, "loop")

    # -- restart ------------------------------------------------------------------------

    async def recover(self) -> None:
        """Read the plan records and go on with each, finish it, or drop it.

        To be called once, after the caches are synced and before any verb is
        answered. Raises ApiError when the records cannot be read: acting
        without them could forget seats.
        """
        recovery = Recovery(
            self.flights, self._keeper, self._snapshot, self._gangs, self._clocks, self._decide
        )
        await recovery.run()
        # Verbs need not wait for the first look at all pods; a gang's question queues behind it.
        self.recovered = True
        self.offers.begin()
        self._sweeper.begin()
        await self._planner_thread.show(self._snapshot)

    async def close(self) -> None:
        """Stop background work. Plans stay recorded; the next start goes on with them."""
        await self._background.close()
        self._planner_thread.close()
