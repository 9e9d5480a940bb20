"""Takes gangs from a question to a plan in flight.

Verbs and the planning loop ask ``ensure``. Searching is serialised by a lock, so two gangs are
never planned against the same free room; the lock is held for nothing but the search and the
comparison of its answer with the newest state. Deadlines have a loop of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, Protocol

import structlog

from extender.gang.act.background import Background
from extender.gang.act.book import Book, Flight, State
from extender.gang.act.clocks import Clocks
from extender.gang.act.evictor import Evictor
from extender.gang.act.evidence import Evidence
from extender.gang.act.flights import Flights
from extender.gang.act.keeper import RecordKeeper
from extender.gang.act.last_check import KeptGangs
from extender.gang.act.leadership import Leadership
from extender.gang.act.notices import Notices
from extender.gang.act.notifier import Notifier
from extender.gang.act.pending_gangs import PendingGangs
from extender.gang.act.planner_thread import Masks, PlannerThread
from extender.gang.act.records import Records
from extender.gang.act.recovery import Recovery
from extender.gang.act.waiting import Waiting
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
from extender.kube.errors import ApiError
from extender.model.errors import NotReady
from extender.model.gang import Gang
from extender.model.objects import GangKey, Pod
from extender.model.plan import Plan, Refusal
from extender.model.settings import Settings
from extender.model.snapshot import Snapshot

log = structlog.get_logger("gang")

MISSED_SECONDS = 3.0
"""A seat that kube-scheduler does not offer for this long is changed: its own cache
may be behind ours by a moment, but not by seconds."""
COMPARISONS = 3
"""How often a gang is searched for anew because the cluster changed meanwhile."""
ANSWERED_SECONDS = 5.0
"""How long members that were given their seat are waited for before a plan is changed."""
LOOK_SECONDS = 0.1
RECORDED_SECONDS = 1.0
"""How long an answer waits for the plan's record to be written."""
SWEEP_SECONDS = 30.0
NEVER = (-1, -1)
"""A version that is never the present one."""


class Source(Protocol):
    """What the coordinator needs of the cache."""

    @property
    def synced(self) -> bool:
        """Whether every list has been read once."""

    @property
    def generation(self) -> int:
        """Grows with every change; cheaper than a snapshot."""

    def snapshot(self) -> Snapshot:
        """Return the present state."""

    def stale_for(self) -> float:
        """Return how many seconds a needed watch has been silent while down."""


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
        clocks: Clocks,
        random: Random,
        decided: Callable[[Decision], None],
    ) -> None:
        self.book = Book()
        self.decisions = Decisions()
        self.resolver = resolver
        self.leadership = leadership
        self.recovered = False
        self._source = source
        self._settings = settings
        self._clocks = clocks
        self._decided = decided
        self._planner_thread = PlannerThread(
            Planner(settings, resolver), settings.plan.seconds, clocks.monotonic
        )
        self._lock = asyncio.Lock()
        self.evidence = Evidence(clocks.monotonic)
        self._pending_gangs = PendingGangs(resolver.member_key, settings.scheduler_names)
        self._waiting = Waiting(
            clocks.monotonic, settings.plan.retry_seconds, settings.groups.settle_seconds
        )
        self._background = Background()
        self._gangs = KeptGangs(resolver)
        self.notices = Notices(notifier, self.book, self._snapshot, clocks, self._background)
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
            self._decide,
            self._flight_ended,
            self._replan,
        )
        self._swept = clocks.monotonic()

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

    def _version(self) -> tuple[int, int]:
        return (self._source.generation, self.book.version)

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
            if before is not None and before.over:
                why = "its plan ended while another one was searched for"
                return self._refuse(
                    Refusal(gang=key, code="changed", message=why), NEVER, verb, seconds
                )
            draft = self.flights.draft(
                answer,
                replans=0 if before is None else before.replans + 1,
                started=None if before is None else before.started,
            )
            why = await self._outdated(draft, gang, snapshot)
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

    def _refuse(
        self, refusal: Refusal, version: tuple[int, int], verb: str, seconds: float
    ) -> Refusal:
        self._waiting.refuse(refusal, version, seconds)
        return self._note(refusal, verb, seconds)

    def _note(self, refusal: Refusal, verb: str, seconds: float) -> Refusal:
        self._decide(of_refusal(refusal, time=self._clocks.wall(), verb=verb, seconds=seconds))
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

    def seat_not_offered(self, flight: Flight, pod: Pod, others: frozenset[str]) -> None:
        """Note that kube-scheduler would not put the member on its seat.

        Swap with an interchangeable member that cannot have its own seat either;
        else, when it stays so, plan again without that node. Before the seats
        are open their room is not there, and nothing else is to be expected.
        """
        if flight.state is not State.OPEN:
            return
        flight.answered.discard(pod.uid)
        for other, node in flight.seats.items():
            twin = flight.pods[other]
            if other in flight.missed and node in others and _alike(twin, pod):
                self.book.swap(flight, pod.uid, other)
                flight.missed.clear()
                return
        now = self._clocks.monotonic()
        since = flight.missed.setdefault(pod.uid, now)
        if min(now - since, now - flight.since) >= MISSED_SECONDS:
            flight.missed.clear()
            node = flight.seats[pod.uid]
            alike = [
                uid for uid, twin in flight.pods.items() if uid == pod.uid or _alike(twin, pod)
            ]
            masks = dict.fromkeys(alike, frozenset({node}))
            self._replan(flight, f"kube-scheduler does not accept {pod.name} on {node}", masks)

    def _replan(self, flight: Flight, why: str, masks: Masks | None = None) -> None:
        """Search for another plan in the place of one that does not hold any more."""
        if flight.over or flight.state is State.CHANGING:
            return
        self.flights.change(flight)
        self._background.spawn(self._change(flight, why, masks or {}))

    async def _change(self, flight: Flight, why: str, masks: Masks) -> None:
        await self._answered_sit(flight)
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
            if not flight.answered or flight.over:
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
        await asyncio.gather(
            _every(period, stop, self.tick),
            _every(period, stop, self._plan_waiting),
            _every(period, stop, self._sweep),
        )

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
            for gang in self._unplanned():
                await self.ensure(gang.key, "loop")

    async def _sweep(self) -> None:
        """Now and then, remove what lives before may have left: records, nominations."""
        now = self._clocks.monotonic()
        if not self.recovered or now - self._swept < SWEEP_SECONDS or not self.leadership.acts:
            return
        self._swept = now
        self._clear_orphans()
        try:
            await self._keeper.sweep()
        except ApiError as error:
            log.warning("left plan records not looked for", error=str(error))

    def _clear_orphans(self) -> None:
        snapshot = self._snapshot()

        def starts_whole(key: GangKey) -> bool:
            gang = self._gangs.resolve(key, snapshot)
            return gang.starts_whole and not gang.problems

        self.notices.clear_orphans(starts_whole, self.resolver.member_key)

    def _unplanned(self) -> list[Gang]:
        """Return gangs that kube-scheduler has tried and that have no plan, most urgent first."""
        keys = [key for key in self._pending_gangs.keys() if self.book.get(key) is None]  # noqa: SIM118
        if not keys:
            return []
        snapshot = self._snapshot()
        gangs = [self.resolver.resolve(key, snapshot) for key in keys]
        ready = [gang for gang in gangs if gang.starts_whole and gang.missing and gang.complete]
        ready.sort(key=lambda g: (-g.preemptor_priority, min(p.created for p in g.members), g.key))
        return ready

    # -- restart ------------------------------------------------------------------------

    async def recover(self) -> None:
        """Read the plan records and go on with each, finish it, or drop it.

        To be called once, after the caches are synced and before any verb is
        answered. Raises ApiError when the records cannot be read: acting
        without them could forget seats.
        """
        recovery = Recovery(self.flights, self._keeper, self._snapshot, self._clocks, self._decide)
        await recovery.run()
        await self._planner_thread.show(self._snapshot)
        self.recovered = True
        self._clear_orphans()

    async def close(self) -> None:
        """Stop background work. Plans stay recorded; the next start goes on with them."""
        await self._background.close()
        self._planner_thread.close()


async def _every(
    period: float, stop: asyncio.Event, work: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    while not stop.is_set():
        try:
            await work()
        except Exception:  # one bad gang must not end the loop for all others
            log.exception("a loop's round failed", loop=work.__name__)
        try:
            await asyncio.wait_for(stop.wait(), period)
        except TimeoutError:
            continue


def _alike(one: Pod, other: Pod) -> bool:
    """Whether two members may trade seats."""
    return one.uid != other.uid and (one.requests, one.shape) == (other.requests, other.shape)
