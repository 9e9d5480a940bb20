"""Takes gangs from a question to a plan in flight.

Verbs and the controller loop ask ``ensure``; ``tick`` looks at deadlines and at
gangs nobody has asked about. Planning is serialised by a lock, so two gangs are
never planned against the same free room, and an eviction is only ever sent for
a plan whose seats are held and whose record is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog
from msgspec.structs import replace

from extender.gang.act.book import Book, Flight, State
from extender.gang.act.clocks import Clocks
from extender.gang.act.evictor import Evictor
from extender.gang.act.evidence import Evidence
from extender.gang.act.flights import Flights
from extender.gang.act.leadership import Leadership
from extender.gang.act.notifier import Notifier
from extender.gang.act.pending_gangs import PendingGangs
from extender.gang.act.planner_thread import Masks, PlannerThread
from extender.gang.act.record import Records
from extender.gang.act.waiting import Waiting
from extender.gang.plan.planner import Planner
from extender.gang.plan.single import SINGLE, single_gang
from extender.gang.tell.decisions import Decision, Decisions, Question, of_plan, of_refusal
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
        decided: Callable[[Decision], None],
    ) -> None:
        self.book = Book()
        self.leadership = leadership
        self.decisions = Decisions()
        self.resolver = resolver
        self.recovered = False
        self._source = source
        self._settings = settings
        self._clocks = clocks
        self._decided = decided
        self._planner_thread = PlannerThread(
            Planner(settings, resolver), settings.plan.seconds, self._clocks.monotonic
        )
        self._lock = asyncio.Lock()
        self._masks: dict[GangKey, dict[str, frozenset[str]]] = {}
        self.evidence = Evidence(self._clocks.monotonic)
        self._pending_gangs = PendingGangs(resolver.member_key, settings.scheduler_names)
        self._waiting = Waiting(
            self._clocks.monotonic, settings.plan.retry_seconds, settings.groups.settle_seconds
        )
        self.flights = Flights(
            self.book,
            settings,
            source.snapshot,
            records,
            evictor,
            notifier,
            self._clocks,
            self._decide,
            self._flight_ended,
        )

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
        recovery is over.
        """
        if not self.recovered or not self._source.synced:
            raise NotReady("caches are not synced or plan records not read yet")
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
            return await self._plan(key, verb, offered, single, masks)

    def known(self, key: GangKey) -> Flight | Refusal | None:
        """Return the gang's plan in flight or a refusal that still stands; no search."""
        flight = self.book.get(key)
        if flight is not None or key in self._masks or self.stale() is not None:
            return flight
        return self._waiting.kept(key, self._version())

    async def ask(self, gang: Gang, masks: Masks) -> Plan | Refusal:
        """Return what would be planned, without acting on it."""
        async with self._lock:
            snapshot = self.flights.leaving.shown_in(self._source.snapshot())
            return await self._search(gang, snapshot, masks, None)

    def _version(self) -> tuple[int, int]:
        return (self._source.generation, self.book.version)

    async def _plan(
        self,
        key: GangKey,
        verb: str,
        offered: Masks | None,
        single: Gang | None,
        masks: Masks | None,
    ) -> Flight | Refusal:
        snapshot = self.flights.leaving.shown_in(self._source.snapshot())
        version = self._version()
        gang = single or self.resolver.resolve(key, snapshot)
        waits = self._waiting.must_wait(gang) or self._unseen(gang)
        if waits is not None:
            return self._refuse(waits, version, verb, 0.0)
        struck = dict(self._masks.get(key, {}))
        for more in (masks or {}, self.evidence.masks(gang, snapshot.nodes)):
            for uid, names in more.items():
                struck[uid] = struck.get(uid, frozenset()) | names
        began = self._clocks.monotonic()
        answer = await self._search(gang, snapshot, struck, offered)
        seconds = self._clocks.monotonic() - began
        self._masks.pop(key, None)
        if isinstance(answer, Refusal):
            # The list may be older than the snapshot: not a reason to stay with the answer.
            return self._refuse(answer, version if not offered else NEVER, verb, seconds)
        return await self._commit(answer, gang, verb, seconds)

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

    # -- deciding -----------------------------------------------------------------------

    async def _commit(self, plan: Plan, gang: Gang, verb: str, seconds: float) -> Flight | Refusal:
        """Hold the seats, write the record, then (and only then) start the evictions."""
        broken = {victim.gang for victim in plan.victims}
        for other in self.book:
            if other.key in plan.takes_over:
                self.flights.end(other, "gave-up", f"its seats go to the more urgent {plan.gang}")
            elif str(other.key) in broken:
                self.flights.end(
                    other, "gave-up", f"its members go for the more urgent {plan.gang}"
                )
        flight = self.flights.new(plan, {pod.uid: pod for pod in gang.members})
        self.flights.enter(flight)
        try:
            await self.flights.record(plan)
        except ApiError as error:
            self.flights.leave(flight)
            why = f"the plan's record cannot be written, so nothing is evicted: {error}"
            refusal = Refusal(gang=plan.gang, code="api", message=why)
            return self._refuse(refusal, self._version(), verb, seconds)
        self._waiting.planned(plan.gang)
        self._decide(of_plan(plan, time=self._clocks.wall(), verb=verb, seconds=seconds))
        if not flight.cancelled:
            self.flights.start(flight)
        return flight

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

    # -- what verbs report --------------------------------------------------------------

    def seat_not_offered(self, flight: Flight, pod: Pod, others: frozenset[str]) -> None:
        """Note that kube-scheduler would not put the member on its seat.

        Swap with an interchangeable member that cannot have its own seat either;
        else, when it stays so, plan again without that node. Before the seats
        are open their room is not there, and nothing else is to be expected.
        """
        if flight.state is not State.OPEN:
            return
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
            self.flights.spawn(self._change_seat(flight, pod))

    async def _change_seat(self, flight: Flight, pod: Pod) -> None:
        """Plan again without the refused node for this member's class."""
        async with self._lock:
            if flight.cancelled or pod.uid not in flight.seats:
                return
            node = flight.seats[pod.uid]
            why = f"kube-scheduler does not accept {pod.name} on {node}"
            if flight.replans >= self._settings.seats.max_replans:
                why += f", and seats were changed {flight.replans} times already"
                self.flights.end(flight, "gave-up", why, penal=True)
                return
            masks = self._masks.setdefault(flight.key, {})
            for uid, twin in flight.pods.items():
                if uid == pod.uid or _alike(twin, pod):
                    masks[uid] = masks.get(uid, frozenset()) | {node}
            single = single_gang(pod) if flight.key.dialect == SINGLE else None
            self.flights.leave(flight)
            result = await self._plan(flight.key, "loop", None, single, masks)
            if isinstance(result, Flight):
                result.replans = flight.replans + 1
                result.started = flight.started
            else:
                why += f", and there is no other plan: {result.message}"
                self.flights.end(flight, "gave-up", why, penal=True)

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
        """Look at deadlines and waiting gangs until ``stop`` is set."""
        while not stop.is_set():
            try:
                await self.tick()
            except Exception:  # one bad gang must not end the loop for all others
                log.exception("tick failed")
            try:
                await asyncio.wait_for(stop.wait(), period)
            except TimeoutError:
                continue

    async def tick(self) -> None:
        """One round: end overdue plans, then plan waiting gangs, most urgent first."""
        if not self.recovered or not self._source.synced:
            return
        for flight in self.book:
            overdue = self.flights.overdue(flight)
            if overdue is not None:
                self.flights.end(flight, "gave-up", overdue, penal=True)
        await self._planner_thread.show(self._source.snapshot)
        if self.stale() is None:
            for gang in self._unplanned():
                await self.ensure(gang.key, "loop")

    def _unplanned(self) -> list[Gang]:
        """Return gangs that kube-scheduler has tried and that have no plan, most urgent first."""
        keys = [key for key in self._pending_gangs.keys() if self.book.get(key) is None]  # noqa: SIM118
        if not keys:
            return []
        snapshot = self._source.snapshot()
        gangs = [self.resolver.resolve(key, snapshot) for key in keys]
        ready = [gang for gang in gangs if gang.starts_whole and gang.missing and gang.complete]
        ready.sort(key=lambda g: (-g.preemptor_priority, min(p.created for p in g.members), g.key))
        return ready

    # -- restart ------------------------------------------------------------------------

    async def recover(self) -> None:
        """Read the plan records and go on with each, or give it up cleanly.

        To be called once, after the caches are synced and before any verb is
        answered. Raises ApiError when the records cannot be read: acting
        without them could forget seats.
        """
        for record in await self.flights.load_records():
            flight = self.flights.resume(record)
            if flight is None:
                continue
            decision = of_plan(flight.plan, time=self._clocks.wall(), verb="recovery", seconds=0.0)
            message = (
                f"goes on after a restart: {len(flight.seats)} seats to fill, "
                f"{len(flight.victims)} victims left, "
                f"{len(flight.victims.keys() - flight.sent)} evictions to send"
            )
            self._decide(replace(decision, message=message))
            self.flights.start(flight)
        await self._planner_thread.show(self._source.snapshot)
        self.recovered = True

    async def close(self) -> None:
        """Stop background work. Plans stay recorded; the next start goes on with them."""
        await self.flights.close()
        self._planner_thread.close()


def _alike(one: Pod, other: Pod) -> bool:
    """Whether two members may trade seats."""
    return one.uid != other.uid and (one.requests, one.shape) == (other.requests, other.shape)
